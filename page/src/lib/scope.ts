import type { Checkpoint } from "./types";

/** Whether a halt of `scope` covers `checkpoint` of `tenant`: everything, the tenant, the agent, or the skill. */
export function covers(
  scope: string,
  tenant: string,
  { agent, skill }: Pick<Checkpoint, "agent" | "skill">,
): boolean {
  return ["all", `tenant:${tenant}`, `agent:${tenant}/${agent}`, `skill:${tenant}/${skill}`].includes(scope);
}
