/** Something that is due at a moment. */
export interface Dated {
  /** Of `clock.monotonic()`; infinite: never. */
  dueMs: number;
  /** Where it stands in its queue, which alone sets it; -1: nowhere. */
  place: number;
}

/**
 * What is due, the earliest first: a binary heap, so that one timer serves thousands. A timer of each one's own, that lives for seconds, would
 * become old garbage by the hundred every second, and old garbage is what full collections are for.
 */
export class DueQueue<T extends Dated> {
  readonly #heap: T[] = [];

  first(): T | undefined {
    return this.#heap[0];
  }

  /** Takes it in, or notices that its moment is another one. */
  put(item: T): void {
    if (item.place < 0) item.place = this.#heap.push(item) - 1;
    this.#rise(item);
    this.#sink(item);
  }

  /** The first one, which is not in it any more. */
  shift(): T | undefined {
    const [first] = this.#heap;
    const last = this.#heap.pop();
    if (!first || !last) return undefined;
    first.place = -1;
    if (first === last) return first;
    this.#set(0, last);
    this.#sink(last);
    return first;
  }

  #set(place: number, item: T): void {
    this.#heap[place] = item;
    item.place = place;
  }

  #rise(item: T): void {
    for (;;) {
      const { place } = item;
      const above = this.#heap[(place - 1) >> 1];
      if (place === 0 || !above || above.dueMs <= item.dueMs) return;
      this.#set(above.place, item);
      this.#set(place, above);
    }
  }

  #sink(item: T): void {
    for (;;) {
      const { place } = item;
      const [left, right] = [this.#heap[2 * place + 1], this.#heap[2 * place + 2]];
      const below = right && left && right.dueMs < left.dueMs ? right : left;
      if (!below || below.dueMs >= item.dueMs) return;
      this.#set(below.place, item);
      this.#set(place, below);
    }
  }
}
