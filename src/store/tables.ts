import type { Row } from "./store.js";
import type { Changes, Table } from "./table.js";

/** The tables of a state by kind, or a draft over them: drafts stack, so that one refused change leaves the others of its batch alone. */
export class Tables {
  readonly #below: Tables | undefined;
  readonly #tables: Map<string, Table>;

  private constructor(below: Tables | undefined, tables: Map<string, Table>) {
    this.#below = below;
    this.#tables = tables;
  }

  static of(tables: Map<string, Table>): Tables {
    return new Tables(undefined, tables);
  }

  draft(): Tables {
    return new Tables(this, new Map());
  }

  /** Throws for a kind that was not named when the store was opened: that is a bug of ours. */
  of(kind: string): Table {
    let table = this.#tables.get(kind);
    if (table === undefined) {
      if (this.#below === undefined) throw new Error(`There is no kind "${kind}" in this store.`);
      table = this.#below.of(kind).draft();
      this.#tables.set(kind, table);
    }
    return table;
  }

  kinds(): string[] {
    return [...this.#tables.keys()];
  }

  /** What a draft changes, kind by kind; kinds it only read are left out. */
  changes(): [string, Changes][] {
    return [...this.#tables].map(([kind, table]): [string, Changes] => [kind, table.changes]).filter(([, changes]) => changes.size > 0);
  }

  apply(draft: Tables): void {
    for (const [kind, changes] of draft.changes()) this.of(kind).apply(changes);
  }
}

const isPlain = (value: object): boolean => Array.isArray(value) || Object.getPrototypeOf(value) === Object.prototype;

const freeze = (value: unknown): void => {
  if (typeof value !== "object" || value === null || Object.isFrozen(value) || !isPlain(value)) return;
  Object.freeze(value);
  for (const member of Object.values(value)) freeze(member);
};

/** Plain objects and arrays frozen through and through. What is frozen already is taken to be so all the way down. */
export const frozen = <T>(value: T): T => {
  freeze(value);
  return value;
};

/** The row as it would come back from the disk (no `undefined`, no dates, no class instances), so that a restart changes nothing a reader sees. */
export const plainRow = (row: object): Row => frozen(JSON.parse(JSON.stringify(row)) as Row);
