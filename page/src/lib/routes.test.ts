import { expect, test } from "vitest";
import { format, parse } from "./routes";

test("an address is read as it was written", () => {
  const route = { view: "waiting", taskId: "a/b c", checkpointId: "ü#?" } as const;
  expect(parse(format(route))).toEqual(route);
});

test.each(["", "#", "#/", "#/nowhere", "#/%E0%A4%A", "#/waiting/only-a-task"])("%j is the list", (hash) => {
  expect(parse(hash)).toEqual({ view: "waiting" });
});
