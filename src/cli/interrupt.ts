/** What Ctrl-C (SIGINT), SIGTERM and a closed terminal (SIGHUP) mean for a command that runs on: the first asks it to end, a second one ends it at once with 130. */
export const interruption = (message: string): AbortSignal => {
  const asked = new AbortController();
  const onSignal = () => {
    if (asked.signal.aborted) {
      console.error("Ended at once; what was not stopped is found again at the next start.");
      process.exit(130);
    }
    console.error(message);
    asked.abort(new Error("interrupted"));
  };
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, onSignal);
  return asked.signal;
};

/** Resolves when the signal is aborted. */
export const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
