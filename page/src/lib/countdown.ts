/** How urgent the time that is left is: amber below a fifth of all of it, red below a minute. */
export type Urgency = "none" | "calm" | "amber" | "red" | "over";

const MINUTE = 60_000;

/** Times in milliseconds; `end` is undefined where nothing ends. */
export function urgency(start: number, end: number | undefined, now: number): Urgency {
  if (end === undefined) return "none";
  const left = end - now;
  if (left <= 0) return "over";
  if (left < MINUTE) return "red";
  return left < (end - start) / 5 ? "amber" : "calm";
}

/** The two largest units that are worth saying, as in `[[2, "day"], [3, "hour"]]`; seconds only below an hour. */
export function parts(milliseconds: number): [number, "day" | "hour" | "minute" | "second"][] {
  const seconds = Math.max(0, Math.ceil(milliseconds / 1000));
  const days = Math.floor(seconds / 86_400);
  const hours = Math.floor((seconds % 86_400) / 3600);
  const minutes = Math.floor((seconds % 3600) / 60);
  if (days > 0)
    return [
      [days, "day"],
      [hours, "hour"],
    ];
  if (hours > 0)
    return [
      [hours, "hour"],
      [minutes, "minute"],
    ];
  if (minutes > 0)
    return [
      [minutes, "minute"],
      [seconds % 60, "second"],
    ];
  return [[seconds, "second"]];
}
