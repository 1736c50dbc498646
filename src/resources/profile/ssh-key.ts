import { wireTime } from "../../kernel/clock.js";
import { notFound } from "../../kernel/fault.js";
import type { Row } from "../../store/store.js";
import type { CloudStore, Reader, Tx } from "../cloud.js";
import type { Entity } from "../events/event.js";
import { userNamed } from "../users/user.js";

/** A public key of a user, for the instances it deploys (contract 14.7). */
export interface SshKeyRow extends Row {
  userId: number;
  label: string;
  sshKey: string;
  createdMs: number;
}

export const sshKeyView = (row: SshKeyRow) => ({ id: row.id, label: row.label, sshKey: row.sshKey, created: wireTime(row.createdMs) });

export const sshKeyEntity = (row: SshKeyRow): Entity => ({ kind: "user_ssh_key", id: row.id, label: row.label });

export const requireSshKey = (reader: Pick<CloudStore | Tx, "get">, id: number | undefined, userId: number | undefined): SshKeyRow => {
  const row = reader.get("sshKey", id ?? 0);
  if (!row || row.userId !== userId) throw notFound();
  return row;
};

/** The public keys a user stored, for an instance's `authorized_users`; undefined for nobody, and for a user without any. */
export const storedKeysOf = (reader: Reader, username: string): string[] | undefined => {
  const user = userNamed(reader, username);
  const keys = reader.list("sshKey").flatMap((row) => (row.userId === user?.id ? [row.sshKey] : []));
  return keys.length === 0 ? undefined : keys;
};
