import { isDeepStrictEqual } from "node:util";
import type { Row } from "../../store/store.js";
import type { CloudStore, Kinds, Tx } from "../cloud.js";
import type { BilledTime, Moment } from "./billed-time.js";
import { type BillableKind, type Billed, billableKinds, billedOf, isBillable, type UsageRow } from "./usage.js";

/** What is there has open usage: by what it is of, and closed rows by nothing. */
const byEntity = (row: UsageRow): string | null => (row.toMs === null ? `${row.kind} ${row.entityId}` : null);

const isSame = (row: UsageRow, charge: Billed["charges"][number], region: string): boolean =>
  row.product === charge.product && row.plan === charge.plan && row.quantity === charge.quantity && row.region === region;

/** Makes the open usage rows of one thing match what it is now: opens what began, closes what ended, renames the rest. */
const meter = (tx: Tx, kind: BillableKind, id: number, after: Billed | undefined, now: Moment): void => {
  const open = tx.find("usage", byEntity, `${kind} ${id}`);
  const charges = after?.charges ?? [];
  for (const row of open) {
    const lasts = after !== undefined && charges.some((charge) => isSame(row, charge, after.region));
    if (!lasts) tx.update("usage", row.id, { toMs: now.ms, toBilledMs: now.billedMs });
    else if (row.label !== after.label) tx.update("usage", row.id, { label: after.label });
  }
  if (!after) return;
  const begun = charges.filter((charge) => !open.some((row) => isSame(row, charge, after.region)));
  const { label, region } = after;
  const span = { fromMs: now.ms, fromBilledMs: now.billedMs, toMs: null, toBilledMs: null };
  for (const charge of begun) tx.insert("usage", { kind, entityId: id, ...charge, label, region, ...span });
};

/** The same transaction, and what the rows that cost something were before it changed them. */
const watched = (tx: Tx): { tx: Tx; before: Map<string, { kind: BillableKind; id: number; row: Row | undefined }> } => {
  const before = new Map<string, { kind: BillableKind; id: number; row: Row | undefined }>();
  const note = (kind: string, id: number, row: Row | undefined): void => {
    const key = `${kind} ${id}`;
    if (isBillable(kind) && !before.has(key)) before.set(key, { kind, id, row });
  };
  return {
    before,
    tx: {
      get: tx.get,
      list: tx.list,
      find: tx.find,
      insert: (kind, row) => {
        const made = tx.insert(kind, row);
        note(kind, made.id, undefined);
        return made;
      },
      update: (kind, id, patch) => {
        note(kind, id, tx.get(kind, id));
        return tx.update(kind, id, patch);
      },
      remove: (kind, id) => {
        note(kind, id, tx.get(kind, id));
        tx.remove(kind, id);
      },
    },
  };
};

const billedRow = (kind: BillableKind, row: Row | undefined): Billed | undefined => row && billedOf(kind, row as Kinds[BillableKind]);

/**
 * The store with a meter in every commit: whoever makes, changes or removes something that costs money leaves a usage row in the same
 * commit, without knowing it. What a commit refuses leaves none.
 */
export const metered = (store: CloudStore, time: BilledTime): CloudStore => ({
  ...store,
  commit: (change) =>
    store.commit((inner) => {
      const { tx, before } = watched(inner);
      const value = change(tx);
      for (const { kind, id, row } of before.values()) {
        const is = billedRow(kind, inner.get(kind, id));
        if (!isDeepStrictEqual(billedRow(kind, row), is)) meter(inner, kind, id, is, time.now());
      }
      return value;
    }),
});

/** At a start: what is there and has no open usage (a state from before there was a meter) begins to be billed; what is gone ends. */
export const catchUp = (tx: Tx, now: Moment): void => {
  for (const row of tx.list("usage")) if (row.toMs === null && !tx.get(row.kind, row.entityId)) meter(tx, row.kind, row.entityId, undefined, now);
  for (const kind of billableKinds) for (const row of tx.list(kind)) meter(tx, kind, row.id, billedRow(kind, row), now);
};
