import { isDeepStrictEqual } from "node:util";
import { indexBy } from "../../kernel/index-by.js";
import type { Row } from "../../store/store.js";
import type { CloudStore, Kinds, Tx } from "../cloud.js";
import type { BilledTime, Moment } from "./billed-time.js";
import { type BillableKind, type Billed, billableKinds, billedOf, isBillable, type UsageRow } from "./usage.js";

const byEntity = (row: UsageRow) => `${row.kind} ${row.entityId}`;

/** A look at every row, and no index: it is asked once a change, and the change it is asked for makes an index useless. */
const openUsage = (tx: Tx, kind: BillableKind, id: number): readonly UsageRow[] =>
  tx.list("usage").filter((row) => row.entityId === id && row.toMs === null && row.kind === kind);

const isSame = (row: UsageRow, charge: Billed["charges"][number], region: string): boolean =>
  row.product === charge.product && row.plan === charge.plan && row.quantity === charge.quantity && row.region === region;

/** Makes the open usage rows of one thing match what it is now: opens what began, closes what ended, renames the rest. */
const meter = (tx: Tx, kind: BillableKind, id: number, open: readonly UsageRow[], after: Billed | undefined, now: Moment): void => {
  const charges = after?.charges ?? [];
  for (const row of open) {
    const lasts = after !== undefined && charges.some((charge) => isSame(row, charge, after.region));
    if (!lasts) tx.update("usage", row.id, { toMs: now.ms, toBilledMs: now.billedMs });
    else if (row.label !== after.label) tx.update("usage", row.id, { label: after.label });
  }
  if (!after) return;
  for (const charge of charges) {
    if (open.some((row) => isSame(row, charge, after.region))) continue;
    const { label, region } = after;
    tx.insert("usage", { kind, entityId: id, ...charge, label, region, fromMs: now.ms, fromBilledMs: now.billedMs, toMs: null, toBilledMs: null });
  }
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
        const was = billedRow(kind, row);
        const is = billedRow(kind, inner.get(kind, id));
        // Looking open rows up costs an index over all of them; most commits change nothing that is billed.
        if (!isDeepStrictEqual(was, is)) meter(inner, kind, id, was ? openUsage(inner, kind, id) : [], is, time.now());
      }
      return value;
    }),
});

/** At a start: what is there and has no open usage (a state from before there was a meter) begins to be billed; what is gone ends. */
export const catchUp = (tx: Tx, now: Moment): void => {
  const open = new Map(
    indexBy(
      tx.list("usage").filter((row) => row.toMs === null),
      byEntity,
    ),
  );
  for (const kind of billableKinds) {
    for (const row of tx.list(kind)) {
      const key = `${kind} ${row.id}`;
      meter(tx, kind, row.id, open.get(key) ?? [], billedRow(kind, row), now);
      open.delete(key);
    }
  }
  for (const row of [...open.values()].flat()) tx.update("usage", row.id, { toMs: now.ms, toBilledMs: now.billedMs });
};
