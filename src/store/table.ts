import { Groups, type Key, placeOf } from "./groups.js";
import type { Row } from "./store.js";

/** Rows by id as they become; `undefined` removes. */
export type Changes = ReadonlyMap<number, Row | undefined>;

/** Taking one row out moves those behind it, some 20 µs among 50,000; more than this many are left out while copying. */
const fewRemoved = 16;

/** A changed copy: one allocation, which is what it costs (0.3 ms for 50,000 rows); growing a copy would make another. */
const patched = (rows: readonly Row[], changes: Changes): readonly Row[] => {
  const last = rows.at(-1)?.id ?? 0;
  const added = [...changes.values()].flatMap((row) => (row && row.id > last ? [row] : []));
  const copy = added.length === 0 ? rows.slice() : rows.concat(added.sort((a, b) => a.id - b.id));
  const removed: number[] = [];
  for (const [id, row] of changes) {
    if (id > last) continue;
    const place = placeOf(copy, id);
    const known = copy[place]?.id === id;
    if (row === undefined) {
      if (known) removed.push(id);
    } else if (known) copy[place] = row;
    else copy.splice(place, 0, row);
  }
  if (removed.length > fewRemoved) {
    const all = new Set(removed);
    return copy.filter((row) => !all.has(row.id));
  }
  for (const id of removed) copy.splice(placeOf(copy, id), 1);
  return copy;
};

/**
 * The rows of one kind: all of them, or (a draft) the changes laid over a table below. A table below must not change while a draft on it is read.
 * The arrays handed out are not frozen, only typed so: slicing a frozen array of 10,000 takes V8 0.4 ms instead of 0.02 (measured, Node 20).
 */
export class Table {
  #nextId: number;
  readonly #below: Table | undefined;
  readonly #rows = new Map<number, Row | undefined>();
  #listed: readonly Row[] | undefined;
  /** Changes that `#listed` does not show yet. */
  #pending = new Map<number, Row | undefined>();
  /** Of `#rows`, by each key that was ever asked for. */
  readonly #groups = new Map<Key, Groups>();

  private constructor(below: Table | undefined, nextId: number) {
    this.#below = below;
    this.#nextId = nextId;
  }

  /** `rows` in order of id. */
  static of(rows: readonly Row[], nextId: number): Table {
    const table = new Table(undefined, nextId);
    for (const row of rows) table.#rows.set(row.id, row);
    table.#listed = rows;
    return table;
  }

  /** No row has, or ever had, this id or a higher one. */
  get nextId(): number {
    return this.#nextId;
  }

  /** A draft's own changes. */
  get changes(): Changes {
    return this.#rows;
  }

  draft(): Table {
    return new Table(this, this.#nextId);
  }

  get(id: number): Row | undefined {
    const own = this.#rows.get(id);
    return own !== undefined || this.#below === undefined || this.#rows.has(id) ? own : this.#below.get(id);
  }

  list(): readonly Row[] {
    this.#listed ??= this.#below?.list() ?? [];
    if (this.#pending.size > 0) {
      this.#listed = patched(this.#listed, this.#pending);
      this.#pending = new Map();
    }
    return this.#listed;
  }

  /**
   * The rows of which `key` says `value`, in order of id. A draft asks the table below and lays its own changes over the answer, so nothing
   * is to be put back when it is dropped.
   */
  find(key: Key, value: unknown): readonly Row[] {
    if (this.#below === undefined) return this.#groupsBy(key).of(value);
    const below = this.#below.find(key, value);
    if (this.#rows.size === 0) return below;
    const own = this.#groupsBy(key).of(value);
    const rest = below.filter((row) => !this.#rows.has(row.id));
    return own.length === 0 ? rest : [...rest, ...own].sort((a, b) => a.id - b.id);
  }

  #groupsBy(key: Key): Groups {
    let groups = this.#groups.get(key);
    if (groups === undefined) {
      groups = new Groups(key, this.#rows.values());
      this.#groups.set(key, groups);
    }
    return groups;
  }

  /** A row that is named, even to be removed, takes its id for good. */
  put(id: number, row: Row | undefined): void {
    for (const groups of this.#groups.values()) groups.move(this.#rows.get(id), row);
    if (row === undefined && this.#below === undefined) this.#rows.delete(id);
    else this.#rows.set(id, row);
    this.#pending.set(id, row);
    this.#nextId = Math.max(this.#nextId, id + 1);
  }

  apply(changes: Changes): void {
    for (const [id, row] of changes) this.put(id, row);
  }
}
