import { expect, test } from "vitest";
import { parts, urgency } from "./countdown";

const HOUR = 3_600_000;

test.each([
  ["none", undefined, 0],
  ["calm", HOUR, 0],
  ["calm", HOUR, HOUR * 0.8],
  ["amber", HOUR, HOUR * 0.8 + 1],
  ["amber", HOUR, HOUR - 60_000],
  ["red", HOUR, HOUR - 59_999],
  ["red", HOUR, HOUR - 1],
  ["over", HOUR, HOUR],
  ["over", HOUR, HOUR + 1],
])("it is %s when %s is due at %s", (state, end, now) => {
  expect(urgency(0, end, now)).toBe(state);
});

test("what is short is red from the beginning, never amber", () => {
  expect(urgency(0, 30_000, 0)).toBe("red");
});

test.each([
  [0, [[0, "second"]]],
  [-5, [[0, "second"]]],
  [1, [[1, "second"]]],
  [
    61_000,
    [
      [1, "minute"],
      [1, "second"],
    ],
  ],
  [
    2 * HOUR + 60_000,
    [
      [2, "hour"],
      [1, "minute"],
    ],
  ],
  [
    49 * HOUR,
    [
      [2, "day"],
      [1, "hour"],
    ],
  ],
])("%s ms are said as %j", (milliseconds, said) => {
  expect(parts(milliseconds)).toEqual(said);
});
