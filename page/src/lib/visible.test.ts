import { expect, test } from "vitest";
import { pieces, visible } from "./visible";

test("what can not be seen is spelled out", () => {
  expect(pieces("pay \u202e001")).toEqual([
    { text: "pay ", hidden: false },
    { text: "U+202E", hidden: true },
    { text: "001", hidden: false },
  ]);
});

test.each([
  ["zero width", "a\u200bb", "a⟨U+200B⟩b"],
  ["a control", "a\u0000b", "a⟨U+0000⟩b"],
  ["a separator of lines", "a\u2028b", "a⟨U+2028⟩b"],
  ["an isolate", "\u2066x\u2069", "⟨U+2066⟩x⟨U+2069⟩"],
  ["half a pair", "a\ud800b", "a⟨U+D800⟩b"],
  ["a tag beyond the first plane", "a\u{e0041}", "a⟨U+E0041⟩"],
  ["a filler", "\u3164", "⟨U+3164⟩"],
  ["a variation selector", "a\ufe0f", "a⟨U+FE0F⟩"],
])("%s", (_name, text, shown) => {
  expect(visible(text)).toBe(shown);
});

test.each(["Grüße, 世界 🌍", "<b>bold</b> & {@html x}", "two\nlines\tand a tab", ""])(
  "%j stays as it is",
  (text) => {
    expect(visible(text)).toBe(text);
  },
);
