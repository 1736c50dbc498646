/** Time comes in through the front door, so that a test or `--speed` can decide how fast it goes. */
export interface Clock {
  /** Milliseconds since the Unix epoch. */
  now(): number;
  /** Milliseconds that only ever grow, whatever happens to the system's clock; for measuring spans. */
  monotonic(): number;
  /** Resolves after `ms` real milliseconds; rejects with the signal's reason when it is aborted first. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** Real milliseconds that `ms` simulated ones take (`--speed`, DESIGN section 3 "Time"). */
  simulated(ms: number): number;
}

export const realClock = (speed: number): Clock => ({
  now: () => Date.now(),
  monotonic: () => performance.now(),
  simulated: (ms) => ms / speed,
  sleep: (ms, signal) =>
    new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const onAbort = () => {
        clearTimeout(timer);
        reject(signal?.reason);
      };
      const timer = setTimeout(() => {
        signal?.removeEventListener("abort", onAbort);
        resolve();
      }, ms);
      signal?.addEventListener("abort", onAbort, { once: true });
    }),
});

/** `YYYY-MM-DDTHH:MM:SS` in UTC: the only time format on the wire (contract, decision 17). */
export const wireTime = (ms: number): string => new Date(ms).toISOString().slice(0, 19);
