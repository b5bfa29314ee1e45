import type { Json } from "./types";

/** One place in two values that differ: a JSON pointer in words, what was there, and what is. */
export interface Change {
  path: string[];
  before?: Json;
  after?: Json;
}

const isObject = (value: Json | undefined): value is { [name: string]: Json } =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Where `after` differs from `before`, the deepest place each. What is equal as JSON is equal. */
export function changes(before: Json, after: Json, path: string[] = []): Change[] {
  if (isObject(before) && isObject(after)) {
    const names = [
      ...Object.keys(before),
      ...Object.keys(after).filter((name) => !Object.hasOwn(before, name)),
    ];
    return names.flatMap((name) => {
      const inside = [...path, name];
      if (!Object.hasOwn(after, name)) return [{ path: inside, before: before[name] as Json }];
      if (!Object.hasOwn(before, name)) return [{ path: inside, after: after[name] as Json }];
      return changes(before[name] as Json, after[name] as Json, inside);
    });
  }
  if (Array.isArray(before) && Array.isArray(after)) {
    const longest = Math.max(before.length, after.length);
    return Array.from({ length: longest }, (_, index) => index).flatMap((index) => {
      const inside = [...path, String(index)];
      if (index >= after.length) return [{ path: inside, before: before[index] as Json }];
      if (index >= before.length) return [{ path: inside, after: after[index] as Json }];
      return changes(before[index] as Json, after[index] as Json, inside);
    });
  }
  return before === after ? [] : [{ path, before, after }];
}
