/** Two presses decide by keyboard: the first arms, a second one within its time fires. */

export const SOONEST = 250;
export const LATEST = 4000;

/** A second press before `SOONEST` milliseconds is the same press again; after `LATEST` it arms anew. */
export function press(armedAt: number | undefined, now: number): "arm" | "wait" | "fire" {
  if (armedAt === undefined || now - armedAt > LATEST) return "arm";
  return now - armedAt < SOONEST ? "wait" : "fire";
}
