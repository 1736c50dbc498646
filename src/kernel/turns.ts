export interface Turns<K> {
  <T>(key: K, work: () => Promise<T>): Promise<T>;
  /** Resolves when everything that runs or waits now is over, however it ended. */
  idle(): Promise<void>;
}

/** Runs the work of one key in turns; work of different keys goes side by side. */
export const turns = <K>(): Turns<K> => {
  const tails = new Map<K, Promise<void>>();
  const inTurn = <T>(key: K, work: () => Promise<T>): Promise<T> => {
    const run = (tails.get(key) ?? Promise.resolve()).then(work);
    // The map must not keep a key whose last work is done, nor let its failure go unhandled here: the caller has it.
    const tail: Promise<void> = run.then(
      () => forget(),
      () => forget(),
    );
    const forget = () => {
      if (tails.get(key) === tail) tails.delete(key);
    };
    tails.set(key, tail);
    return run;
  };
  return Object.assign(inTurn, { idle: async () => void (await Promise.all(tails.values())) });
};
