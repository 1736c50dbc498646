import type { Disposable } from "../kernel/closers.js";

/** Every row has a number of its own, given at creation and never reused, not even after a restart. */
export interface Row {
  id: number;
}

/** What a row is found by: one function of the row alone, made once. Rows of which it says null are not to be found by it. */
type RowKey<R, V> = (row: R) => V;

/** The ways to read rows, in a store and in a change alike. `K` maps a kind's name to its row type. */
export interface Rows<K extends Record<keyof K, Row>> {
  get<N extends keyof K>(kind: N, id: number): K[N] | undefined;
  /** In order of id. The array is a snapshot that is not changed later. */
  list<N extends keyof K>(kind: N): readonly K[N][];
  /**
   * The rows of which `key` says `value` (never null), in order of id; a snapshot too. What it costs depends on the rows found, not on those
   * there are: the first question with a key makes an index, and from then on every commit keeps it.
   */
  find<N extends keyof K, V extends string | number | boolean>(kind: N, key: RowKey<K[N], V | null>, value: V): readonly K[N][];
}

/**
 * `K` maps a kind's name to its row type. Rows are plain JSON and frozen: a reader may keep one, nobody may change one.
 * Readers see only what is durable.
 */
export interface Store<K extends Record<keyof K, Row>> extends Rows<K>, Disposable {
  /** The state's own id (random, made with the state); machines carry it as label `owner`. */
  readonly owner: string;
  /**
   * All or nothing, and durable when it resolves (journal line written and `fdatasync`ed). `change` is synchronous, sees the effect of
   * every commit before it, and throws to refuse; then nothing of it remains. Concurrent commits share one write.
   * Rejects with `Fault("unavailable")` naming the file and the cause when the disk refuses; memory is then as before.
   */
  commit<T>(change: (tx: Transaction<K>) => T): Promise<T>;
  /** Memory only; `undefined` forgets. Telling the same (deep-equal) again is no news. Gone after a restart. */
  observe(kind: string, id: number, seen: unknown): void;
  observed(kind: string, id: number): unknown;
  /** Told after a commit is durable (once per changed row) and after news was observed. */
  watch(moved: (kind: keyof K & string, id: number) => void): Disposable;
}

export interface Transaction<K extends Record<keyof K, Row>> extends Rows<K> {
  /** Gives the next id of the kind. */
  insert<N extends keyof K>(kind: N, row: Omit<K[N], "id">): K[N];
  /** Replaces the named members; throws when there is no such row. */
  update<N extends keyof K>(kind: N, id: number, patch: Partial<Omit<K[N], "id">>): K[N];
  /** Absent is success. */
  remove<N extends keyof K>(kind: N, id: number): void;
}
