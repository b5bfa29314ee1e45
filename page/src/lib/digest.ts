import canonicalize from "canonicalize";
import type { Checkpoint, Json } from "./types";

/** `sha256:` and the lower-case hex of SHA-256 over the canonical JSON (RFC 8785) of `value`, as the server has it. */
export async function digestOf(value: Json): Promise<string> {
  const canonical = canonicalize(value);
  if (canonical === undefined) throw new TypeError("no canonical JSON");
  const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(canonical));
  return "sha256:" + Array.from(new Uint8Array(hash), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** What is shown of `checkpoint`, and what a decision about it names by digest. */
export function shownOf(checkpoint: Checkpoint): Json {
  if (checkpoint.approval) return checkpoint.approval.action;
  return { prompt: checkpoint.prompt, responseSchema: checkpoint.responseSchema };
}

/** The beginning, which is enough to compare two by eye. */
export const shortDigest = (digest: string): string => digest.slice(0, "sha256:".length + 12);
