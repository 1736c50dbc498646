import { expect, test } from "vitest";
import { figuresOf, leakSoak } from "../soak/leaks.js";
import { expectNoHandleLeft } from "../support/closing.js";

// `npm run soak` does the same for an hour of simulated time, and looks at memory too.
test("rounds of clients that leave, flapping nodes, upgrades, certificates, balancers and instances leave no descriptor, socket or timer", {
  timeout: 180_000,
}, async () => {
  const figures = (await leakSoak(2, 4)).map(figuresOf);
  // Timers of what looks around now and then come and go. What leaks is more after every round: never again as few as in the first two.
  for (const what of ["descriptors", "sockets", "timers"] as const) {
    const values = figures.map((each) => each[what]);
    expect(Math.min(...values.slice(2)), what).toBeLessThanOrEqual(Math.max(...values.slice(0, 2)));
  }
});

test("a library instance that is closed leaves no handle: its process ends by itself", { timeout: 60_000 }, () =>
  expectNoHandleLeft({ runtime: "process" }),
);
