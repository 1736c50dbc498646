import { writeFileSync } from "node:fs";
import { expect, test } from "vitest";
import { figuresOf, leakSoak } from "./leaks.js";
import { curves } from "./picture.js";

const picture = new URL("../../docs/soak.svg", import.meta.url);

test("an hour of simulated time of everything that comes and goes: memory, descriptors, sockets and timers end where they began", async () => {
  const samples = await leakSoak(40, 140);
  const minutes = Math.round(samples.at(-1)?.minute ?? 0);
  const measured = samples.map((sample) => ({ minute: sample.minute, ...figuresOf(sample) }));
  const [first, last] = [measured[0], measured.at(-1)];
  if (!first || !last) throw new Error("nothing was measured");
  const caption = `${minutes} simulated minutes, ${samples.length - 1} rounds; at the end RSS ${Math.round(last.rss / 2 ** 20)} MB, heap ${Math.round(last.heapUsed / 2 ** 20)} MB, ${last.descriptors} descriptors, ${last.sockets} sockets, ${last.timers} timers`;
  const title = "What Backlot holds while everything comes and goes, its beginning = 1";
  const points = measured.map(({ minute, ...held }) => ({ at: minute, ...held }));
  writeFileSync(picture, curves(points, { title, caption, unit: "simulated minutes" }));
  console.log(caption);
  console.log(JSON.stringify({ first, last }));
  expect(minutes).toBeGreaterThanOrEqual(60);
  for (const what of ["rss", "descriptors", "sockets"] as const) {
    expect(last[what], what).toBeLessThanOrEqual(first[what] * 1.1);
    expect(last[what], what).toBeGreaterThanOrEqual(first[what] * 0.9);
  }
  // Timers of what looks around now and then come and go, one or two of eight at a time. What leaks is more after every round: never again as few
  // as in the first two.
  const timers = measured.map((each) => each.timers);
  expect(Math.min(...timers.slice(2)), "timers").toBeLessThanOrEqual(Math.max(...timers.slice(0, 2)));
});
