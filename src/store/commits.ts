import { Fault } from "../kernel/fault.js";
import { unavailable } from "./disk-fault.js";
import type { Journal } from "./journal.js";
import { commitLine } from "./segment.js";
import type { Row, Transaction } from "./store.js";
import type { Tables } from "./tables.js";
import { transactionOn } from "./transaction.js";

export type Change = (tx: Transaction<Record<string, Row>>) => unknown;

interface Waiting {
  change: Change;
  resolve: (value: unknown) => void;
  reject: (error: unknown) => void;
}

export interface Outlets {
  /** Awaited before the next batch begins; must not reject. */
  written: (bytes: number) => Promise<void>;
  moved: (kind: string, id: number) => void;
}

const run = (change: Change, draft: Tables): unknown => {
  const { tx, end } = transactionOn(draft);
  try {
    const value = change(tx);
    if (value instanceof Promise) {
      value.catch(() => {});
      throw new TypeError("A change must be synchronous.");
    }
    return value;
  } finally {
    end();
  }
};

/**
 * Group commit. Changes wait in a queue; the writer takes all of them, runs each on a draft of its own over what the ones before it made, writes
 * one piece with a line per commit, and only then lets memory and callers know. What arrives meanwhile shares the next write. A queue of
 * functions, not of results, since a change must see every commit before it, also one that is not on disk yet.
 */
export class Commits {
  readonly #tables: Tables;
  readonly #journal: Journal;
  readonly #outlets: Outlets;
  #sequence: number;
  #queue: Waiting[] = [];
  #writing: Promise<void> | undefined;
  #closed = false;

  constructor(tables: Tables, sequence: number, journal: Journal, outlets: Outlets) {
    this.#tables = tables;
    this.#sequence = sequence;
    this.#journal = journal;
    this.#outlets = outlets;
  }

  /** Number of the last commit that is durable. */
  get sequence(): number {
    return this.#sequence;
  }

  commit(change: Change): Promise<unknown> {
    if (this.#closed)
      return Promise.reject(new Fault("unavailable", [{ reason: "The change was not saved: the state is closed, Backlot is stopping." }]));
    return new Promise((resolve, reject) => {
      this.#queue.push({ change, resolve, reject });
      this.#writing ??= this.#work();
    });
  }

  /** Takes no new change and waits for those that were taken. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#writing;
  }

  async #work(): Promise<void> {
    await undefined; // the rest of this turn's commits come along
    while (this.#queue.length > 0) {
      const batch = this.#queue;
      this.#queue = [];
      const bytes = await this.#write(batch);
      if (bytes > 0) await this.#outlets.written(bytes);
    }
    this.#writing = undefined;
  }

  /** Gives the bytes written. Refusals wait for the write too: they may rest on a change of this batch that is not durable before. */
  async #write(batch: readonly Waiting[]): Promise<number> {
    const draft = this.#tables.draft();
    const settle: (() => void)[] = [];
    let sequence = this.#sequence;
    let text = "";
    for (const { change, resolve, reject } of batch) {
      const own = draft.draft();
      try {
        const value = run(change, own);
        const changes = own.changes();
        if (changes.length > 0) {
          text += commitLine(sequence + 1, changes);
          sequence += 1;
          draft.apply(own);
        }
        settle.push(() => resolve(value));
      } catch (error) {
        settle.push(() => reject(error));
      }
    }
    const before = this.#journal.length;
    try {
      if (text !== "") await this.#journal.append(text);
    } catch (error) {
      const fault = unavailable(this.#journal.path, error);
      for (const { reject } of batch) reject(fault);
      return 0;
    }
    this.#tables.apply(draft);
    this.#sequence = sequence;
    for (const tell of settle) tell();
    for (const [kind, rows] of draft.changes()) for (const id of rows.keys()) this.#outlets.moved(kind, id);
    return this.#journal.length - before;
  }
}
