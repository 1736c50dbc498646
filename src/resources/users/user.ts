import { wireTime } from "../../kernel/clock.js";
import { notFound } from "../../kernel/fault.js";
import type { Row } from "../../store/store.js";
import type { Cloud, Reader, Tx } from "../cloud.js";
import type { Entity } from "../events/event.js";
import type { TwoFactor } from "../profile/two-factor.js";
import { type Grants, noGrants } from "./grants.js";

/** Someone who may use the account (contract 14.5), with what only they see of themselves (14.7). */
export interface UserRow extends Row {
  username: string;
  email: string;
  restricted: boolean;
  grants: Grants;
  /** As `passwordHash` makes it; null until one is set, and then the login page takes a full-rights token instead. */
  passwordHash: string | null;
  passwordCreatedMs: number | null;
  twoFactor: TwoFactor | null;
  lastLogin: { atMs: number; status: "successful" | "failed" } | null;
  createdMs: number;
  timezone: string;
  emailNotifications: boolean;
  ipWhitelistEnabled: boolean;
  lishAuthMethod: "password_keys" | "keys_only" | "disabled";
  authorizedKeys: string[] | null;
  /** The user's own JSON, at most `preferencesLimitBytes` of it. */
  preferences: Record<string, unknown>;
}

/** The account's first user, whose tokens a start prints. */
export const startUsername = "backlot";

export const newUser = (wanted: { username: string; email: string; restricted: boolean; nowMs: number }): Omit<UserRow, "id"> => ({
  username: wanted.username,
  email: wanted.email,
  restricted: wanted.restricted,
  grants: noGrants(),
  passwordHash: null,
  passwordCreatedMs: null,
  twoFactor: null,
  lastLogin: null,
  createdMs: wanted.nowMs,
  timezone: "GMT",
  emailNotifications: true,
  ipWhitelistEnabled: false,
  lishAuthMethod: "password_keys",
  authorizedKeys: null,
  preferences: {},
});

/** The user whom a start's token belongs to: the first unrestricted one, by name or else by age. */
export const startUser = (reader: Reader): UserRow | undefined => {
  const open = reader.list("user").filter((row) => !row.restricted);
  return open.find((row) => row.username === startUsername) ?? open[0];
};

export const ensureStartUser = (tx: Tx, nowMs: number): UserRow =>
  startUser(tx) ?? tx.insert("user", newUser({ username: startUsername, email: `${startUsername}@localhost.test`, restricted: false, nowMs }));

const byUsername = (row: UserRow) => row.username;

export const userNamed = (reader: Reader, username: string): UserRow | undefined => reader.find("user", byUsername, username)[0];

export const requireUser = (reader: Reader, username: string | undefined): UserRow => {
  const row = userNamed(reader, username ?? "");
  if (!row) throw notFound();
  return row;
};

export const userEntity = (row: UserRow): Entity => ({ kind: "user", id: row.username, label: row.username });

/** Contract 14.5. */
export const userView = (cloud: Pick<Cloud, "store">, row: UserRow, reader: Reader = cloud.store) => ({
  username: row.username,
  email: row.email,
  restricted: row.restricted,
  sshKeys: reader
    .list("sshKey")
    .filter((key) => key.userId === row.id)
    .map((key) => key.label),
  tfaEnabled: row.twoFactor?.confirmed === true,
  verifiedPhoneNumber: null,
  passwordCreated: row.passwordCreatedMs === null ? null : wireTime(row.passwordCreatedMs),
  lastLogin: row.lastLogin && { loginDatetime: wireTime(row.lastLogin.atMs), status: row.lastLogin.status },
  userType: "default",
});

/** Ends everything that acts for a user. */
export const removeUser = (tx: Tx, row: UserRow): void => {
  for (const token of tx.list("token")) if (token.username === row.username) tx.remove("token", token.id);
  for (const kind of ["sshKey", "oauthGrant", "oauthCode"] as const) {
    for (const held of tx.list(kind)) if (held.userId === row.id) tx.remove(kind, held.id);
  }
  tx.remove("user", row.id);
};
