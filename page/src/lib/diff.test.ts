import { expect, test } from "vitest";
import { changes } from "./diff";

test("only what differs is named, at the deepest place", () => {
  const before = { tool: "refund", order: { id: 1, lines: [1, 2, 3] }, gone: null };
  const after = { tool: "refund", order: { id: 2, lines: [1, 5] }, come: false };
  expect(changes(before, after)).toEqual([
    { path: ["order", "id"], before: 1, after: 2 },
    { path: ["order", "lines", "1"], before: 2, after: 5 },
    { path: ["order", "lines", "2"], before: 3 },
    { path: ["gone"], before: null },
    { path: ["come"], after: false },
  ]);
});

test("another kind of value is another value", () => {
  expect(changes({ a: "1" }, { a: 1 })).toEqual([{ path: ["a"], before: "1", after: 1 }]);
  expect(changes({ a: [] }, { a: {} })).toEqual([{ path: ["a"], before: [], after: {} }]);
});

test("what is equal has no changes, whatever the order of its names", () => {
  expect(changes({ a: 1, b: [{ c: null }] }, { b: [{ c: null }], a: 1 })).toEqual([]);
});

test("a name that means something to a program is a name", () => {
  const after = JSON.parse('{"__proto__": {"admin": true}}');
  expect(changes({}, after)).toEqual([{ path: ["__proto__"], after: { admin: true } }]);
});
