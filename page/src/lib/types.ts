/** What the people's API answers: docs/openapi/people.json. Times are UTC, RFC 3339. */

export type Json = null | boolean | number | string | Json[] | JsonObject;
export interface JsonObject {
  [name: string]: Json;
}

export type Mode = "autonomous" | "notification" | "veto" | "gated" | "compound";
export type Radius = "self" | "project" | "repo" | "fleet" | "public";

export interface Me {
  id: string;
  tenant: string;
  kind: string;
  roles: string[];
  now: string;
}

export interface Hop {
  who: string;
  outcome?: string;
}

export interface Approval {
  action: JsonObject;
  summary: string;
  digest: string;
  approvers?: string[];
  requesters: string[];
  approvedBy: string[];
  required: number;
}

export interface Vote {
  who: string;
  decision?: string;
  insteadOf?: string;
}

export interface Delivery {
  status: "accepted" | "delivered" | "retrying" | "not-needed";
  at?: string;
}

export type WhyNot = "requester" | "not-named" | "not-approver" | "closed" | "window";

export interface Checkpoint {
  taskId: string;
  checkpointId: string;
  kind: "prompt" | "approval" | "window";
  number: number;
  dispatch: boolean;
  chain: Hop[];
  agent: string;
  skill: string;
  requestedBy: string;
  prompt: string;
  responseSchema: JsonObject;
  allowedResponders: string[];
  needed: number;
  votes: number;
  askedAt: string;
  deadline?: string;
  status: string;
  approval?: Approval;
  digest: string;
  mode: Mode;
  radius?: Radius;
  claim?: { who: string; until: string; note?: string };
  mayDecide: boolean;
  whyNot?: WhyNot;
  votesBy?: Vote[];
  extendedBy?: string;
  ifUnanswered?: { what: "waits" | "passed-on" | "escalated" | "ended" | "starts"; at?: string };
  closedAt?: string;
  decidedBy?: string;
  outcome?: string;
  comment?: string;
  delivery?: Delivery;
}

export interface CheckpointPage {
  checkpoints: Checkpoint[];
  cursor?: string;
  now: string;
}

export interface Admitted {
  status: "accepted" | "counted";
}

export interface BatchItem {
  taskId: string;
  checkpointId: string;
  digest: string;
  decision: "approve" | "deny";
  comment?: string;
  viewedMs?: number;
}

export interface BatchResult {
  taskId: string;
  checkpointId: string;
  status?: Admitted["status"];
  error?: Refusal;
}

export interface Violation {
  /** A JSON pointer into the payload. */
  path: string;
  keyword: string;
  message: string;
}

export interface Refusal {
  code: number;
  status: string;
  message: string;
  reason?: string;
  validation_errors?: Violation[];
}

export interface Halt {
  scope: string;
  generation: number;
  on: boolean;
  reason: string;
  by: string;
  haltedAt: string;
  walkedAt?: string;
  resumedAt?: string;
  resumedBy?: string;
}

export interface Halts {
  halts: Halt[];
  now: string;
}

export interface HaltReport extends Halt {
  counts?: { asked: number; confirmed: number; abandoned: number; withdrawn: number };
  stopped: Stopped[];
  cursor?: string;
}

export interface Stopped {
  tenant: string;
  taskId: string;
  turn: number;
  state: "asked" | "confirmed" | "abandoned" | "withdrawn";
  stoppedAt: string;
  endedAt?: string;
}

export interface Lifted {
  status: "lifted" | "nothing" | "halted-anew";
}

export interface Skill {
  skill: string;
  name?: string;
  mode: Mode;
  source: "declared" | "malformed" | "undeclared" | "radius" | "override";
  declared?: string;
  radius?: Radius;
  override?: string;
  vetoTtlMs?: number;
  reviewer?: string;
  note?: string;
  problem?: string;
  halted?: string;
}

export interface FleetAgent {
  agent: string;
  skills: Skill[];
  url?: string;
  peer?: string;
  addedBy?: string;
  addedAt?: string;
  fetchedAt?: string;
  triedAt?: string;
  stale?: boolean;
  problem?: string;
  halted?: string;
  questions?: number;
}

export interface Fleet {
  agents: FleetAgent[];
  now: string;
}

export interface TreeNode {
  level: number;
  taskId?: string;
  agent?: string;
  skill?: string;
  state?: string;
  delegation?: { id: string; to: string; status: string; outcome?: string; child?: string };
}

export interface Tree {
  nodes: TreeNode[];
  complete: boolean;
}

export interface Absence {
  who: string;
  substitute: string;
  since: string;
  until: string;
  saidBy: string;
}

export interface Absences {
  away: Absence[];
  now: string;
}

export interface Changes {
  since: string;
  changed: string[];
  now: string;
}

export interface Day {
  date: string;
  approved: number;
  denied: number;
  answered: number;
  changesRequested: number;
  expired: number;
  canceled: number;
  medianWaitSeconds?: number;
  p90WaitSeconds?: number;
}

export interface Statistics {
  days: Day[];
  byPerson: { who: string; decisions: number; approvedUnder3s: number; share: number }[];
  sampled: number;
  complete: boolean;
  now: string;
}

/** Of the schema `a2a-audit/1`: what is shown of it; there is more. */
export interface AuditRecord {
  seq: number;
  time: string;
  kind: string;
  method?: string;
  actor?: { scheme: string; subject: string };
  taskId?: string;
  outcome?: { status: string; error?: string };
  detail?: { decision?: Json };
}

export interface AuditPage {
  records: AuditRecord[];
  cursor?: string;
  looked: number;
  now: string;
}

/** What opens a checkpoint, and tells it from all others. */
export const keyOf = (of: { taskId: string; checkpointId: string }): string =>
  `${of.taskId}/${of.checkpointId}`;
