import { expect, test } from "vitest";
import { filled, formable, missing, pathOf, type Field } from "./formable";
import type { JsonObject } from "./types";

const object = (properties: JsonObject, more: JsonObject = {}): JsonObject => ({
  type: "object",
  properties,
  ...more,
});

test("a form has what can be shown, and nothing to evaluate", () => {
  const schema = object(
    {
      approved: { type: "boolean", default: true },
      size: { enum: ["S", "M"], default: "S" },
      code: { type: "string", pattern: "^(a+)+$", maxLength: 9, format: "regex" },
      lines: { type: "array", items: { $ref: "#/$defs/line" } },
    },
    {
      required: ["approved"],
      $defs: { line: object({ n: { type: "integer", minimum: 1 } }, { required: ["n"] }) },
    },
  );
  expect(formable(schema)).toEqual({
    type: "object",
    required: ["approved"],
    properties: {
      approved: { type: "boolean", title: "approved" },
      size: { type: "string", enum: ["S", "M"], title: "size" },
      code: { type: "string", maxLength: 9, title: "code" },
      lines: {
        type: "array",
        title: "lines",
        uniqueItems: false,
        items: {
          type: "object",
          required: ["n"],
          properties: { n: { type: "integer", minimum: 1, title: "n" } },
        },
      },
    },
  });
});

test("titles of strangers are texts in which nothing hides", () => {
  const form = formable(
    object({ a: { type: "string", title: "<img src=x>\u202e", description: "a\u200bb" } }),
  );
  expect(form?.properties?.["a"]).toMatchObject({ title: "<img src=x>⟨U+202E⟩", description: "a⟨U+200B⟩b" });
});

const deep = (levels: number): JsonObject =>
  levels === 0 ? { type: "string" } : object({ v: deep(levels - 1) });

test.each<[string, JsonObject]>([
  ["conditions", object({ a: { type: "string" } }, { if: {}, then: {} })],
  ["alternatives of objects", object({ a: { oneOf: [object({}), object({})] } })],
  ["several types", object({ a: { type: ["string", "null"] } })],
  ["no type", object({ a: {} })],
  ["a schema that is true", object({ a: true })],
  ["a name of every object", object(JSON.parse('{"__proto__": {"type": "string"}}') as JsonObject)],
  ["another name of every object", object({ constructor: { type: "string" } })],
  ["a name that hides something", object({ "a\u200b": { type: "string" } })],
  ["a reference to elsewhere", object({ a: { $ref: "https://example.com/x" } })],
  ["a reference to nothing", object({ a: { $ref: "#/$defs/x" } })],
  ["a reference to itself", object({ a: { $ref: "#/properties/a" } })],
  ["a reference through itself", object({ a: { $ref: "#" } })],
  ["too deep", deep(20)],
  [
    "too many fields",
    object(Object.fromEntries(Array.from({ length: 200 }, (_, n) => [`f${n}`, { type: "string" }]))),
  ],
  ["too many choices", object({ a: { enum: Array.from({ length: 5000 }, (_, n) => n) } })],
  ["choices of objects", object({ a: { enum: [{}] } })],
  ["a boolean with one choice", object({ a: { enum: [true] } })],
  ["something needed that has no field", object({ a: { type: "string" } }, { required: ["b"] })],
  ["any names", object({ a: object({}, { additionalProperties: { type: "string" } }) })],
  ["no fields", object({})],
])("%s are no form", (_name, schema) => {
  expect(formable(schema)).toBeUndefined();
});

const form = formable(
  object(
    {
      yes: { type: "boolean" },
      note: { type: "string" },
      name: { type: "string" },
      inner: object({ a: { type: "string" } }),
      needed: object({ b: { type: "number" } }, { required: ["b"] }),
      list: { type: "array", items: object({ n: { type: "number" } }, { required: ["n"] }) },
    },
    { required: ["yes", "name", "needed"] },
  ),
) as Field;

test("what was left empty though it may be is not sent", () => {
  expect(filled({ yes: false, note: "", name: "", inner: { a: "" }, needed: {}, list: [] }, form)).toEqual({
    yes: false,
    name: "",
    needed: {},
  });
});

test("what is needed is named where it is missing", () => {
  expect(missing({ name: "", needed: {}, list: [{}, { n: 1 }, null] }, form)).toEqual([
    ["yes"],
    ["needed", "b"],
    ["list", 0, "n"],
    ["list", 2],
  ]);
  expect(missing({ yes: false, name: "x", needed: { b: 0 } }, form)).toEqual([]);
});

test("a pointer is the path of a field", () => {
  expect(pathOf("/a~1b/0/~0", { "a/b": [{ "~": 1 }] })).toEqual(["a/b", 0, "~"]);
  expect(pathOf("", {})).toEqual([]);
});
