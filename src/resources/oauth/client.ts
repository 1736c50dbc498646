import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { notFound } from "../../kernel/fault.js";
import type { Row } from "../../store/store.js";
import type { Reader } from "../cloud.js";
import type { Entity } from "../events/event.js";

/** An application that asks users for tokens (contract 4.5). */
export interface ClientRow extends Row {
  /** 20 hex characters: its id on the wire. */
  clientId: string;
  label: string;
  redirectUri: string;
  /** Cannot keep a secret: a page or an application on a telephone. */
  public: boolean;
  /** SHA-256, hex; 256 random bits need no slow hash. Null for a public one. */
  secretHash: string | null;
  status: "active" | "disabled" | "suspended";
  /** PNG in base64. */
  thumbnail: string | null;
  createdMs: number;
}

const secretHash = (secret: string): string => createHash("sha256").update(secret).digest("hex");

export const freshClientId = (): string => randomBytes(10).toString("hex");

/** 64 hex characters, and what is kept of them. */
export const freshSecret = (): { secret: string; hash: string } => {
  const secret = randomBytes(32).toString("hex");
  return { secret, hash: secretHash(secret) };
};

export const isSecretOf = (client: ClientRow, secret: string): boolean =>
  client.secretHash !== null && timingSafeEqual(Buffer.from(client.secretHash, "hex"), Buffer.from(secretHash(secret), "hex"));

const byClientId = (row: ClientRow) => row.clientId;

export const clientOf = (reader: Reader, clientId: string): ClientRow | undefined => reader.find("oauthClient", byClientId, clientId)[0];

export const requireClient = (reader: Reader, clientId: string | undefined): ClientRow => {
  const row = clientOf(reader, clientId ?? "");
  if (!row) throw notFound();
  return row;
};

export const clientEntity = (row: ClientRow): Entity => ({ kind: "oauth_client", id: row.clientId, label: row.label });

export const thumbnailUrl = (row: ClientRow): string | null =>
  row.thumbnail === null ? null : `/v4/account/oauth-clients/${row.clientId}/thumbnail`;

/** Contract 4.5. `secret` is whole only in the answer that made it. */
export const clientView = (row: ClientRow, secret?: string) => ({
  id: row.clientId,
  label: row.label,
  redirectUri: row.redirectUri,
  public: row.public,
  secret: secret ?? "<REDACTED>",
  status: row.status,
  thumbnailUrl: thumbnailUrl(row),
});
