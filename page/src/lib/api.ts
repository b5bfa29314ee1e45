import { clock } from "../state/clock.svelte";
import { session } from "../state/session.svelte";
import type * as t from "./types";

/** The server has said no. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    readonly refusal: t.Refusal,
  ) {
    super(refusal.message);
  }

  get halted(): boolean {
    return this.status === 503 && this.message.startsWith("halted");
  }
}

/** Nothing came back, or that something broke: what was asked for may have happened. */
export class Lost extends Error {}

interface Call {
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  /** Whether what `now` says was taken half way between asking and hearing. */
  isPrompt?: boolean;
}

const HERE = new URL("../people/", document.baseURI);

async function call<T>(method: string, path: string, options: Call = {}): Promise<T> {
  const token = session.token ?? (await session.another(null));
  const answer = await send(method, path, options, token);
  if (answer.status !== 401) return read<T>(answer, options);
  const another = await session.another(token);
  return read<T>(await send(method, path, options, another), options);
}

interface Answer {
  status: number;
  body: unknown;
  sent: number;
}

async function send(method: string, path: string, options: Call, token: string): Promise<Answer> {
  const sent = Date.now();
  const { body, headers, signal } = options;
  try {
    const response = await fetch(new URL(path, HERE), {
      method,
      headers: {
        Authorization: `Bearer ${token}`,
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(signal ? { signal } : {}),
      cache: "no-store",
      credentials: "omit",
    });
    return { status: response.status, body: await response.json().catch(() => undefined), sent };
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Lost(String(error));
  }
}

function read<T>({ status, body, sent }: Answer, { isPrompt = true }: Call = {}): T {
  if (status >= 400) {
    const refused = new Refused(status, refusalOf(status, body));
    throw status >= 500 && !refused.halted ? new Lost(refused.message) : refused;
  }
  if (isPrompt && typeof body === "object" && body !== null && "now" in body && typeof body.now === "string")
    clock.heard(body.now, sent, Date.now());
  return body as T;
}

function refusalOf(status: number, body: unknown): t.Refusal {
  if (typeof body === "object" && body !== null && "error" in body) return body.error as t.Refusal;
  // A gateway in between speaks for itself.
  return { code: status, status: "UNKNOWN", message: `HTTP ${status}` };
}

function query(parameters: Record<string, string | number | undefined>): string {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== "");
  return given.length ? "?" + new URLSearchParams(given.map(([name, value]) => [name, String(value)])) : "";
}

const at = (of: { taskId: string; checkpointId: string }): string =>
  `tasks/${encodeURIComponent(of.taskId)}/checkpoints/${encodeURIComponent(of.checkpointId)}`;

type Place = { taskId: string; checkpointId: string };

export const api = {
  /** Whose token this is. Asked before there is a session. */
  meAs: async (token: string) => read<t.Me>(await send("GET", "me", {}, token)),

  waiting: (cursor?: string) => call<t.CheckpointPage>("GET", `checkpoints${query({ cursor })}`),
  history: (cursor?: string) => call<t.CheckpointPage>("GET", `history${query({ cursor })}`),
  checkpoint: (of: Place) => call<t.Checkpoint>("GET", at(of)),
  tree: (taskId: string) => call<t.Tree>("GET", `tasks/${encodeURIComponent(taskId)}/tree`),

  answer: (of: Place, body: { payload: t.JsonObject; digest: string; viewedMs: number }, key: string) =>
    call<t.Admitted>("POST", `${at(of)}/answer`, { body, headers: { "Idempotency-Key": key } }),
  decide: (
    of: Place,
    body: {
      decision: "approve" | "deny" | "changes";
      digest: string;
      comment?: string;
      edited?: t.JsonObject;
      viewedMs: number;
    },
  ) => call<t.Admitted>("POST", `${at(of)}/decide`, { body }),
  decideAll: (items: t.BatchItem[]) =>
    call<{ results: t.BatchResult[] }>("POST", "decisions", { body: { items } }),
  veto: (taskId: string) => call<unknown>("POST", `tasks/${encodeURIComponent(taskId)}/cancel`),

  claim: (of: Place) => call<t.Checkpoint>("POST", `${at(of)}/claim`, { body: {} }),
  unclaim: (of: Place) => call<t.Checkpoint>("DELETE", `${at(of)}/claim`),
  extend: (of: Place, until: string) => call<t.Checkpoint>("POST", `${at(of)}/extend`, { body: { until } }),
  passOn: (of: Place, body: { to: string; comment?: string }) =>
    call<t.Checkpoint>("POST", `${at(of)}/pass-on`, { body }),

  away: () => call<t.Absences>("GET", "away"),
  setAway: (body: { substitute: string; until: string; since?: string }) =>
    call<t.Absence>("PUT", "away", { body }),
  back: () => call<unknown>("DELETE", "away"),

  halts: () => call<t.Halts>("GET", "halts"),
  halt: (body: { scope: string; reason: string }) => call<t.HaltReport>("POST", "halts", { body }),
  resume: (body: { scope: string; generation: number }) => call<t.Lifted>("POST", "halts/resume", { body }),
  report: (scope: string, generation: number) =>
    call<t.HaltReport>("GET", `halts/report${query({ scope, generation })}`),

  fleet: () => call<t.Fleet>("GET", "fleet"),
  statistics: (days: number) => call<t.Statistics>("GET", `statistics${query({ days })}`),

  audit: (of: Record<"task" | "who" | "kind" | "after" | "before" | "cursor", string | undefined>) =>
    call<t.AuditPage>("GET", `audit${query(of)}`),

  changes: (since: string | undefined, signal: AbortSignal) =>
    call<t.Changes>("GET", `changes${query({ since, wait: since === undefined ? undefined : 25 })}`, {
      signal,
      isPrompt: false,
    }),
};
