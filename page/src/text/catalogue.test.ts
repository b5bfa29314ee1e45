import { expect, test } from "vitest";
import { de } from "./de";
import { en } from "./en";

/** The paths of all texts, with how many values each puts in. */
const shape = (value: unknown, path = ""): string[] =>
  typeof value === "object" && value !== null
    ? Object.entries(value).flatMap(([name, inner]) => shape(inner, `${path}.${name}`))
    : [`${path} ${typeof value === "function" ? value.length : typeof value}`];

test("each language says the same", () => {
  expect(shape(de)).toEqual(shape(en));
});

test("no text is empty but the one for a scope without a name", () => {
  const texts = (value: unknown): string[] =>
    typeof value === "string"
      ? [value]
      : typeof value === "object"
        ? Object.values(value as object).flatMap(texts)
        : [];
  for (const language of [en, de])
    expect(texts(language).filter((text) => text.trim() === "")).toHaveLength(1);
});
