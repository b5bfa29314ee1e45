/** How long something has been on screen, in milliseconds: only while somebody can see it. */
export class Watch {
  #seen = 0;
  #since: number | undefined = document.hidden ? undefined : performance.now();

  constructor() {
    $effect(() => {
      const look = () => {
        if (this.#since !== undefined) this.#seen += performance.now() - this.#since;
        this.#since = document.hidden ? undefined : performance.now();
      };
      document.addEventListener("visibilitychange", look);
      return () => document.removeEventListener("visibilitychange", look);
    });
  }

  get milliseconds(): number {
    const running = this.#since === undefined ? 0 : performance.now() - this.#since;
    return Math.min(Math.round(this.#seen + running), 86_400_000);
  }
}
