import { expect } from "vitest";
import type { Config } from "#backlot/index.js";
import { openLibrary } from "../soak/library.js";
import { apiOf, testConfig } from "./cloud.js";
import { until } from "./until.js";

/** Opens Backlot as a library in a process of its own, uses it, closes it, and expects that nothing is left that would keep the process alive. */
export const expectNoHandleLeft = async (overrides: Partial<Config>): Promise<void> => {
  const library = await openLibrary(await testConfig(overrides));
  const api = apiOf(library.url, library.token);
  const wanted = { label: "one", region: "us-east", type: "g6-nanode-1", image: "cloud/debian12", root_pass: "Curtain-7-Call", script_id: 1 };
  const { body: instance } = await api.post("/v4/cloud/instances", wanted);
  const { body: balancer } = await api.post("/v4/balancers", { label: "one", region: "us-east" });
  const { body: config } = await api.post(`/v4/balancers/${balancer.id}/configs`, { port: 22_081 });
  const path = `/v4/cloud/instances/${instance.id}`;
  await until(async () => (await api.get(`/v4/balancers/${balancer.id}/configs/${config.id}`)).body.listener.status === "open");
  await until(async () => (await api.get(path)).body.status === "running", { withinMs: 30_000, what: "the instance" });
  await api.del(path);
  await until(async () => (await api.get(path)).status === 404, { withinMs: 30_000, what: "the end of the instance" });
  const { before, after } = await library.close();
  expect(after.resources).toEqual({});
  expect(after.descriptors.socket ?? 0).toBe(before.descriptors.socket ?? 0);
};
