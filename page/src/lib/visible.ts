/** Texts of others as they are, with what can not be seen spelled out. The server's `visible` has the same rule. */

export interface Piece {
  text: string;
  /** The code point that is spelled out here, as in `U+202E`. */
  hidden: boolean;
}

// Controls, format characters (bidi among them), separators of lines and paragraphs, lone surrogates, and what
// Unicode lets a display leave out: joiners and fillers, variation selectors, and code points reserved for more of them.
const HIDDEN =
  /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\u{e0000}-\u{e0fff}]/u;

/** `text` in pieces. Line feeds and tabs are left as they are. */
export function pieces(text: string): Piece[] {
  const found: Piece[] = [];
  let plain = "";
  for (const character of text) {
    if (character === "\n" || character === "\t" || !HIDDEN.test(character)) {
      plain += character;
      continue;
    }
    if (plain) found.push({ text: plain, hidden: false });
    plain = "";
    found.push({ text: spelled(character), hidden: true });
  }
  if (plain) found.push({ text: plain, hidden: false });
  return found;
}

/** `text` as one string, for names of elements and titles, which can have no pieces. */
export const visible = (text: string): string =>
  pieces(text)
    .map((piece) => (piece.hidden ? `⟨${piece.text}⟩` : piece.text))
    .join("");

function spelled(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  return `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
}
