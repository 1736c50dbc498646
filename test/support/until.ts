/**
 * Waits for a state of the world: asks again until `check` gives something other than `undefined` or `false`.
 * @throws Error after `withinMs` real milliseconds, naming `what`.
 */
export const until = async <T>(
  check: () => Promise<T | undefined | false> | T | undefined | false,
  options: { withinMs?: number; what?: string } = {},
): Promise<T> => {
  const { withinMs = 10_000, what = "the expected state" } = options;
  const deadline = Date.now() + withinMs;
  for (;;) {
    const seen = await check();
    if (seen !== undefined && seen !== false) return seen;
    if (Date.now() > deadline) throw new Error(`${what} did not come within ${withinMs} ms`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
};
