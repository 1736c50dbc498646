import { Fault } from "../kernel/fault.js";
import { indexBy } from "../kernel/index-by.js";
import type { Caller, Method } from "../kernel/route.js";
import type { Cloud } from "../resources/cloud.js";
import { type TokenRow, tokenHash } from "../resources/tokens/token.js";

const byHash = (row: TokenRow) => row.hash;

/** Who an `Authorization` header is: undefined when there is none, a fault when it is not valid (contract 4.1). */
export const callerOf = (cloud: Pick<Cloud, "store" | "clock" | "controlHash">, header: string | undefined): Caller | undefined => {
  if (header === undefined) return undefined;
  const token = /^Bearer +([\x21-\x7e]{1,512})$/i.exec(header.trim())?.[1];
  const hash = token === undefined ? undefined : tokenHash(token);
  if (hash === cloud.controlHash) return { tokenId: 0, username: "backlot", scopes: "*" };
  const row = hash === undefined ? undefined : indexBy(cloud.store.list("token"), byHash).get(hash)?.[0];
  if (!row || (row.expiresMs !== null && row.expiresMs <= cloud.clock.now())) throw invalidToken();
  return { tokenId: row.id, username: row.username, scopes: row.scopes };
};

export const invalidToken = (): Fault => new Fault("unauthenticated", [{ reason: "Invalid Token" }]);

/** The scope a route wants, `word:level` (contract 4.2: GET reads, the rest writes, unless the route says otherwise). */
const wantedScope = (scope: string, method: Method): string =>
  scope.includes(":") ? scope : `${scope}:${method === "GET" ? "read_only" : "read_write"}`;

/** What a route accepts, as in `X-Accepted-OAuth-Scopes` (contract 4.2: GET reads, the rest writes). */
export const acceptedScope = (scope: string | null, method: Method): string => (scope === null || scope === "*" ? "*" : wantedScope(scope, method));

/** Whether the token's scopes allow it; `read_write` includes reading. A route with scope `*` wants a full-rights token. */
export const isAllowed = (caller: Caller, scope: string, method: Method): boolean => {
  const held = caller.scopes.split(/[ ,]+/);
  if (held.includes("*")) return true;
  if (scope === "*") return false;
  const wanted = wantedScope(scope, method);
  return held.includes(wanted) || held.includes(wanted.replace(":read_only", ":read_write"));
};
