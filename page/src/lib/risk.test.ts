import { expect, test } from "vitest";
import { riskOf } from "./risk";

test.each([
  ["autonomous", undefined, undefined],
  ["autonomous", "self", undefined],
  ["notification", "repo", "guarded"],
  ["veto", undefined, "guarded"],
  ["gated", undefined, "high"],
  ["autonomous", "fleet", "high"],
  ["gated", "fleet", "critical"],
  ["autonomous", "public", "critical"],
  ["compound", "public", "critical"],
] as const)("%s reaching %s is %s", (mode, radius, risk) => {
  expect(riskOf(mode, radius)).toBe(risk);
});
