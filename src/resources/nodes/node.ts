import type { Row } from "../../store/store.js";
import { type CloudStore, observed, type Reader } from "../cloud.js";

export interface NodeRow extends Row {
  balancerId: number;
  configId: number;
  label: string;
  address: string;
  weight: number;
  mode: "accept" | "reject" | "drain" | "backup";
}

/** One measurement of a node. */
export interface NodeProbe {
  /** When it began, milliseconds since the epoch. */
  atMs: number;
  durationMs: number;
  ok: boolean;
  /** A sentence for people. */
  reason: string;
}

/** What the health loop knows of a node. */
export interface ObservedNode {
  status: "Unknown" | "UP" | "DOWN";
  /** It gets no requests, whatever the kind of check: its instance does not run, or one failed there and it was not measured since. */
  out?: true;
}

const byConfig = (row: NodeRow) => row.configId;

export const nodesOf = (reader: Reader, configId: number): readonly NodeRow[] => reader.find("node", byConfig, configId);

export const nodeStatus = (store: Pick<CloudStore, "observed">, id: number): ObservedNode["status"] =>
  observed(store as CloudStore, "node", id)?.status ?? "Unknown";

/** Contract 8.2: what is not up, or takes no requests, counts as down; the sum is the number of nodes. */
export const nodesStatus = (store: CloudStore, configId: number, reader: Reader = store): { up: number; down: number } => {
  const nodes = nodesOf(reader, configId);
  const up = nodes.filter((row) => row.mode !== "reject" && nodeStatus(store, row.id) === "UP").length;
  return { up, down: nodes.length - up };
};

/** Contract 8.4. */
export const nodeView = (store: CloudStore, row: NodeRow) => ({
  id: row.id,
  label: row.label,
  address: row.address,
  weight: row.weight,
  mode: row.mode,
  status: nodeStatus(store, row.id),
  configId: row.configId,
  balancerId: row.balancerId,
  vpcConfigId: null,
});
