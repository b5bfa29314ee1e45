import { expect, test } from "vitest";
import { covers } from "./scope";

const refund = { agent: "billing", skill: "refund" };

test.each(["all", "tenant:acme", "agent:acme/billing", "skill:acme/refund"])("%s covers it", (scope) => {
  expect(covers(scope, "acme", refund)).toBe(true);
});

test.each([
  "tenant:other",
  "agent:other/billing",
  "agent:acme/refund",
  "skill:acme/billing",
  "agent:billing",
])("%s does not", (scope) => {
  expect(covers(scope, "acme", refund)).toBe(false);
});
