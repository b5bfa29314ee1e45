import { expect, test } from "vitest";
import { LATEST, press, SOONEST } from "./arming";

test("the first press arms, a second one fires", () => {
  expect(press(undefined, 1000)).toBe("arm");
  expect(press(1000, 1000 + SOONEST)).toBe("fire");
  expect(press(1000, 1000 + LATEST)).toBe("fire");
});

test("a key that bounces does not fire, and one that comes late arms anew", () => {
  expect(press(1000, 1000 + SOONEST - 1)).toBe("wait");
  expect(press(1000, 1000 + LATEST + 1)).toBe("arm");
});
