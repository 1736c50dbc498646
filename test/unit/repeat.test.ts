import { expect, test } from "vitest";
import { repeat } from "#backlot/reconcile/repeat.js";
import { until } from "../support/until.js";

test("work that takes longer than its interval never runs beside itself, goes on after a failure, and is over when closed", async () => {
  let running = 0;
  let most = 0;
  let done = 0;
  const failures: unknown[] = [];
  const work = async (): Promise<void> => {
    running += 1;
    most = Math.max(most, running);
    await new Promise((resolve) => setTimeout(resolve, 20));
    running -= 1;
    done += 1;
    if (done === 2) throw new Error("once");
  };
  const repeating = repeat(1, work, (error) => failures.push(error));
  await until(() => done >= 4);
  await until(() => running === 1);
  await repeating.close();
  expect([running, most, failures.map(String)]).toEqual([0, 1, ["Error: once"]]);
});
