import { isDeepStrictEqual } from "node:util";
import { indexBy } from "../../kernel/index-by.js";
import type { Row } from "../../store/store.js";
import type { CloudStore, Kinds, Tx } from "../cloud.js";
import type { BilledTime, Moment } from "./billed-time.js";
import { type BillableKind, type Billed, billableKinds, billedOf, isBillable, type UsageRow } from "./usage.js";

const byEntity = (row: UsageRow) => `${row.kind} ${row.entityId}`;

interface OpenUsage {
  /** The open rows of one thing, as a transaction sees them. */
  of(tx: Tx, kind: BillableKind, id: number): readonly UsageRow[];
  /** A row that a commit under way made; nobody else knows of it yet. */
  note(row: UsageRow): void;
}

/**
 * Where open rows are, kept from commit to commit: an index made anew over 50,000 rows would cost a rename 100 ms. It may name too much, such as
 * what a refused commit made, since each is looked at; never too little.
 */
const openUsage = (store: CloudStore): OpenUsage => {
  const ids = new Map<string, Set<number>>();
  const note = (row: UsageRow): void => {
    const key = byEntity(row);
    const known = ids.get(key);
    if (known) known.add(row.id);
    else ids.set(key, new Set([row.id]));
  };
  const forget = (row: UsageRow): void => {
    const key = byEntity(row);
    ids.get(key)?.delete(row.id);
    if (ids.get(key)?.size === 0) ids.delete(key);
  };
  for (const row of store.list("usage")) if (row.toMs === null) note(row);
  store.watch((kind, id) => {
    const row = kind === "usage" ? store.get("usage", id) : undefined;
    if (row) (row.toMs === null ? note : forget)(row);
  });
  return {
    note,
    of: (tx, kind, id) => {
      const key = `${kind} ${id}`;
      const rows = [...(ids.get(key) ?? [])].flatMap((usage) => tx.get("usage", usage) ?? []);
      return rows.filter((row) => row.toMs === null && byEntity(row) === key);
    },
  };
};

const isSame = (row: UsageRow, charge: Billed["charges"][number], region: string): boolean =>
  row.product === charge.product && row.plan === charge.plan && row.quantity === charge.quantity && row.region === region;

/** Makes the open usage rows of one thing match what it is now: opens what began (and gives it back), closes what ended, renames the rest. */
const meter = (tx: Tx, kind: BillableKind, id: number, open: readonly UsageRow[], after: Billed | undefined, now: Moment): UsageRow[] => {
  const charges = after?.charges ?? [];
  for (const row of open) {
    const lasts = after !== undefined && charges.some((charge) => isSame(row, charge, after.region));
    if (!lasts) tx.update("usage", row.id, { toMs: now.ms, toBilledMs: now.billedMs });
    else if (row.label !== after.label) tx.update("usage", row.id, { label: after.label });
  }
  if (!after) return [];
  const begun = charges.filter((charge) => !open.some((row) => isSame(row, charge, after.region)));
  const { label, region } = after;
  return begun.map((charge) => {
    const span = { fromMs: now.ms, fromBilledMs: now.billedMs, toMs: null, toBilledMs: null };
    return tx.insert("usage", { kind, entityId: id, ...charge, label, region, ...span });
  });
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
export const metered = (store: CloudStore, time: BilledTime): CloudStore => {
  const open = openUsage(store);
  return {
    ...store,
    commit: (change) =>
      store.commit((inner) => {
        const { tx, before } = watched(inner);
        const value = change(tx);
        for (const { kind, id, row } of before.values()) {
          const was = billedRow(kind, row);
          const is = billedRow(kind, inner.get(kind, id));
          if (isDeepStrictEqual(was, is)) continue;
          for (const begun of meter(inner, kind, id, open.of(inner, kind, id), is, time.now())) open.note(begun);
        }
        return value;
      }),
  };
};

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
