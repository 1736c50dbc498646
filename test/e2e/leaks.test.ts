import { expect, test } from "vitest";
import { figuresOf, leakSoak } from "../soak/leaks.js";
import { expectNoHandleLeft } from "../support/closing.js";

// `npm run soak` does the same for an hour of simulated time, and looks at memory too.
test("rounds of clients that leave, flapping nodes, upgrades, certificates, balancers and instances leave no descriptor, socket or timer", {
  timeout: 180_000,
}, async () => {
  const samples = await leakSoak(2, 4);
  const [first, last] = [samples[0], samples.at(-1)].map((sample) => sample && figuresOf(sample));
  for (const what of ["descriptors", "sockets", "timers"] as const) expect(last?.[what], what).toBeLessThanOrEqual(first?.[what] ?? 0);
});

test("a library instance that is closed leaves no handle: its process ends by itself", { timeout: 60_000 }, () =>
  expectNoHandleLeft({ runtime: "process" }),
);
