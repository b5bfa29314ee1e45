import { api } from "../lib/api";
import type { Halt } from "../lib/types";

/** The halts that concern whoever looks: a banner on every page while one stands. */
class Halts {
  #all = $state.raw<Halt[]>([]);
  loaded = $state(false);

  get standing(): Halt[] {
    return this.#all.filter((halt) => halt.on);
  }

  get lifted(): Halt[] {
    return this.#all.filter((halt) => !halt.on);
  }

  /** Keeps what is known where it can not be read: a halt is not over because nobody says so. */
  readonly refresh = async (): Promise<void> => {
    const found = await api.halts().catch(() => undefined);
    if (!found) return;
    this.#all = found.halts;
    this.loaded = true;
  };
}

export const halts = new Halts();
