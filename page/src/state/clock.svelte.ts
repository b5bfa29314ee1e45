/** The server's clock, as good as its answers tell it, ticking each second while somebody looks. */
class Clock {
  #offset = 0;
  #now = $state(Date.now());

  constructor() {
    setInterval(() => {
      if (!document.hidden) this.#now = this.exact();
    }, 1000);
    document.addEventListener("visibilitychange", () => (this.#now = this.exact()));
  }

  /** The server's time in milliseconds, as of the last tick. */
  get now(): number {
    return this.#now;
  }

  /** The server's time in milliseconds, right now. */
  exact(): number {
    return Date.now() + this.#offset;
  }

  /** An answer said that it is `now` there; it was asked for at `sent` and there at `received`, by the local clock. */
  heard(now: string, sent: number, received: number): void {
    this.#offset = Date.parse(now) - (sent + received) / 2;
    this.#now = this.exact();
  }
}

export const clock = new Clock();
