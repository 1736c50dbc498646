import { expect, test } from "vitest";
import { describeDocker } from "../support/docker.js";
import { onDocker, onProcesses } from "./crash.js";

/** Another seed, another course: `SOAK_SEED=7 npm run soak`. */
const seed = Number(process.env.SOAK_SEED ?? 2);

test("killed 200 times on processes", async () => {
  const figures = await onProcesses(200, seed);
  console.log(JSON.stringify(figures));
  expect(figures.cycles).toBe(200);
});

describeDocker("on the engine", () => {
  test("killed 50 times", async () => {
    const figures = await onDocker(50, seed);
    console.log(JSON.stringify(figures));
    expect(figures.cycles).toBe(50);
  });
});
