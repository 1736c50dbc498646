import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, test } from "vitest";
import { Intake } from "#backlot/balancer/intake.js";
import { until } from "../support/until.js";

const SMALL = 8_192;
const LARGE = 65_536;
const HUGE = 524_288;

/** What Node does with `onread`: asks for memory, fills it, tells how much, asks again. */
const reading = (take: (bytes: Buffer, size: number, intake: Intake) => void) => {
  const intake: Intake = new Intake((bytes, size) => take(bytes, size, intake));
  const ask = () => (intake.onread.buffer as () => Uint8Array)();
  let memory = ask();
  return {
    read(byte: number, size: number): Uint8Array {
      const into = memory;
      into.fill(byte, 0, size);
      intake.onread.callback(size, into);
      memory = ask();
      return into;
    },
  };
};

describe("where reads go", () => {
  test("what nobody holds is read over, in one small piece of memory", () => {
    const source = reading(() => undefined);
    const first = source.read(1, 100);
    expect(first.length).toBe(SMALL);
    expect(source.read(2, 100)).toBe(first);
  });

  test("what is held stays as it is until it is let go, whatever comes meanwhile", () => {
    const taken: Array<{ bytes: Buffer; letGo: (() => void) | undefined }> = [];
    const source = reading((bytes, size, intake) => taken.push({ bytes: bytes.subarray(0, size), letGo: intake.hold() }));
    // Small, small, one that fills its memory, so a large one follows, filled too, so huge ones, then small again.
    const sizes = [100, 6_000, SMALL, LARGE, HUGE, HUGE, 5_000, 200];
    for (const [index, size] of sizes.entries()) source.read(index + 1, size);
    for (const [index, size] of sizes.entries()) expect(taken[index]?.bytes.equals(Buffer.alloc(size, index + 1))).toBe(true);
    for (const { letGo } of taken) letGo?.();
    const first = taken[0]?.bytes as Buffer;
    source.read(99, 100); // was asked for before anything was let go
    source.read(99, 100);
    expect(first.equals(Buffer.alloc(100, 99))).toBe(true);
  });

  test("a slow reader keeps one small piece of memory, not one for each of many short reads", () => {
    const places = new Set<ArrayBufferLike>();
    const source = reading((_bytes, _size, intake) => void intake.hold());
    for (let turn = 0; turn < 1_000; turn++) places.add(source.read(1, 50).buffer);
    expect(places.size).toBe(2);
  });

  test("slow readers hold 16 huge pieces and no more, and those of connections that broke off are used again", async () => {
    /** How much may be read after what filled a small and a large piece. */
    const third = (hold: boolean): number => {
      const source = reading((_bytes, _size, intake) => hold && void intake.hold());
      source.read(1, SMALL);
      expect(source.read(1, LARGE).length).toBe(LARGE);
      return source.read(1, 100).length;
    };
    const lengths = Array.from({ length: 20 }, () => third(true));
    expect(lengths.filter((length) => length === HUGE)).toHaveLength(16);
    expect(lengths.slice(16)).toEqual([LARGE, LARGE, LARGE, LARGE]);
    // Nobody has let go of anything, but the readers are gone.
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    await until(() => {
      collect();
      return third(false) === HUGE;
    });
  });
});
