export type Waiting = "idle" | "reader" | "connect" | "body" | "answer" | "half-closed" | "linger";

/** What a session waits for, and until when. Nothing is timed: the beat looks. */
export class Patience {
  /** `undefined`: for nothing that has an end. */
  what: Waiting | undefined;
  #deadlineMs = Number.POSITIVE_INFINITY;

  wait(what: Waiting, ms: number) {
    this.what = what;
    this.#deadlineMs = performance.now() + ms;
  }

  end() {
    this.what = undefined;
    this.#deadlineMs = Number.POSITIVE_INFINITY;
  }

  isOver(nowMs: number): boolean {
    return nowMs >= this.#deadlineMs;
  }
}
