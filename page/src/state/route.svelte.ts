import { format, parse, type Route } from "../lib/routes";

class Router {
  #route = $state.raw(parse(location.hash));

  constructor() {
    addEventListener("hashchange", () => (this.#route = parse(location.hash)));
  }

  get route(): Route {
    return this.#route;
  }

  go(route: Route): void {
    location.hash = format(route);
  }
}

export const router = new Router();
