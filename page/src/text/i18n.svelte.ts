import { parts } from "../lib/countdown";
import type { Catalogue } from "./catalogue";
import { de } from "./de";
import { en } from "./en";

export const LANGUAGES = { en, de } satisfies Record<string, Catalogue>;
export type Language = keyof typeof LANGUAGES;

const KEY = "interlock.language";

const known = (tag: string | null): Language | undefined =>
  (Object.keys(LANGUAGES) as Language[]).find((language) => tag?.toLowerCase().split("-")[0] === language);

class I18n {
  #language = $state<Language>(
    known(localStorage.getItem(KEY)) ?? navigator.languages.map(known).find(Boolean) ?? "en",
  );

  get language(): Language {
    return this.#language;
  }

  set language(language: Language) {
    localStorage.setItem(KEY, language);
    this.#language = language;
  }
}

export const i18n = new I18n();

/** The language, as it is spoken in the region of whoever looks, where that is known. */
export const locale = (): string =>
  navigator.languages.find((tag) => known(tag) === i18n.language) ?? i18n.language;

/** What the page says, in the language of whoever looks. */
export const t = (): Catalogue => LANGUAGES[i18n.language];

/** The time of the day, with the date where it is another day than `now`; milliseconds. */
export function when(time: number, now: number): string {
  const sameDay = new Date(time).toDateString() === new Date(now).toDateString();
  const style: Intl.DateTimeFormatOptions = sameDay
    ? { timeStyle: "medium" }
    : { dateStyle: "medium", timeStyle: "short" };
  return new Intl.DateTimeFormat(locale(), style).format(time);
}

/** As in `2 min 5 sec`. */
export const duration = (milliseconds: number): string =>
  parts(milliseconds)
    .map(([value, unit]) =>
      new Intl.NumberFormat(locale(), { style: "unit", unit, unitDisplay: "short" }).format(value),
    )
    .join(" ");

export const percent = (share: number): string =>
  new Intl.NumberFormat(locale(), { style: "percent", maximumFractionDigits: 0 }).format(share);

export const integer = (value: number): string => new Intl.NumberFormat(locale()).format(value);
