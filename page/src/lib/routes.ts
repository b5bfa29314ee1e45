/** Where in the page one is: the part of the address after `#`. */

export const VIEWS = ["waiting", "history", "fleet", "halts", "insights", "audit"] as const;
export type View = (typeof VIEWS)[number];

export interface Route {
  view: View;
  taskId?: string;
  checkpointId?: string;
}

export function parse(hash: string): Route {
  const [view, taskId, checkpointId] = hash
    .replace(/^#?\/?/, "")
    .split("/")
    .map(decoded);
  const known = VIEWS.find((each) => each === view) ?? "waiting";
  return taskId && checkpointId ? { view: known, taskId, checkpointId } : { view: known };
}

export function format({ view, taskId, checkpointId }: Route): string {
  const parts = taskId && checkpointId ? [view, taskId, checkpointId] : [view];
  return "#/" + parts.map(encodeURIComponent).join("/");
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return "";
  }
}
