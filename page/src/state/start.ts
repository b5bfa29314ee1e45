import { api, Refused } from "../lib/api";
import { session, type SignIn } from "./session.svelte";

/**
 * Finds out how people sign in here and who is signed in, and goes on with what an issuer has said. Raises what
 * went wrong.
 */
export async function start(): Promise<void> {
  const config = (await (await fetch("config.json", { cache: "no-cache" })).json()) as SignIn;
  session.config = config;
  if (config.signIn === "oidc" && location.search !== "") {
    const { begin, finish, FOR_OTHER } = await import("./oidc");
    if (location.search === FOR_OTHER) return begin(config);
    const tokens = await finish(config);
    if (tokens) session.signedIn(tokens);
  }
  if (session.token === null) return;
  const tokens = (await isGood(session.token)) ? undefined : await session.renew();
  if (tokens) session.signedIn(tokens);
  if (!session.me && !(tokens && (await isGood(tokens.access)))) session.signOut();
}

async function isGood(token: string): Promise<boolean> {
  try {
    session.me = await api.meAs(token);
    return true;
  } catch (error) {
    if (error instanceof Refused) return false;
    throw error;
  }
}
