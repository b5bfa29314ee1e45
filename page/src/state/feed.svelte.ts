import { api, Lost, Refused } from "../lib/api";

const SOONEST = 1000;
const LATEST = 30_000;

export type Topic = "checkpoints" | "halts" | "fleet";

/**
 * Wakes whoever shows something when the server says that it has changed, and after it was out of reach. It
 * rests while nobody looks, and backs off while nothing answers.
 */
class Feed {
  /** Out of reach since this local time; undefined while it answers. */
  lostSince = $state<number>();
  #since: string | undefined;
  #listeners = new Map<Topic, Set<() => void>>();
  #failures = 0;
  #awake: (() => void) | undefined;
  #pending: AbortController | undefined;

  constructor() {
    addEventListener("online", () => this.#awake?.());
    addEventListener("offline", () => this.#pending?.abort());
    document.addEventListener("visibilitychange", () =>
      document.hidden ? this.#pending?.abort() : this.#awake?.(),
    );
  }

  /** Runs `listener` on changes of `topic`, until what is returned is called. */
  on(topic: Topic, listener: () => void): () => void {
    const listeners = this.#listeners.get(topic) ?? new Set();
    this.#listeners.set(topic, listeners.add(listener));
    return () => listeners.delete(listener);
  }

  /** Follows for as long as the page is open. */
  async follow(): Promise<never> {
    for (;;) {
      if (document.hidden) await this.#rest();
      await this.#once();
    }
  }

  async #once(): Promise<void> {
    this.#pending = new AbortController();
    try {
      const { since, changed } = await api.changes(this.#since, this.#pending.signal);
      // After a break what came meanwhile may be older than the token, so all is read.
      const first = this.#since === undefined;
      this.#since = since;
      this.#failures = 0;
      this.lostSince = undefined;
      for (const topic of first ? this.#listeners.keys() : changed) this.#tell(topic);
    } catch (error) {
      if (error instanceof Refused && error.status < 500) this.#since = undefined;
      if (!(error instanceof Lost || error instanceof Refused) && navigator.onLine) return;
      this.#since = undefined;
      this.lostSince ??= Date.now();
      await this.#rest(Math.min(LATEST, SOONEST * 2 ** this.#failures++) * (0.75 + Math.random() / 2));
    }
  }

  #tell(topic: string): void {
    for (const listener of this.#listeners.get(topic as Topic) ?? []) listener();
  }

  /** Until something wakes, and at most for `milliseconds`. */
  #rest(milliseconds?: number): Promise<void> {
    return new Promise((resolve) => {
      this.#awake = resolve;
      if (milliseconds !== undefined) setTimeout(resolve, milliseconds);
    });
  }
}

export const feed = new Feed();
