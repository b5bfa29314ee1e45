import { api } from "../lib/api";
import { append, EMPTY, reread, type Order } from "../lib/order";
import { keyOf, type Checkpoint, type CheckpointPage } from "../lib/types";

/** What waits for a person, as far as it was read. */
class Waiting {
  #order = $state.raw<Order>(EMPTY);
  #known = $state.raw(new Map<string, Checkpoint>());
  #cursor: string | undefined;
  /** Somebody points at the list, or is in it: nothing in it may move. */
  frozen = $state(false);
  more = $state(false);
  loaded = $state(false);
  #reading: Promise<void> | undefined;
  #again = false;

  get items(): { key: string; checkpoint: Checkpoint; gone: boolean }[] {
    return this.#order.shown.map((key) => ({
      key,
      checkpoint: this.#known.get(key) as Checkpoint,
      gone: this.#order.gone.has(key),
    }));
  }

  /** How many are open, as far as is known. */
  get open(): number {
    return this.#order.shown.length - this.#order.gone.size + this.#order.arrived.length;
  }

  get arrived(): number {
    return this.#order.arrived.length;
  }

  get(key: string): Checkpoint | undefined {
    return this.#known.get(key);
  }

  /** Reads the first page anew; while that is read, once more after it at most. */
  refresh(): Promise<void> {
    if (this.#reading) this.#again = true;
    this.#reading ??= this.#refresh().finally(() => (this.#reading = undefined));
    return this.#reading;
  }

  async #refresh(): Promise<void> {
    do {
      this.#again = false;
      const page = await api.waiting();
      this.#take(page);
      this.#order = reread(
        this.#order,
        page.checkpoints.map(keyOf),
        page.cursor === undefined,
        this.frozen && this.loaded,
      );
      this.#mark(page, this.#cursor === undefined);
      this.loaded = true;
    } while (this.#again);
  }

  async readMore(): Promise<void> {
    if (this.#cursor === undefined) return;
    const page = await api.waiting(this.#cursor);
    this.#take(page);
    this.#order = append(this.#order, page.checkpoints.map(keyOf));
    this.#mark(page, true);
  }

  /** Shows what has come, and lets go of what is gone. */
  async takeIn(): Promise<void> {
    this.frozen = false;
    await this.refresh();
  }

  #take(page: CheckpointPage): void {
    const known = new Map(this.#known);
    for (const checkpoint of page.checkpoints) known.set(keyOf(checkpoint), checkpoint);
    this.#known = known;
  }

  #mark(page: CheckpointPage, isLast: boolean): void {
    if (isLast || page.cursor === undefined) this.#cursor = page.cursor;
    this.more = this.#cursor !== undefined;
  }
}

export const waiting = new Waiting();
