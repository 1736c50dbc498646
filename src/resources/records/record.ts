import { wireTime } from "../../kernel/clock.js";
import { notFound } from "../../kernel/fault.js";
import type { Row } from "../../store/store.js";
import type { CloudStore, Reader, Tx } from "../cloud.js";
import type { recordTypes } from "./fields.js";

export type RecordType = (typeof recordTypes)[number];

/** Contract 12.1. */
export interface RecordRow extends Row {
  domainId: number;
  type: RecordType;
  /** Without the domain; empty at the apex. */
  name: string;
  target: string;
  priority: number;
  weight: number;
  port: number;
  service: string | null;
  protocol: string | null;
  ttlSec: number;
  tag: "issue" | "issuewild" | "iodef" | null;
  createdMs: number;
  updatedMs: number;
}

const byDomain = (row: RecordRow) => row.domainId;

export const recordsOf = (reader: Reader, domainId: number): readonly RecordRow[] => reader.find("record", byDomain, domainId);

/** The record of that domain, or not found. */
export const requireRecord = (reader: Pick<CloudStore | Tx, "get">, domainId: number, id: number | undefined): RecordRow => {
  const row = reader.get("record", id ?? 0);
  if (row?.domainId !== domainId) throw notFound();
  return row;
};

export const recordView = (row: RecordRow) => ({
  id: row.id,
  type: row.type,
  name: row.name,
  target: row.target,
  priority: row.priority,
  weight: row.weight,
  port: row.port,
  service: row.service,
  protocol: row.protocol,
  ttlSec: row.ttlSec,
  tag: row.tag,
  created: wireTime(row.createdMs),
  updated: wireTime(row.updatedMs),
});
