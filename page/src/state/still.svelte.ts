const REST = 500;

/** Whether what people click on has kept its place for a moment. While it has not, its buttons are dead. */
export class Still {
  #moved = $state(true);
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    this.move();
  }

  get dead(): boolean {
    return this.#moved;
  }

  /** Something has moved. */
  readonly move = (): void => {
    this.#moved = true;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => (this.#moved = false), REST);
  };

  /** Watches `element`: a change of its size moves what is in it, and one of the page may move all of it. */
  readonly watch = (element: HTMLElement): (() => void) => {
    const observer = new ResizeObserver(this.move);
    observer.observe(element);
    observer.observe(document.body);
    return () => {
      observer.disconnect();
      clearTimeout(this.#timer);
    };
  };
}
