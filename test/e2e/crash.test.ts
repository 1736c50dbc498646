import { expect, test } from "vitest";
import { onProcesses } from "../soak/crash.js";

// `npm run soak` does the same 200 times.
test("killed again and again amid writes, on processes: every acknowledged write is there, and nothing that no row explains", {
  timeout: 120_000,
}, async () => {
  const { acknowledged, cycles } = await onProcesses(12, 1);
  expect(cycles).toBe(12);
  expect(acknowledged).toBeGreaterThan(50);
});
