import { expect, test } from "vitest";
import { type Dated, DueQueue } from "#backlot/reconcile/due.js";
import { chanceOf } from "../soak/seed.js";

interface Item extends Dated {
  name: number;
}

const fresh = (name: number, dueMs: number): Item => ({ name, dueMs, place: -1 });

test("what is due earliest comes first, also when moments change, and nothing comes twice", () => {
  const chance = chanceOf(11);
  const queue = new DueQueue<Item>();
  const waiting = new Set<Item>();
  for (let step = 0; step < 20_000; step += 1) {
    const verb = chance.below(3);
    if (verb === 0 && waiting.size < 200) {
      const item = fresh(step, chance.below(1_000));
      waiting.add(item);
      queue.put(item);
    } else if (verb === 1 && waiting.size > 0) {
      const item = chance.oneOf([...waiting]);
      item.dueMs = chance.below(1_000);
      queue.put(item);
    } else {
      const earliest = Math.min(...[...waiting].map(({ dueMs }) => dueMs));
      const first = queue.first();
      expect(queue.shift()).toBe(first);
      expect(first?.dueMs ?? Number.POSITIVE_INFINITY).toBe(earliest);
      expect(first?.place ?? -1).toBe(-1);
      if (first) expect(waiting.delete(first)).toBe(true);
    }
  }
});
