/** How often deadlines are looked at, in real ms: one timer for thousands of connections instead of one each. */
const BEAT_MS = 100;

/**
 * One slow clock for everybody who has deadlines. It runs only while somebody listens.
 */
export class Beat {
  readonly #listeners = new Set<(nowMs: number) => void>();
  #timer: NodeJS.Timeout | undefined;

  add(listener: (nowMs: number) => void): () => void {
    this.#listeners.add(listener);
    this.#timer ??= setInterval(() => {
      const nowMs = performance.now();
      for (const each of this.#listeners) each(nowMs);
    }, BEAT_MS);
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size > 0) return;
      clearInterval(this.#timer);
      this.#timer = undefined;
    };
  }
}
