import type { Disposable } from "../kernel/closers.js";

/**
 * Does something again and again, `everyMs` after the last time ended: work that takes longer than its interval never runs beside itself.
 * Closing waits for what is being done.
 */
export const repeat = (everyMs: number, work: () => Promise<unknown>, onFailure: (error: unknown) => void): Disposable => {
  let isClosing = false;
  let timer: NodeJS.Timeout | undefined;
  let running: Promise<void> = Promise.resolve();
  const arm = (): void => {
    if (isClosing) return;
    timer = setTimeout(() => {
      running = work()
        .then(() => {}, onFailure)
        .finally(arm);
    }, everyMs);
  };
  arm();
  return {
    close: async () => {
      isClosing = true;
      clearTimeout(timer);
      await running;
    },
  };
};
