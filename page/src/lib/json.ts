import type { JsonObject } from "./types";

/** The object that `text` is as JSON, or what is wrong with it. */
export function objectOf(
  text: string,
): { value: JsonObject; fault?: never } | { value?: never; fault: string } {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value))
      return { value: value as JsonObject };
    return { fault: "{ … }" };
  } catch (error) {
    return { fault: error instanceof Error ? error.message : String(error) };
  }
}
