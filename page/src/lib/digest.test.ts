import { expect, test } from "vitest";
import { digestOf, shortDigest } from "./digest";

test("the digest is the server's", async () => {
  const action = { tool: "refund", order: 1182, amount: "40.00" };
  expect(await digestOf(action)).toBe(
    "sha256:9dfdaf0fdc48912f539a8dcef195052a1959f82f4880c2ec3d0730fa96ad538c",
  );
});

test("the order of names is nothing, a value is everything", async () => {
  const one = await digestOf({ a: 1, b: [true, null] });
  expect(await digestOf({ b: [true, null], a: 1 })).toBe(one);
  expect(await digestOf({ a: 1, b: [true, false] })).not.toBe(one);
});

test("no name is lost", async () => {
  expect(await digestOf(JSON.parse('{"__proto__": 1}'))).not.toBe(await digestOf({}));
});

test("numbers and characters are written as RFC 8785 says", async () => {
  const value = JSON.parse(
    '{"n": [1.0, 1e21, -0, 1e-7], "\\ufb33": "\\ud83d\\ude00", "\\ud83d\\ude00": "\\u20ac"}',
  );
  // Of {"n":[1,1e+21,0,1e-7],"😀":"€","דּ":"😀"}, by the server's library.
  expect(await digestOf(value)).toBe(
    "sha256:b0720d49ed35b6317595dbaeedab66780630fb0e9b077d234d31fd98dda4bca3",
  );
});

test("what is short is its beginning", () => {
  expect(shortDigest("sha256:0123456789abcdef")).toBe("sha256:0123456789ab");
});
