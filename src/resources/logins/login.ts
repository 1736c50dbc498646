import { wireTime } from "../../kernel/clock.js";
import type { Row } from "../../store/store.js";
import type { Cloud, Tx } from "../cloud.js";

/** One try to log in at the login page (contract 14.6). Tries under a name that no user has are not kept: people type passwords there. */
export interface LoginRow extends Row {
  atMs: number;
  ip: string;
  userId: number;
  username: string;
  restricted: boolean;
  status: "successful" | "failed";
}

/** The newest this many are kept, and shown while they are younger than 90 days. */
const keptLogins = 1_000;
const shownMs = 90 * 24 * 60 * 60 * 1000;

export const recordLogin = (tx: Tx, cloud: Pick<Cloud, "clock">, userId: number, ip: string, status: LoginRow["status"]): void => {
  const user = tx.get("user", userId);
  if (!user) return;
  const atMs = cloud.clock.now();
  const { id } = tx.insert("login", { atMs, ip, userId, username: user.username, restricted: user.restricted, status });
  tx.remove("login", id - keptLogins);
  tx.update("user", userId, { lastLogin: { atMs, status } });
};

/** Newest first. */
export const recentLogins = ({ store, clock }: Pick<Cloud, "store" | "clock">): LoginRow[] =>
  store
    .list("login")
    .filter((row) => row.atMs > clock.now() - shownMs)
    .reverse();

export const loginView = (row: LoginRow) => ({
  id: row.id,
  datetime: wireTime(row.atMs),
  ip: row.ip,
  username: row.username,
  status: row.status,
  restricted: row.restricted,
});
