import { Fault } from "../kernel/fault.js";
import type { Caller, Method } from "../kernel/route.js";
import type { Cloud } from "../resources/cloud.js";
import type { GrantRow } from "../resources/oauth/grant.js";
import { givesScope } from "../resources/tokens/scopes.js";
import { type TokenRow, tokenHash } from "../resources/tokens/token.js";
import { startUser, startUsername, userNamed } from "../resources/users/user.js";

const byHash = (row: TokenRow) => row.hash;
const byAccessHash = (row: GrantRow) => row.accessHash;

type Reader = Pick<Cloud, "store" | "clock" | "controlHash">;

/** The token in an `Authorization` header; undefined when it is malformed. */
const bearerOf = (header: string): string | undefined => /^Bearer +([\x21-\x7e]{1,512})$/i.exec(header.trim())?.[1];

const personalCaller = ({ store, clock }: Reader, hash: string): Caller | undefined => {
  const row = store.find("token", byHash, hash)[0];
  const user = row && userNamed(store, row.username);
  if (!row || !user || (row.expiresMs !== null && row.expiresMs <= clock.now())) return undefined;
  return { tokenId: row.id, userId: user.id, username: user.username, scopes: row.scopes };
};

const applicationCaller = ({ store, clock }: Reader, hash: string): Caller | undefined => {
  const row = store.find("oauthGrant", byAccessHash, hash)[0];
  const user = row && store.get("user", row.userId);
  if (!row || !user || row.accessExpiresMs <= clock.now()) return undefined;
  return { tokenId: 0, userId: user.id, username: user.username, scopes: row.accessScopes };
};

/** Who an `Authorization` header is: undefined when there is none, a fault when it is not valid (contract 4.1). */
export const callerOf = (cloud: Reader, header: string | undefined): Caller | undefined => {
  if (header === undefined) return undefined;
  const token = bearerOf(header);
  if (token === undefined) throw invalidToken();
  const hash = tokenHash(token);
  if (hash === cloud.controlHash) {
    const owner = startUser(cloud.store);
    return { tokenId: 0, userId: owner?.id ?? 0, username: owner?.username ?? startUsername, scopes: "*" };
  }
  const caller = personalCaller(cloud, hash) ?? applicationCaller(cloud, hash);
  if (!caller) throw invalidToken();
  return caller;
};

export const invalidToken = (): Fault => new Fault("unauthenticated", [{ reason: "Invalid Token" }]);

/** The scopes a route wants, each `word:level` (contract 4.2: GET reads, the rest writes, unless the route says otherwise). */
const wantedScopes = (scope: string | readonly string[], method: Method): string[] =>
  [scope].flat().map((word) => (word.includes(":") ? word : `${word}:${method === "GET" ? "read_only" : "read_write"}`));

/** What a route accepts, as in `X-Accepted-OAuth-Scopes`: joined by a comma when it wants several, `*` when the scopes do not matter. */
export const acceptedScope = (scope: string | readonly string[] | null, method: Method): string =>
  scope === null || scope === "*" || scope === "any" ? "*" : wantedScopes(scope, method).join(",");

/** Whether the token's scopes allow it. A route with scope `*` wants a full-rights token, one with `any` just a token. */
export const isAllowed = (caller: Caller, scope: string | readonly string[], method: Method): boolean => {
  if (scope === "any") return true;
  if (scope === "*") return givesScope(caller.scopes, "*");
  return wantedScopes(scope, method).every((wanted) => givesScope(caller.scopes, wanted));
};
