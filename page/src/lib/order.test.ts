import { expect, test } from "vitest";
import { append, EMPTY, reread } from "./order";

const shown = (...keys: string[]) => ({ ...EMPTY, shown: keys });

test("while frozen nothing that is shown moves", () => {
  const order = reread(shown("a", "b", "c"), ["new", "c", "a"], true, true);
  expect(order.shown).toEqual(["a", "b", "c"]);
  expect(order.arrived).toEqual(["new"]);
  expect([...order.gone]).toEqual(["b"]);
});

test("what has come is there once it is taken in, and what is gone is not", () => {
  const frozen = reread(shown("a", "b"), ["new", "a"], true, true);
  const order = reread(frozen, ["new", "a"], true, false);
  expect(order).toEqual({ shown: ["new", "a"], arrived: [], gone: new Set() });
});

test("pages below the first stay while that is read anew", () => {
  const order = reread(shown("a", "b", "c", "d"), ["a", "c"], false, false);
  expect(order.shown).toEqual(["a", "c", "d"]);
});

test("a first page with nothing of what was shown says nothing about it", () => {
  const order = reread(shown("a", "b"), ["x", "y"], false, true);
  expect(order.gone.size).toBe(0);
  expect(order.arrived).toEqual(["x", "y"]);
});

test("what is back is not gone", () => {
  const gone = reread(shown("a", "b"), ["a"], true, true);
  expect(reread(gone, ["a", "b"], true, true).gone.size).toBe(0);
});

test("one more page is below, each once", () => {
  const order = append({ ...shown("a"), arrived: ["x"] }, ["a", "x", "b"]);
  expect(order.shown).toEqual(["a", "b"]);
});
