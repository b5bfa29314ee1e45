/** What was shown to whoever looks, and selected of it: by key, with the digest that was shown. */
class Opened {
  #shown = $state.raw(new Map<string, { digest: string; viewed: number }>());
  #selected = $state.raw(new Map<string, string>());

  /** The digest under which it was shown. */
  digest(key: string): string | undefined {
    return this.#shown.get(key)?.digest;
  }

  viewed(key: string): number {
    return this.#shown.get(key)?.viewed ?? 0;
  }

  show(key: string, digest: string, viewed: number): void {
    this.#shown = new Map(this.#shown).set(key, { digest, viewed });
    if (this.#selected.has(key) && this.#selected.get(key) !== digest) this.select(key, false);
  }

  get selected(): ReadonlyMap<string, string> {
    return this.#selected;
  }

  /** Selects what was shown. */
  select(key: string, on: boolean): void {
    const selected = new Map(this.#selected);
    const digest = this.digest(key);
    if (on && digest !== undefined) selected.set(key, digest);
    else selected.delete(key);
    this.#selected = selected;
  }

  clear(): void {
    this.#selected = new Map();
  }
}

export const opened = new Opened();
