import type { OnReadOpts } from "node:net";

/** What most reads need, and all that an idle connection holds. */
const SMALL_BYTES = 8_192;
const LARGE_BYTES = 65_536;
/** So many large buffers are kept for the next who needs one. */
const MAX_SPARE = 64;
/** For streams: 10 to 30 % less processor time than with large ones, in some runs half; see docs/balancer.md. */
const HUGE_BYTES = 524_288;
/** So many huge buffers there are at most, whatever slow readers hold. */
const MAX_HUGE = 16;

const spareHuge: Slot[] = [];
const spareLarge: Slot[] = [];
let hugeCount = 0;
/** Those of connections that broke off in the middle are dropped by nobody. */
const lost = new FinalizationRegistry(() => {
  hugeCount--;
});

/** Memory for reads, and how many still need what is in it. */
class Slot {
  readonly bytes: Buffer;
  holders = 1;

  constructor(size: number) {
    this.bytes = Buffer.allocUnsafeSlow(size);
  }

  readonly drop = (): void => {
    this.holders--;
    if (this.holders > 0) return;
    if (this.bytes.length === HUGE_BYTES) spareHuge.push(this);
    else if (this.bytes.length === LARGE_BYTES && spareLarge.length < MAX_SPARE) spareLarge.push(this);
  };
}

const hugeSlot = (): Slot | undefined => {
  if (spareHuge.length > 0 || hugeCount === MAX_HUGE) return spareHuge.pop();
  hugeCount++;
  const slot = new Slot(HUGE_BYTES);
  lost.register(slot, undefined);
  return slot;
};

/** Memory for a read after one that filled its memory. `again`: that was not small. */
const longSlot = (again: boolean): Slot => {
  const slot = (again ? hugeSlot() : undefined) ?? spareLarge.pop() ?? new Slot(LARGE_BYTES);
  slot.holders = 1;
  return slot;
};

/**
 * Where a connection's reads go: to memory that is used again, since 64 KiB from the allocator for every read cost as much as the kernel takes to
 * fill them. A read that fills its buffer is followed by one into a large buffer, and when that is filled too into a huge one, unless all of those are
 * in use. While a slow reader still needs what lies in the small one, what comes is copied: few bytes are not to keep much memory.
 */
export class Intake {
  /** For `connect`. */
  readonly onread: OnReadOpts;
  readonly #small = new Slot(SMALL_BYTES);
  /** Stands in for the small one while that is held. */
  #second: Buffer | undefined;
  #slot: Slot | undefined = this.#small;
  #filled = false;

  /** `take` gets what was read: the first `size` of `bytes`. After it has returned they may change, unless it asked for `hold()`. */
  constructor(take: (bytes: Buffer, size: number) => void) {
    this.onread = {
      buffer: () => this.#next(),
      callback: (size, bytes) => {
        const slot = this.#slot;
        this.#filled = size === bytes.length;
        if (slot) take(slot.bytes, size);
        else take(Buffer.from((bytes as Buffer).subarray(0, size)), size);
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
    const long = slot !== undefined && slot !== this.#small;
    if (long) slot.drop();
    if (this.#filled) {
      this.#slot = longSlot(long);
      return this.#slot.bytes;
    }
    if (this.#small.holders === 1) {
      this.#slot = this.#small;
      return this.#small.bytes;
    }
    this.#slot = undefined;
    this.#second ??= Buffer.allocUnsafeSlow(SMALL_BYTES);
    return this.#second;
  }
}
