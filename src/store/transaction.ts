import { notFound } from "../kernel/fault.js";
import type { Row, Transaction } from "./store.js";
import { plainRow, type Tables } from "./tables.js";

/** The verbs of one change over its own draft. `end` makes every later use of them throw, since nothing would come of it. */
export const transactionOn = (draft: Tables): { tx: Transaction<Record<string, Row>>; end: () => void } => {
  let open = true;
  const of = (kind: string) => {
    if (!open) throw new Error("The transaction has ended; a change does all its work before it returns.");
    return draft.of(kind);
  };
  const tx: Transaction<Record<string, Row>> = {
    get: (kind, id) => of(kind).get(id),
    list: (kind) => of(kind).list(),
    find: (kind, key, value) => of(kind).find(key, value),
    insert: (kind, row) => {
      const table = of(kind);
      const id = table.nextId;
      const { id: _, ...members } = row as Partial<Row>;
      const made = plainRow({ id, ...members });
      table.put(id, made);
      return made;
    },
    update: (kind, id, patch) => {
      const table = of(kind);
      const before = table.get(id);
      if (before === undefined) throw notFound();
      const after = plainRow({ ...before, ...patch, id });
      if (JSON.stringify(after) === JSON.stringify(before)) return before;
      table.put(id, after);
      return after;
    },
    remove: (kind, id) => {
      const table = of(kind);
      if (table.get(id) !== undefined) table.put(id, undefined);
    },
  };
  return {
    tx,
    end: () => {
      open = false;
    },
  };
};
