import type { Me } from "../lib/types";

const KEY = "interlock.token";

/** How people sign in here, as the deployment says it in `config.json`. */
export type SignIn =
  { signIn: "token" } | { signIn: "oidc"; issuer: string; clientId: string; scope: string };

/**
 * Who is signed in. The token is kept for as long as the tab is open; each request carries it in a header, so
 * no other site can make one.
 */
class Session {
  token = $state(sessionStorage.getItem(KEY));
  me = $state.raw<Me>();
  config = $state.raw<SignIn>();
  /** The token was refused while somebody was at work: requests wait until there is another. */
  refused = $state(false);
  #waiting: ((token: string) => void)[] = [];

  /** There is a token; whoever waited for one goes on with it. */
  signedIn(token: string): void {
    sessionStorage.setItem(KEY, token);
    this.token = token;
    this.refused = false;
    for (const go of this.#waiting.splice(0)) go(token);
  }

  signOut(): void {
    sessionStorage.removeItem(KEY);
    location.reload();
  }

  /** Resolves with a token that is not `refused`, once somebody has signed in. */
  another(refused: string | null): Promise<string> {
    if (this.token !== null && this.token !== refused) return Promise.resolve(this.token);
    this.refused = true;
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  get isOperator(): boolean {
    return this.me?.roles.some((role) => role === "operator" || role === "platform-operator") ?? false;
  }
}

export const session = new Session();
