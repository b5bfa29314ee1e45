const KEY = "interlock.theme";

export const THEMES = ["auto", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

/** How the page looks: as the system does, unless somebody has chosen. */
class Appearance {
  #theme = $state<Theme>(THEMES.find((theme) => theme === localStorage.getItem(KEY)) ?? "auto");

  constructor() {
    this.#show();
  }

  get theme(): Theme {
    return this.#theme;
  }

  set theme(theme: Theme) {
    localStorage.setItem(KEY, theme);
    this.#theme = theme;
    this.#show();
  }

  #show(): void {
    document.documentElement.dataset["theme"] = this.#theme;
  }
}

export const appearance = new Appearance();
