import { expect, test } from "vitest";
import { figuresOf, leakSoak } from "../soak/leaks.js";
import { openLibrary } from "../soak/library.js";
import { apiOf, testConfig } from "../support/cloud.js";
import { until } from "../support/until.js";

// `npm run soak` does the same for an hour of simulated time, and looks at memory too.
test("rounds of clients that leave, flapping nodes, upgrades, certificates, balancers and instances leave no descriptor, socket or timer", {
  timeout: 180_000,
}, async () => {
  const samples = await leakSoak(2, 4);
  const [first, last] = [samples[0], samples.at(-1)].map((sample) => sample && figuresOf(sample));
  for (const what of ["descriptors", "sockets", "timers"] as const) expect(last?.[what], what).toBeLessThanOrEqual(first?.[what] ?? 0);
});

test("a library instance that is closed leaves no handle: its process ends by itself", { timeout: 60_000 }, async () => {
  const library = await openLibrary(await testConfig());
  const api = apiOf(library.url, library.token);
  const wanted = { label: "one", region: "us-east", type: "g6-nanode-1", image: "cloud/debian12", root_pass: "Curtain-7-Call", script_id: 1 };
  const { body: instance } = await api.post("/v4/cloud/instances", wanted);
  const { body: balancer } = await api.post("/v4/balancers", { label: "one", region: "us-east" });
  const { body: config } = await api.post(`/v4/balancers/${balancer.id}/configs`, { port: 22_081 });
  await until(async () => (await api.get(`/v4/balancers/${balancer.id}/configs/${config.id}`)).body.listener.status === "open");
  await until(async () => (await api.get(`/v4/cloud/instances/${instance.id}`)).body.status === "running");
  const { before, after } = await library.close();
  expect(after.resources).toEqual({});
  expect(after.descriptors.socket ?? 0).toBe(before.descriptors.socket ?? 0);
});
