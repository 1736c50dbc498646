import { isDeepStrictEqual } from "node:util";
import type { Disposable } from "../kernel/closers.js";
import { reasonOf } from "../kernel/fault.js";
import { frozen } from "./tables.js";

/** What loops observed (memory only), and who wants to be told of changes. */
export class News {
  readonly #observed = new Map<string, Map<number, unknown>>();
  readonly #watchers = new Set<{ moved: (kind: string, id: number) => void }>();
  readonly #onProblem: (reason: string) => void;

  constructor(onProblem: (reason: string) => void) {
    this.#onProblem = onProblem;
  }

  observed(kind: string, id: number): unknown {
    return this.#observed.get(kind)?.get(id);
  }

  observe(kind: string, id: number, seen: unknown): void {
    if (isDeepStrictEqual(this.observed(kind, id), seen)) return;
    const ofKind = this.#observed.get(kind) ?? new Map<number, unknown>();
    this.#observed.set(kind, ofKind);
    // Frozen: if the caller could change it and tell it again, it would be equal to itself and no news.
    if (seen === undefined) ofKind.delete(id);
    else ofKind.set(id, frozen(seen));
    this.tell(kind, id);
  }

  watch(moved: (kind: string, id: number) => void): Disposable {
    const watcher = { moved };
    this.#watchers.add(watcher);
    return {
      close: async () => {
        this.#watchers.delete(watcher);
      },
    };
  }

  tell(kind: string, id: number): void {
    for (const watcher of [...this.#watchers]) {
      try {
        watcher.moved(kind, id);
      } catch (error) {
        this.#onProblem(`A watcher of the store failed on ${kind} ${id}: ${reasonOf(error)}`);
      }
    }
  }
}
