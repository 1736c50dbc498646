const EVERY_MS = 1_000;
const MAX_KINDS = 10_000;

/** Passes each kind of hint once a second: under load a sick node fails thousands of requests in that time. */
export class HintThrottle {
  #last = new Map<string, number>();

  admits(kind: string, nowMs: number): boolean {
    const last = this.#last.get(kind);
    if (last !== undefined && nowMs - last < EVERY_MS) return false;
    if (this.#last.size >= MAX_KINDS) this.#last.clear();
    this.#last.set(kind, nowMs);
    return true;
  }
}
