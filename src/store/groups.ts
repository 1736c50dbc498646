import type { Row } from "./store.js";

/** The index of the first row whose id is not below `id`. */
export const placeOf = (rows: readonly Row[], id: number): number => {
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((rows[middle]?.id ?? 0) < id) low = middle + 1;
    else high = middle;
  }
  return low;
};

/** What rows are found by: a function of the row alone that is always the same function. Null: the row is not to be found by it. */
export type Key = (row: never) => string | number | boolean | null;

/** Rows by what one key says of them, kept while rows come and go. */
export class Groups {
  readonly #key: (row: Row) => unknown;
  readonly #groups = new Map<unknown, Row[]>();

  constructor(key: Key, rows: Iterable<Row | undefined>) {
    this.#key = key as (row: Row) => unknown;
    for (const row of rows) this.move(undefined, row);
  }

  /** A row was `before` and is `after` now. */
  move(before: Row | undefined, after: Row | undefined): void {
    const from = before && this.#key(before);
    const to = after && this.#key(after);
    if (before && from !== null) {
      const group = this.#groups.get(from);
      const place = group ? placeOf(group, before.id) : 0;
      if (after && from === to) {
        if (group) group[place] = after;
        return;
      }
      if (group?.length === 1) this.#groups.delete(from);
      else group?.splice(place, 1);
    }
    if (!after || to === null) return;
    const group = this.#groups.get(to);
    if (!group) this.#groups.set(to, [after]);
    else if ((group.at(-1)?.id ?? 0) < after.id) group.push(after);
    else group.splice(placeOf(group, after.id), 0, after);
  }

  /** In order of id; the caller's own array. */
  of(value: unknown): Row[] {
    return this.#groups.get(value)?.slice() ?? [];
  }
}
