import type { OnReadOpts } from "node:net";

/** What most reads need, and all that an idle connection holds. */
const SMALL_BYTES = 8_192;
const LARGE_BYTES = 65_536;
/** So many large buffers are kept for the next who needs one. */
const MAX_SPARE = 64;

const spare: Slot[] = [];

/** A large buffer and how many still need what is in it. */
class Slot {
  readonly bytes = Buffer.allocUnsafeSlow(LARGE_BYTES);
  holders = 1;

  readonly drop = (): void => {
    this.holders--;
    if (this.holders === 0 && spare.length < MAX_SPARE) spare.push(this);
  };
}

/**
 * Where a connection's reads go: to memory that is used again, since 64 KiB from the allocator for every read cost as much as the kernel takes to
 * fill them. A read that fills its buffer is followed by one into a large buffer; what came in a small one is copied out.
 */
export class Intake {
  /** For `connect`. */
  readonly onread: OnReadOpts;
  readonly #small = Buffer.allocUnsafeSlow(SMALL_BYTES);
  #slot: Slot | undefined;
  #filled = false;

  /** `take` gets what was read. After it has returned the bytes may change, unless it asked for `hold()`. */
  constructor(take: (bytes: Buffer) => void) {
    this.onread = {
      buffer: () => this.#next(),
      callback: (size) => {
        const slot = this.#slot;
        this.#filled = size === (slot ? LARGE_BYTES : SMALL_BYTES);
        take(slot ? slot.bytes.subarray(0, size) : Buffer.from(this.#small.subarray(0, size)));
        return true;
      },
    };
  }

  /** Keeps the bytes being taken as they are until the returned function is called. `undefined`: they are the taker's for ever. */
  hold(): (() => void) | undefined {
    if (!this.#slot) return undefined;
    this.#slot.holders++;
    return this.#slot.drop;
  }

  #next(): Buffer {
    const slot = this.#slot;
    if (this.#filled && slot?.holders === 1) return slot.bytes;
    slot?.drop();
    this.#slot = this.#filled ? (spare.pop() ?? new Slot()) : undefined;
    if (this.#slot) this.#slot.holders = 1;
    return this.#slot?.bytes ?? this.#small;
  }
}
