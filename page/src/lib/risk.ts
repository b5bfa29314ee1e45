import type { Mode, Radius } from "./types";

export type Risk = "guarded" | "high" | "critical";

const LEVELS = [undefined, "guarded", "high", "critical"] as const;
const BY_MODE: Record<Mode, number> = { autonomous: 0, notification: 0, veto: 1, gated: 2, compound: 2 };
const BY_RADIUS: Record<Radius, number> = { self: 0, project: 0, repo: 1, fleet: 2, public: 3 };

/**
 * The higher of what the mode says and how far the skill reaches; the two together raise it by one. Undefined
 * where neither says that there is a risk, which is not the same as that there is none.
 */
export function riskOf(mode: Mode, radius: Radius | undefined): Risk | undefined {
  const byMode = BY_MODE[mode];
  const byRadius = radius === undefined ? 0 : BY_RADIUS[radius];
  const level = Math.max(byMode, byRadius) + (byMode >= 2 && byRadius >= 2 ? 1 : 0);
  return LEVELS[Math.min(level, LEVELS.length - 1)];
}
