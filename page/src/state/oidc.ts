/** Signing in at an OIDC issuer: the code flow with PKCE, as a client without a secret. */
import * as oauth from "oauth4webapi";

export interface Issuer {
  issuer: string;
  clientId: string;
  scope: string;
}

export interface Tokens {
  access: string;
  refresh?: string;
}

/** What is to be known again when the issuer sends the person back. */
interface Begun {
  state: string;
  verifier: string;
  /** Where in the page they were. */
  hash: string;
  /** For another tab, which has something typed in it. */
  forOther: boolean;
}

const KEY = "interlock.oidc";
const CHANNEL = "interlock.tokens";
/** What the address of a tab ends in that signs in for another one. */
export const FOR_OTHER = "?again";

const here = (): string => location.origin + location.pathname;

/** Plain HTTP is for an issuer on this machine only. */
function options(issuer: string): { [oauth.allowInsecureRequests]: boolean } {
  const { hostname } = new URL(issuer);
  return { [oauth.allowInsecureRequests]: ["localhost", "127.0.0.1", "[::1]"].includes(hostname) };
}

async function discovered({ issuer }: Issuer): Promise<oauth.AuthorizationServer> {
  const url = new URL(issuer);
  return oauth.processDiscoveryResponse(url, await oauth.discoveryRequest(url, options(issuer)));
}

/** Sends the person to the issuer. */
export async function begin(issuer: Issuer): Promise<void> {
  const server = await discovered(issuer);
  const begun: Begun = {
    state: oauth.generateRandomState(),
    verifier: oauth.generateRandomCodeVerifier(),
    hash: location.hash,
    forOther: location.search === FOR_OTHER,
  };
  sessionStorage.setItem(KEY, JSON.stringify(begun));
  const to = new URL(server.authorization_endpoint ?? "");
  for (const [name, value] of Object.entries({
    client_id: issuer.clientId,
    redirect_uri: here(),
    response_type: "code",
    scope: issuer.scope,
    state: begun.state,
    code_challenge: await oauth.calculatePKCECodeChallenge(begun.verifier),
    code_challenge_method: "S256",
  }))
    to.searchParams.set(name, value);
  location.assign(to);
}

/** The tokens, where the issuer has just sent the person back; undefined where it has not. Raises what it says. */
export async function finish(issuer: Issuer): Promise<Tokens | undefined> {
  const kept = sessionStorage.getItem(KEY);
  const answer = new URL(location.href);
  if (kept === null || !(answer.searchParams.has("code") || answer.searchParams.has("error")))
    return undefined;
  sessionStorage.removeItem(KEY);
  const begun = JSON.parse(kept) as Begun;
  history.replaceState(null, "", location.pathname + begun.hash);

  const client = { client_id: issuer.clientId };
  const server = await discovered(issuer);
  const parameters = oauth.validateAuthResponse(server, client, answer, begun.state);
  const response = await oauth.authorizationCodeGrantRequest(
    server,
    client,
    oauth.None(),
    parameters,
    here(),
    begun.verifier,
    options(issuer.issuer),
  );
  const tokens = tokensOf(await oauth.processAuthorizationCodeResponse(server, client, response));
  if (begun.forOther) {
    new BroadcastChannel(CHANNEL).postMessage(tokens);
    close();
  }
  return tokens;
}

/** Runs `listener` with the tokens that another tab of this page has got, until what is returned is called. */
export function fromOther(listener: (tokens: Tokens) => void): () => void {
  const channel = new BroadcastChannel(CHANNEL);
  channel.onmessage = (event: MessageEvent<Tokens>) => listener(event.data);
  return () => channel.close();
}

/** New tokens by a refresh token. */
export async function renew(issuer: Issuer, refresh: string): Promise<Tokens> {
  const client = { client_id: issuer.clientId };
  const server = await discovered(issuer);
  const response = await oauth.refreshTokenGrantRequest(
    server,
    client,
    oauth.None(),
    refresh,
    options(issuer.issuer),
  );
  return { refresh, ...tokensOf(await oauth.processRefreshTokenResponse(server, client, response)) };
}

function tokensOf(found: oauth.TokenEndpointResponse): Tokens {
  return { access: found.access_token, ...(found.refresh_token ? { refresh: found.refresh_token } : {}) };
}
