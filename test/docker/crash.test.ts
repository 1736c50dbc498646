import { expect, test } from "vitest";
import { onDocker } from "../soak/crash.js";
import { describeDocker } from "../support/docker.js";

describeDocker("a crash", () => {
  // `npm run soak` does the same 50 times.
  test("again and again amid writes, on the engine: every acknowledged write is there, and nothing that no row explains", {
    timeout: 240_000,
  }, async () => {
    const { acknowledged, cycles } = await onDocker(4, 1);
    expect(cycles).toBe(4);
    expect(acknowledged).toBeGreaterThan(20);
  });
});
