import type { Row } from "./store.js";
import { Table } from "./table.js";
import { Tables } from "./tables.js";

/** The whole state at one moment: what the snapshot file holds and what a migration is given. */
export interface StateDocument {
  format: "backlot-state";
  schemaVersion: number;
  /** The state's own id, made with it. */
  owner: string;
  /** Number of the last commit it includes; 0 when there was none. */
  sequence: number;
  /** By kind; never goes down. */
  nextIds: Record<string, number>;
  /** By kind, in order of id. */
  rows: Record<string, readonly Row[]>;
}

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);

/** A whole number JavaScript can count on from, not below `least`. */
export const isCount = (value: unknown, least = 0): value is number => Number.isSafeInteger(value) && (value as number) >= least;

const areRows = (rows: unknown, nextId: unknown): boolean => {
  if (!Array.isArray(rows) || !isCount(nextId, 1)) return false;
  let last = 0;
  for (const row of rows) {
    if (!isRecord(row) || !isCount(row.id, last + 1) || row.id >= nextId) return false;
    last = row.id;
  }
  return true;
};

export const isStateDocument = (value: unknown): value is StateDocument =>
  isRecord(value) &&
  value.format === "backlot-state" &&
  isCount(value.schemaVersion) &&
  typeof value.owner === "string" &&
  value.owner !== "" &&
  isCount(value.sequence) &&
  isRecord(value.rows) &&
  isRecord(value.nextIds) &&
  Object.entries(value.rows).every(([kind, rows]) => areRows(rows, (value.nextIds as Record<string, unknown>)[kind]));

/** The next moment's document: cheap, since the arrays are never changed once they were listed. */
export const documentOf = (before: StateDocument, sequence: number, tables: Tables): StateDocument => {
  const kinds = tables.kinds();
  return {
    ...before,
    sequence,
    nextIds: Object.fromEntries(kinds.map((kind) => [kind, tables.of(kind).nextId])),
    rows: Object.fromEntries(kinds.map((kind) => [kind, tables.of(kind).list()])),
  };
};

/** With an empty table for each of `kinds` the document does not know. `firstIds`: least next id of a kind, where it is not 1. */
export const tablesOf = (document: StateDocument, kinds: readonly string[], firstIds: Readonly<Record<string, number | undefined>> = {}): Tables =>
  Tables.of(
    new Map(
      [...Object.keys(document.rows), ...kinds].map((kind) => [
        kind,
        Table.of(document.rows[kind] ?? [], Math.max(document.nextIds[kind] ?? 1, firstIds[kind] ?? 1)),
      ]),
    ),
  );
