import { createHash, randomBytes } from "node:crypto";
import type { Row } from "../../store/store.js";
import type { Cloud } from "../cloud.js";
import { ensureStartUser } from "../users/user.js";

/** A personal access token (contract 4.3). Only its hash is kept: 256 random bits need no slow hash. */
export interface TokenRow extends Row {
  label: string;
  /** SHA-256 of the token, hex. */
  hash: string;
  /** First 16 characters, for lists. */
  prefix: string;
  scopes: string;
  username: string;
  createdMs: number;
  expiresMs: number | null;
  /** Made by a start rather than by a user; only the newest few of these are kept. */
  fromStart: boolean;
}

const keptStartTokens = 20;

export const tokenHash = (token: string): string => createHash("sha256").update(token).digest("hex");

/** 64 hex characters (contract 4.3). */
export const freshToken = (): string => randomBytes(32).toString("hex");

/**
 * Makes `token` a valid full-rights token of the account's first user, who is made at the first start. Tokens of earlier starts stay valid,
 * so that a shell that still holds one goes on working; the newest 20 are kept.
 */
export const admitStartToken = (cloud: Pick<Cloud, "store" | "clock">, token: string): Promise<void> =>
  cloud.store.commit((tx) => {
    const hash = tokenHash(token);
    const { username } = ensureStartUser(tx, cloud.clock.now());
    const known = tx.list("token").find((row) => row.hash === hash);
    if (known) return void tx.update("token", known.id, { username });
    const old = tx.list("token").filter((row) => row.fromStart);
    for (const row of old.slice(0, Math.max(0, old.length - keptStartTokens + 1))) tx.remove("token", row.id);
    tx.insert("token", {
      label: "Made at start",
      hash,
      prefix: token.slice(0, 16),
      scopes: "*",
      username,
      createdMs: cloud.clock.now(),
      expiresMs: null,
      fromStart: true,
    });
  });
