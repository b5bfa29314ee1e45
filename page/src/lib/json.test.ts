import { expect, test } from "vitest";
import { objectOf } from "./json";

test("an object is an object, and nothing else is", () => {
  expect(objectOf('{"a": [1]}')).toEqual({ value: { a: [1] } });
  for (const text of ["", "[]", "null", "1", '"a"', "{", "{a: 1}"])
    expect(objectOf(text).fault).toBeTypeOf("string");
});
