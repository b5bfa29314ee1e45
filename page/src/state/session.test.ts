import { beforeEach, expect, test, vi } from "vitest";

const kept = new Map<string, string>();
const reload = vi.fn();

beforeEach(() => {
  kept.clear();
  reload.mockClear();
  vi.resetModules();
  vi.stubGlobal("location", { reload });
  vi.stubGlobal("sessionStorage", {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => kept.set(key, value),
    removeItem: (key: string) => kept.delete(key),
  });
});

/** What a request that was refused goes on with, of what there is after `change`. */
async function goneOnWith(change: "signedIn" | "becomes"): Promise<string[]> {
  const { session } = await import("./session.svelte");
  session.signedIn({ access: "of alice", refresh: "again" });
  const gone: string[] = [];
  void session.another("of alice").then((token) => gone.push(token));
  await vi.waitUntil(() => session.refused);
  session[change]({ access: "new" });
  await new Promise((resolve) => setTimeout(resolve));
  return gone;
}

test("whoever signs in again goes on with what they pressed", async () => {
  expect(await goneOnWith("signedIn")).toEqual(["new"]);
  expect(reload).not.toHaveBeenCalled();
});

test("what was pressed never goes on as somebody else", async () => {
  expect(await goneOnWith("becomes")).toEqual([]);
  expect(reload).toHaveBeenCalledOnce();
  expect([...kept.values()]).toEqual(["new"]);
});
