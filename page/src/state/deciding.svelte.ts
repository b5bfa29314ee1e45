import { api, Lost, Refused } from "../lib/api";
import { digestOf, shownOf } from "../lib/digest";
import type { Admitted, Checkpoint, Delivery, JsonObject, Violation } from "../lib/types";
import { clock } from "./clock.svelte";
import { session } from "./session.svelte";

/** What a person says about a checkpoint. */
export type Said =
  | { does: "approve" | "deny" | "changes"; comment?: string; edited?: JsonObject }
  | { does: "answer"; payload: JsonObject }
  | { does: "veto" };

/** What has become of it, as far as is known. */
export type Outcome =
  | { is: "idle" }
  | { is: "sending" }
  | { is: "unknown" }
  | { is: "accepted"; at: number; does: Said["does"]; delivery?: Delivery }
  | { is: "counted" }
  | { is: "closed"; checkpoint: Checkpoint }
  | { is: "changed" }
  | { is: "differs" }
  | { is: "halted"; reason: string }
  | { is: "refused"; why: string }
  | { is: "invalid"; violations: Violation[] };

const SOONEST = 400;
const LATEST = 5000;
const TRIES = 40;

const pause = (milliseconds: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, milliseconds));

/** One decision of one person, from the click to the truth. */
export class Deciding {
  outcome = $state.raw<Outcome>({ is: "idle" });
  #key = crypto.randomUUID();
  #left = false;

  /** Whether a click does anything. */
  get open(): boolean {
    return ["idle", "invalid", "refused", "halted", "changed"].includes(this.outcome.is);
  }

  /** Whether a click is on its way: what was typed stays, for it may be refused. */
  get busy(): boolean {
    return this.outcome.is === "sending" || this.outcome.is === "unknown";
  }

  /** The card is no longer there: nothing is followed any more. */
  readonly leave = (): void => {
    this.#left = true;
  };

  /** Says `said` of what is shown, `viewed` milliseconds after it was first seen. */
  async send(checkpoint: Checkpoint, said: Said, viewed: number): Promise<void> {
    if (!this.open) return;
    this.outcome = { is: "sending" };
    if ((await digestOf(shownOf(checkpoint)).catch(() => undefined)) !== checkpoint.digest) {
      this.outcome = { is: "differs" };
      return;
    }
    for (let tried = 0; !this.#left; tried++) {
      try {
        const { status } = await this.#say(checkpoint, said, viewed);
        return await this.#admitted(checkpoint, status, said);
      } catch (error) {
        if (error instanceof Refused) return this.#refused(checkpoint, said, error);
        if (!(error instanceof Lost)) throw error;
        this.outcome = { is: "unknown" };
        await pause(Math.min(SOONEST * 2 ** tried, LATEST));
        if (await this.#isRecorded(checkpoint, said)) return;
      }
    }
  }

  #say(checkpoint: Checkpoint, said: Said, viewedMs: number): Promise<Admitted> {
    const { digest } = checkpoint;
    switch (said.does) {
      case "answer":
        return api.answer(checkpoint, { payload: said.payload, digest, viewedMs }, this.#key);
      case "veto":
        return api.veto(checkpoint.taskId).then(() => ({ status: "accepted" }));
      default: {
        const { does: decision, ...rest } = said;
        return api.decide(checkpoint, { decision, digest, viewedMs, ...rest });
      }
    }
  }

  async #admitted(checkpoint: Checkpoint, status: Admitted["status"], said: Said): Promise<void> {
    if (status === "counted") {
      this.outcome = { is: "counted" };
      return;
    }
    const accepted = { is: "accepted", at: clock.exact(), does: said.does } as const;
    this.outcome = accepted;
    for (let tried = 0; tried < TRIES && !this.#left; tried++) {
      const now = await api.checkpoint(checkpoint).catch(() => undefined);
      if (now?.delivery) this.outcome = { ...accepted, delivery: now.delivery };
      if (now?.delivery?.status === "delivered" || now?.delivery?.status === "not-needed") return;
      await pause(Math.min(SOONEST * 1.5 ** tried, LATEST));
    }
  }

  async #refused(checkpoint: Checkpoint, said: Said, error: Refused): Promise<void> {
    if (error.status === 422) {
      this.outcome = { is: "invalid", violations: error.refusal.validation_errors ?? [] };
    } else if (error.halted) {
      this.outcome = { is: "halted", reason: error.message.replace(/^halted: ?/, "") };
    } else if (!(await this.#isSettled(checkpoint, said).catch(() => false))) {
      this.outcome = { is: "refused", why: error.message };
    }
  }

  /** After a reply was lost: whether what is there now says that the decision is recorded, or too late. */
  async #isRecorded(checkpoint: Checkpoint, said: Said): Promise<boolean> {
    try {
      return await this.#isSettled(checkpoint, said);
    } catch (error) {
      if (error instanceof Lost || error instanceof Refused) return false;
      throw error;
    }
  }

  async #isSettled(checkpoint: Checkpoint, said: Said): Promise<boolean> {
    const now = await api.checkpoint(checkpoint);
    const me = session.me?.id;
    if (now.status !== "open") {
      if (now.decidedBy === me && now.status !== "expired")
        await this.#admitted(checkpoint, "accepted", said);
      else this.outcome = { is: "closed", checkpoint: now };
      return true;
    }
    if (now.digest !== checkpoint.digest) {
      this.outcome = { is: "changed" };
      return true;
    }
    if (now.votesBy?.some((vote) => vote.who === me)) {
      this.outcome = { is: "counted" };
      return true;
    }
    return false;
  }
}
