import type { en } from "./en";

type Like<T> = T extends (...given: infer Given) => string
  ? (...given: Given) => string
  : T extends string
    ? string
    : T extends readonly string[]
      ? readonly string[]
      : { [Key in keyof T]: Like<T[Key]> };

/** What each language has to say: the same keys as English, with the same places for what is put in. */
export type Catalogue = Like<typeof en>;
