import { Refused } from "../lib/api";
import { t } from "../text/i18n.svelte";
import { feed, type Topic } from "./feed.svelte";

/** What is read from the server for as long as a component shows it, and anew when `topic` changes. */
export class Reading<T> {
  value = $state.raw<T>();
  /** Why it could not be read. */
  fault = $state<string>();
  #read: () => Promise<T>;

  constructor(read: () => Promise<T>, topic?: Topic) {
    this.#read = read;
    $effect(() => {
      void this.refresh();
      return topic && feed.on(topic, () => void this.refresh());
    });
  }

  async refresh(): Promise<void> {
    try {
      this.value = await this.#read();
      this.fault = undefined;
    } catch (error) {
      this.fault = error instanceof Refused ? error.message : t().unreachable;
    }
  }
}
