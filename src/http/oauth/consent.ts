import type { Cloud } from "../../resources/cloud.js";
import { type ClientRow, clientOf } from "../../resources/oauth/client.js";
import { tidyScopes, unknownScopes } from "../../resources/tokens/scopes.js";
import type { Parameters } from "./protocol.js";

/** What came to `/oauth/authorize`, and what is wrong with it. */
export type Consent =
  /** Nobody can be told but the person at the browser: where to send them back to is not known for sure. */
  | { kind: "refused"; reason: string }
  /** The application is told. */
  | { kind: "returned"; client: ClientRow; to: string }
  | { kind: "asked"; client: ClientRow; parameters: Parameters; scopes: string };

const names = ["client_id", "response_type", "redirect_uri", "state", "code_challenge", "code_challenge_method"] as const;

/** A redirect URI with parameters added; what it carries already stays (RFC 6749 section 3.1.2). */
export const withParameters = (uri: string, parameters: Record<string, string | undefined>): string => {
  const added = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) if (value !== undefined) added.set(name, value);
  return `${uri}${uri.includes("?") ? "&" : "?"}${added.toString()}`;
};

/** RFC 6749 section 4.1.2.1. */
export const errorRedirect = (client: ClientRow, state: string | undefined, error: string, description: string): string =>
  withParameters(client.redirectUri, { error, error_description: description, state });

const refused = (reason: string): Consent => ({ kind: "refused", reason });

/** What the application did wrong, as the protocol names it. */
const protocolProblem = (client: ClientRow, given: Parameters, scopes: string): [error: string, description: string] | undefined => {
  const { response_type: type, code_challenge: challenge, code_challenge_method: method, state } = given;
  if (state !== undefined && !/^[\x20-\x7e]*$/.test(state)) return ["invalid_request", "state may hold printable ASCII characters only"];
  if (type === undefined) return ["invalid_request", "response_type is missing"];
  if (type === "token") {
    return ["unsupported_response_type", "the implicit flow is not served (RFC 9700 section 2.1.2); use response_type=code with PKCE"];
  }
  if (type !== "code") return ["unsupported_response_type", "response_type must be code"];
  if (method !== undefined && method !== "S256") return ["invalid_request", "code_challenge_method must be S256"];
  if (challenge === undefined && client.public) return ["invalid_request", "a public client needs PKCE: code_challenge is missing"];
  if (challenge !== undefined && !/^[A-Za-z0-9_-]{43}$/.test(challenge)) {
    return ["invalid_request", "code_challenge must be a SHA-256 in base64url, 43 characters (RFC 7636 section 4.2)"];
  }
  if (challenge !== undefined && method === undefined) return ["invalid_request", "code_challenge_method=S256 is missing"];
  if (scopes === "") return ["invalid_scope", "scope is missing"];
  const unknown = unknownScopes(scopes);
  return unknown.length > 0 ? ["invalid_scope", `unknown: ${unknown.join(" ").slice(0, 200)}`] : undefined;
};

/** Judges an authorisation request. `query` as it came; a parameter given twice is refused (RFC 6749 section 3.1). */
export const consentOf = (cloud: Pick<Cloud, "store">, query: URLSearchParams): Consent => {
  const twice = [...names, "scope", "scopes"].filter((name) => query.getAll(name).length > 1);
  if (twice.length > 0) return refused(`The application's request gives ${twice.join(" and ")} more than once.`);
  const client = clientOf(cloud.store, query.get("client_id") ?? "");
  if (client?.status !== "active") return refused("No application is registered under the client_id that was given.");
  const redirectUri = query.get("redirect_uri") ?? client.redirectUri;
  if (redirectUri !== client.redirectUri) {
    return refused(`The redirect_uri that was given is not, letter for letter, the one that “${client.label}” registered.`);
  }
  // The Python client writes `scopes` (contract 4.4); old clients separate with commas.
  const scopes = tidyScopes(query.get("scope") ?? query.get("scopes") ?? "");
  const given: Parameters = Object.fromEntries(
    names.flatMap((name) => {
      const value = query.get(name);
      return value === null || value === "" ? [] : [[name, value]];
    }),
  );
  const problem = protocolProblem(client, given, scopes);
  if (problem) return { kind: "returned", client, to: errorRedirect(client, given.state, ...problem) };
  return { kind: "asked", client, scopes, parameters: { ...given, redirect_uri: redirectUri, scope: scopes } };
};
