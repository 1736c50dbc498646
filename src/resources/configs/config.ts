import { notFound } from "../../kernel/fault.js";
import type { Row } from "../../store/store.js";
import { type CloudStore, observed, type Reader, type Tx } from "../cloud.js";
import type { Entity } from "../events/event.js";
import { nodesStatus } from "../nodes/node.js";

/** What a caller may set, with every default filled in (contract 8.2). Seconds, before `--speed`. */
export interface ConfigSettings {
  label: string;
  port: number;
  protocol: "http" | "https" | "tcp" | "udp";
  algorithm: "roundrobin" | "leastconn" | "source" | "ring_hash";
  stickiness: "none" | "table" | "http_cookie" | "session" | "source_ip";
  check: "none" | "connection" | "http" | "http_body";
  checkInterval: number;
  checkTimeout: number;
  checkAttempts: number;
  checkPath: string;
  checkBody: string;
  checkPassive: boolean;
  proxyProtocol: "none" | "v1" | "v2";
  cipherSuite: "recommended" | "legacy" | "none";
  udpCheckPort: number;
  /** PEM; null when unset. The state file is 0600, and neither is ever shown, logged or put in an event. */
  sslCert: string | null;
  sslKey: string | null;
}

export interface ConfigRow extends Row, ConfigSettings {
  balancerId: number;
  sslCommonname: string;
  sslFingerprint: string;
}

/** What the listeners loop saw last: where it really listens, or why it does not; and what of the row that was made of. */
export type ObservedListener = { made: string } & (
  | { status: "open"; address: string; port: number }
  | { status: "failed"; reason: string }
  | { status: "closed" }
);

/** What of a config makes its listener another one. While it differs from what was made, the listener is pending. */
export const listenerMark = (row: ConfigRow): string => JSON.stringify([row.port, row.protocol, row.sslFingerprint]);

/** Contract 8.2: defaults are applied at creation only. */
export const defaultSettings = (protocol: ConfigSettings["protocol"]): ConfigSettings => ({
  label: "",
  port: 80,
  protocol,
  algorithm: "roundrobin",
  stickiness: protocol === "udp" ? "session" : "none",
  check: "none",
  checkInterval: 31,
  checkTimeout: 30,
  checkAttempts: 3,
  checkPath: "",
  checkBody: "",
  checkPassive: protocol !== "udp",
  proxyProtocol: "none",
  cipherSuite: protocol === "udp" ? "none" : "recommended",
  udpCheckPort: 80,
  sslCert: null,
  sslKey: null,
});

const byBalancer = (row: ConfigRow) => row.balancerId;

export const configsOf = (reader: Reader, balancerId: number): readonly ConfigRow[] => reader.find("config", byBalancer, balancerId);

export const requireConfig = (reader: Pick<CloudStore | Tx, "get">, balancerId: number | undefined, id: number | undefined): ConfigRow => {
  const row = reader.get("config", id ?? 0);
  if (!row || row.balancerId !== balancerId) throw notFound();
  return row;
};

export const configEntity = (row: ConfigRow): Entity => ({
  kind: "config",
  id: row.id,
  label: row.label || `port ${row.port}`,
  parentId: row.balancerId,
});

const listenerView = (store: CloudStore, row: ConfigRow) => {
  const state = observed(store, "config", row.id);
  if (state?.made !== listenerMark(row)) return { status: "pending", address: null, port: null, reason: null };
  if (state.status === "open") return { status: "open", address: state.address, port: state.port, reason: null };
  if (state.status === "failed") return { status: "failed", address: null, port: null, reason: state.reason };
  return { status: "pending", address: null, port: null, reason: null };
};

/** Contract 8.2 and description 2.2. Certificate and key are never shown. */
export const configView = (store: CloudStore, row: ConfigRow, reader: Reader = store) => ({
  ...row,
  sslCert: row.sslCert === null ? null : "<REDACTED>",
  sslKey: row.sslKey === null ? null : "<REDACTED>",
  udpSessionTimeout: 16,
  nodesStatus: nodesStatus(store, row.id, reader),
  listener: listenerView(store, row),
});
