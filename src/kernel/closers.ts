/** Something that was opened. Closing waits until it is really closed; closing twice is allowed. */
export interface Disposable {
  close(): Promise<void>;
}

/** A stack of what was opened, closed in reverse. Every closer runs even when one throws; the first error is thrown at the end. */
export class Closers implements Disposable {
  #stack: Array<() => Promise<void> | void> = [];
  #closing: Promise<void> | undefined;

  add(close: () => Promise<void> | void): void {
    this.#stack.push(close);
  }

  close(): Promise<void> {
    this.#closing ??= this.#run();
    return this.#closing;
  }

  async #run(): Promise<void> {
    const errors: unknown[] = [];
    for (const close of this.#stack.reverse()) {
      try {
        await close();
      } catch (error) {
        errors.push(error);
      }
    }
    if (errors.length > 0) throw errors[0];
  }
}
