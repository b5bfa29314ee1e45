import type { Me } from "../lib/types";
import type { Issuer, Tokens } from "./oidc";

const TOKEN = "interlock.token";
const REFRESH = "interlock.refresh";

/** How people sign in here, as the deployment says it in `config.json`. */
export type SignIn = { signIn: "token" } | ({ signIn: "oidc" } & Issuer);

/**
 * Who is signed in. The token is kept for as long as the tab is open; each request carries it in a header, so
 * no other site can make one.
 */
class Session {
  token = $state(sessionStorage.getItem(TOKEN));
  me = $state.raw<Me>();
  config = $state.raw<SignIn>();
  /** The token was refused while somebody was at work: requests wait until there is another. */
  refused = $state(false);
  #waiting: ((token: string) => void)[] = [];
  #renewing: Promise<Tokens | undefined> | undefined;

  /** There is a token; whoever waited for one goes on with it. */
  signedIn({ access, refresh }: Tokens): void {
    sessionStorage.setItem(TOKEN, access);
    if (refresh) sessionStorage.setItem(REFRESH, refresh);
    this.token = access;
    this.refused = false;
    for (const go of this.#waiting.splice(0)) go(access);
  }

  /** Somebody else is there: the page begins anew, and what was pressed before never goes on as theirs. */
  becomes({ access, refresh }: Tokens): void {
    this.#waiting = [];
    sessionStorage.setItem(TOKEN, access);
    if (refresh) sessionStorage.setItem(REFRESH, refresh);
    else sessionStorage.removeItem(REFRESH);
    location.reload();
  }

  signOut(): void {
    sessionStorage.removeItem(TOKEN);
    sessionStorage.removeItem(REFRESH);
    location.reload();
  }

  /** Resolves with a token that is not `refused`: a renewed one, or once somebody has signed in. */
  async another(refused: string | null): Promise<string> {
    if (this.token !== null && this.token !== refused) return this.token;
    this.#renewing ??= this.renew().finally(() => (this.#renewing = undefined));
    const tokens = await this.#renewing;
    if (tokens) {
      this.signedIn(tokens);
      return tokens.access;
    }
    this.refused = true;
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** New tokens without anybody noticing, where the issuer gives them. */
  async renew(): Promise<Tokens | undefined> {
    const refresh = sessionStorage.getItem(REFRESH);
    if (this.config?.signIn !== "oidc" || refresh === null) return undefined;
    sessionStorage.removeItem(REFRESH);
    const { renew } = await import("./oidc");
    return renew(this.config, refresh).catch(() => undefined);
  }

  get isOperator(): boolean {
    return this.me?.roles.some((role) => role === "operator" || role === "platform-operator") ?? false;
  }
}

export const session = new Session();
