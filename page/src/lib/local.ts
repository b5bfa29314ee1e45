/** What a `datetime-local` field holds for `time`: local, to the minute; milliseconds. */
export function localOf(time: number): string {
  const date = new Date(time);
  return new Date(time - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** The time that such a field holds, as of RFC 3339 in UTC; undefined where it holds none. */
export function utcOf(local: string): string | undefined {
  const time = Date.parse(local);
  return Number.isNaN(time) ? undefined : new Date(time).toISOString();
}
