import { randomBytes } from "node:crypto";
import type { Row } from "../../store/store.js";
import type { Reader, Tx } from "../cloud.js";
import { tokenHash } from "../tokens/token.js";

/** What a user allowed an application: its access token, and the refresh token that makes the next one. All tokens are kept as SHA-256 only. */
export interface GrantRow extends Row {
  /** Row of the client. */
  clientId: number;
  userId: number;
  scopes: string;
  createdMs: number;
  accessHash: string;
  /** May be less than what was granted, when a refresh asked for less (RFC 6749 section 6). */
  accessScopes: string;
  accessExpiresMs: number;
  refreshHash: string | null;
  refreshExpiresMs: number | null;
  /** Refresh tokens that were used already: whoever comes with one has stolen it, or was stolen from. */
  spentHashes: string[];
}

/** A code between consent and token. It is kept after its use, so that a second use is noticed (RFC 6749 section 4.1.2). */
export interface CodeRow extends Row {
  hash: string;
  clientId: number;
  userId: number;
  scopes: string;
  redirectUri: string;
  /** PKCE, S256 only. */
  codeChallenge: string | null;
  expiresMs: number;
  /** The grant it was turned into. */
  grantId: number | null;
  used: boolean;
}

/** Contract 4.4. */
export const accessLifetimeS = 7_200;
/** Nobody says how long a refresh token lives; two weeks is the library's own figure. */
export const refreshLifetimeS = 14 * 24 * 60 * 60;
export const codeLifetimeS = 60;
const keptSpent = 500;

export const freshCode = (): string => randomBytes(20).toString("hex");

const byRefreshHash = (row: GrantRow) => row.refreshHash;
const byAccessHash = (row: GrantRow) => row.accessHash;
const byCodeHash = (row: CodeRow) => row.hash;

export const codeOf = (reader: Reader, code: string): CodeRow | undefined => reader.find("oauthCode", byCodeHash, tokenHash(code))[0];

export const grantByRefresh = (reader: Reader, refresh: string): GrantRow | undefined =>
  reader.find("oauthGrant", byRefreshHash, tokenHash(refresh))[0];

export const grantByAccess = (reader: Reader, access: string): GrantRow | undefined => reader.find("oauthGrant", byAccessHash, tokenHash(access))[0];

export const grantBySpent = (reader: Reader, refresh: string): GrantRow | undefined => {
  const hash = tokenHash(refresh);
  return reader.list("oauthGrant").find((row) => row.spentHashes.includes(hash));
};

/** When nothing of a grant works any more. */
export const grantEndsMs = (row: GrantRow): number => Math.max(row.accessExpiresMs, row.refreshExpiresMs ?? 0);

/** Codes and grants that ended are dropped whenever one is made, so they do not pile up. */
export const dropEnded = (tx: Tx, nowMs: number): void => {
  for (const row of tx.list("oauthCode")) if (row.expiresMs + accessLifetimeS * 1000 <= nowMs) tx.remove("oauthCode", row.id);
  for (const row of tx.list("oauthGrant")) if (grantEndsMs(row) <= nowMs) tx.remove("oauthGrant", row.id);
};

export interface Issued {
  access: string;
  /** A public client gets none (contract 4.4). */
  refresh: string | undefined;
}

const pairRow = ({ access, refresh }: Issued, nowMs: number) => ({
  accessHash: tokenHash(access),
  accessExpiresMs: nowMs + accessLifetimeS * 1000,
  refreshHash: refresh === undefined ? null : tokenHash(refresh),
  refreshExpiresMs: refresh === undefined ? null : nowMs + refreshLifetimeS * 1000,
});

/** A new grant with its first tokens, made of a code. */
export const issueGrant = (tx: Tx, nowMs: number, code: CodeRow, issued: Issued): GrantRow => {
  const { clientId, userId, scopes } = code;
  const row = tx.insert("oauthGrant", {
    clientId,
    userId,
    scopes,
    accessScopes: scopes,
    createdMs: nowMs,
    spentHashes: [],
    ...pairRow(issued, nowMs),
  });
  tx.update("oauthCode", code.id, { grantId: row.id });
  return row;
};

/** The next tokens of a grant; the ones before end (contract 4.4). `scopes` may be fewer than were granted. */
export const renewGrant = (tx: Tx, nowMs: number, row: GrantRow, issued: Issued, scopes: string): GrantRow =>
  tx.update("oauthGrant", row.id, {
    ...pairRow(issued, nowMs),
    accessScopes: scopes,
    spentHashes: [...row.spentHashes, ...(row.refreshHash === null ? [] : [row.refreshHash])].slice(-keptSpent),
  });
