import type { Json, JsonObject } from "./types";
import { visible } from "./visible";

/**
 * A field of a form, as JSON Schema. There is nothing in it that has to be evaluated: no pattern, no reference,
 * no condition, no default.
 */
export interface Field {
  type: "string" | "number" | "integer" | "boolean" | "object" | "array";
  title?: string;
  description?: string;
  enum?: (string | number | boolean)[];
  minimum?: number;
  maximum?: number;
  maxLength?: number;
  properties?: Record<string, Field>;
  required?: string[];
  items?: Field;
  uniqueItems?: boolean;
}

const MOST_FIELDS = 80;
const DEEPEST = 5;
const MOST_OPTIONS = 500;
const TYPES = ["string", "number", "integer", "boolean", "object", "array"];
// What says more about a value than a form can.
const BEYOND = [
  "allOf",
  "not",
  "if",
  "then",
  "else",
  "dependentSchemas",
  "patternProperties",
  "prefixItems",
  "contains",
];

class Beyond extends Error {}

/** The form of `schema`, which comes from strangers; undefined where a form could not show all of it. */
export function formable(schema: JsonObject): Field | undefined {
  let left = MOST_FIELDS;

  function field(given: Json | undefined, depth: number): Field {
    if (--left < 0 || depth > DEEPEST) throw new Beyond();
    const found = resolved(given, schema);
    if (BEYOND.some((keyword) => Object.hasOwn(found, keyword))) throw new Beyond();
    const options = optionsOf(found);
    const type = typeOf(found, options);
    return {
      type,
      ...textsOf(found),
      ...(options && type !== "boolean" ? { enum: options } : {}),
      ...limitsOf(found),
      ...(type === "object" ? objectOf(found, depth) : {}),
      ...(type === "array" ? arrayOf(found, depth) : {}),
    };
  }

  function objectOf(found: JsonObject, depth: number): Partial<Field> {
    const properties = found["properties"] ?? {};
    if (!isObject(properties)) throw new Beyond();
    const names = Object.keys(properties);
    const required = Array.isArray(found["required"])
      ? found["required"].filter((name) => typeof name === "string")
      : [];
    if (names.some(isOdd) || required.some((name) => !names.includes(name))) throw new Beyond();
    if (isObject(found["additionalProperties"])) throw new Beyond();
    return {
      properties: Object.fromEntries(
        names.map((name) => [name, titled(field(properties[name], depth + 1), name)]),
      ),
      required,
    };
  }

  function arrayOf(found: JsonObject, depth: number): Partial<Field> {
    return { items: field(found["items"], depth + 1), uniqueItems: found["uniqueItems"] === true };
  }

  try {
    const root = field(schema, 0);
    return root.type === "object" && Object.keys(root.properties ?? {}).length > 0 ? root : undefined;
  } catch (error) {
    if (error instanceof Beyond) return undefined;
    throw error;
  }
}

const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Names that are something else in a program, or can not be told apart. */
const isOdd = (name: string): boolean =>
  name in Object.prototype || name.startsWith("__") || visible(name) !== name;

/** `given`, or what it refers to within the schema; a reference to a reference is followed, so far. */
function resolved(given: Json | undefined, root: JsonObject): JsonObject {
  let found = given;
  for (let followed = 0; followed < DEEPEST; followed++) {
    if (!isObject(found)) throw new Beyond();
    const reference = found["$ref"];
    if (reference === undefined) return found;
    if (typeof reference !== "string" || !reference.startsWith("#/")) throw new Beyond();
    found = reference
      .slice(2)
      .split("/")
      .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"))
      .reduce<Json | undefined>(
        (at, part) => (isObject(at) && Object.hasOwn(at, part) ? at[part] : undefined),
        root,
      );
  }
  throw new Beyond();
}

/** What can be chosen: of `enum`, `const`, or alternatives that are each a constant. */
function optionsOf(found: JsonObject): (string | number | boolean)[] | undefined {
  const alternatives = found["oneOf"] ?? found["anyOf"];
  const options =
    found["enum"] ??
    (found["const"] !== undefined ? [found["const"]] : undefined) ??
    (Array.isArray(alternatives)
      ? alternatives.map((each) => (isObject(each) ? each["const"] : undefined))
      : alternatives);
  if (options === undefined) return undefined;
  if (!Array.isArray(options) || options.length === 0 || options.length > MOST_OPTIONS) throw new Beyond();
  return options.map((option) => {
    if (typeof option === "string" || typeof option === "number" || typeof option === "boolean")
      return option;
    throw new Beyond();
  });
}

function typeOf(found: JsonObject, options: (string | number | boolean)[] | undefined): Field["type"] {
  const named =
    found["type"] ?? (options ? commonType(options) : isObject(found["properties"]) ? "object" : undefined);
  if (typeof named !== "string" || !TYPES.includes(named)) throw new Beyond();
  if (options && (named === "object" || named === "array")) throw new Beyond();
  // With one of the two only, yes and no would not both be right.
  if (options && named === "boolean" && new Set(options).size < 2) throw new Beyond();
  return named as Field["type"];
}

function commonType(options: (string | number | boolean)[]): string {
  const types = new Set(options.map((option) => typeof option));
  if (types.size > 1) throw new Beyond();
  return [...types][0] as string;
}

function textsOf(found: JsonObject): Partial<Field> {
  const { title, description } = found;
  return {
    ...(typeof title === "string" && title.trim() ? { title: visible(title) } : {}),
    ...(typeof description === "string" && description.trim() ? { description: visible(description) } : {}),
  };
}

const titled = (field: Field, name: string): Field => ({ ...field, title: field.title ?? name });

function limitsOf(found: JsonObject): Partial<Field> {
  const limits: Partial<Field> = {};
  for (const name of ["minimum", "maximum", "maxLength"] as const) {
    const limit = found[name];
    if (typeof limit === "number") limits[name] = limit;
  }
  return limits;
}

/** What was filled in, without what was left empty though it may be. */
export function filled(value: unknown, field: Field): Json | undefined {
  if (field.type === "object") {
    const given = isRecord(value) ? value : {};
    const entries = Object.entries(field.properties ?? {}).flatMap(([name, inner]): [string, Json][] => {
      const found = filled(given[name], inner);
      const isNeeded = field.required?.includes(name) ?? false;
      const isEmpty = found === undefined || found === "" || isEmptyIn(found, inner);
      return found === undefined || (isEmpty && !isNeeded) ? [] : [[name, found]];
    });
    return Object.fromEntries(entries);
  }
  if (field.type === "array") {
    const items = Array.isArray(value) ? value : [];
    return items.map((each) => filled(each, field.items as Field) ?? null);
  }
  return value === undefined ? undefined : (value as Json);
}

/** Whether nothing was put into what is made of other fields. */
function isEmptyIn(found: Json, field: Field): boolean {
  if (field.type === "array") return Array.isArray(found) && found.length === 0;
  return field.type === "object" && isObject(found) && Object.keys(found).length === 0;
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null;

/** The fields that are needed and were left empty, by their paths. */
export function missing(
  value: Json | undefined,
  field: Field,
  path: (string | number)[] = [],
): (string | number)[][] {
  if (field.type === "object") {
    const given = isObject(value) ? value : {};
    return Object.entries(field.properties ?? {}).flatMap(([name, inner]) => {
      const inside = [...path, name];
      if (Object.hasOwn(given, name)) return missing(given[name], inner, inside);
      return field.required?.includes(name) ? [inside] : [];
    });
  }
  if (field.type === "array" && Array.isArray(value))
    return value.flatMap((each, index) =>
      each === null ? [[...path, index]] : missing(each, field.items as Field, [...path, index]),
    );
  return [];
}

/** The path that the JSON pointer `pointer` is in `value`. */
export function pathOf(pointer: string, value: Json): (string | number)[] {
  const parts = pointer.split("/").slice(1);
  let at: Json | undefined = value;
  return parts.map((part) => {
    const name = part.replaceAll("~1", "/").replaceAll("~0", "~");
    if (Array.isArray(at)) {
      at = at[Number(name)];
      return Number(name);
    }
    at = isObject(at) ? at[name] : undefined;
    return name;
  });
}
