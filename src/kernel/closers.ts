import { within } from "./bound.js";
import { Fault } from "./fault.js";

/** Something that was opened. Closing waits until it is really closed; closing twice is allowed. */
export interface Disposable {
  close(): Promise<void>;
}

interface Closer {
  close: () => Promise<void> | void;
  what: string;
  withinMs: number | undefined;
}

/** Whoever comes late in a row that hangs gets this long all the same, in ms. */
const leastMs = 1_000;

const leftBehind = (what: string, ms: number): Fault => {
  const happened = `${what} did not close within ${Math.round(ms / 1000)} s and were left behind: whatever they wait for does not answer.`;
  const remedy = "If instances are containers, look at the engine; the next start goes on with what is there.";
  return new Fault("unavailable", [{ reason: `${happened} ${remedy}` }]);
};

/**
 * A stack of what was opened, closed in reverse. Every closer runs even when one throws or hangs; the first error is thrown at the end.
 * With a bound all of them together have `withinMs`; what does not close by then is left behind and named in the error.
 */
export class Closers implements Disposable {
  #stack: Closer[] = [];
  #closing: Promise<void> | undefined;

  constructor(readonly withinMs?: number) {}

  /** @param what its name for people; @param withinMs its own bound, beside the others' */
  add(close: () => Promise<void> | void, what = "something that was opened", withinMs?: number): void {
    this.#stack.push({ close, what, withinMs });
  }

  close(): Promise<void> {
    this.#closing ??= this.#run();
    return this.#closing;
  }

  async #run(): Promise<void> {
    const errors: unknown[] = [];
    let deadlineMs = performance.now() + (this.withinMs ?? 0);
    for (const { close, what, withinMs } of this.#stack.reverse()) {
      const startedMs = performance.now();
      const bound = this.withinMs === undefined ? undefined : (withinMs ?? Math.max(leastMs, deadlineMs - startedMs));
      try {
        const closed = Promise.resolve(close());
        if (bound === undefined) await closed;
        else
          await within(bound, closed, () => {
            throw leftBehind(what, bound);
          });
      } catch (error) {
        errors.push(error);
      }
      if (withinMs !== undefined) deadlineMs += performance.now() - startedMs;
    }
    if (errors.length > 0) throw errors[0];
  }
}
