import type { NodeCounters } from "./plane.js";

/** Upper bounds of the latency classes, in ms; a last class holds what took longer. */
export const LATENCY_BOUNDS_MS: readonly number[] = [0.5, 1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000];

/** What one node did for one listener since the listener opened. Plain numbers that are only counted up: cheap enough for every request. */
export class Meter {
  requests = 0;
  bytesIn = 0;
  bytesOut = 0;
  errors = 0;
  open = 0;
  readonly #latency = new Array<number>(LATENCY_BOUNDS_MS.length + 1).fill(0);

  /** From the request's head to the head of its answer. */
  took(ms: number): void {
    let at = 0;
    while (ms > (LATENCY_BOUNDS_MS[at] ?? Number.POSITIVE_INFINITY)) at++;
    this.#latency[at] = (this.#latency[at] ?? 0) + 1;
  }

  get counters(): NodeCounters {
    const { requests, bytesIn, bytesOut, errors, open } = this;
    return { requests, bytesIn, bytesOut, errors, open, latency: [...this.#latency] };
  }
}
