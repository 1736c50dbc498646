import { afterAll, beforeAll, expect, it } from "vitest";
import { startCloud, type TestCloud } from "../support/cloud.js";
import { until } from "../support/until.js";
import { createBalancer, createConfig, createInstance, createNode, dial, httpServer, instanceIn, listening, placeOfListener } from "./world.js";

const pathOf = ({ id }: { id: number }): string => `/v4/balancers/${id}`;

let cloud: TestCloud;
beforeAll(async () => {
  // Points stand for five minutes; a second here.
  cloud = await startCloud({ speed: 300 });
});
afterAll(() => cloud.close());

it("counts what really went through: by node at once, by balancer in points and as transfer", async () => {
  const instance = await createInstance(cloud, { private_ip: true });
  await instanceIn(cloud, instance.id, "running");
  const address = instance.ipv4.find((each: string) => each.startsWith("192.168."));
  await httpServer(await dial(cloud, address, 8080), "x".repeat(50_000));
  const balancer = await createBalancer(cloud);
  expect(balancer.transfer).toEqual({ total: null, out: null, in: null });
  const early = await cloud.api.get(`${pathOf(balancer)}/stats`);
  expect([early.status, early.body]).toEqual([400, { errors: [{ reason: "Stats are unavailable at this time." }] }]);

  const config = await createConfig(cloud, balancer.id, { port: 20_401, check: "connection" });
  const node = await createNode(cloud, config, `${address}:8080`);
  const place = placeOfListener(await listening(cloud, config));
  const asked = async (): Promise<boolean> => {
    const answer = await fetch(`http://${place.host}:${place.port}/`);
    return answer.ok && (await answer.text()).length === 50_000;
  };
  await until(asked);
  for (let round = 0; round < 4; round++) expect(await asked()).toBe(true);

  const { configs } = (await cloud.api.get("/_backlot/stats")).body;
  const counted = configs.find((each: { config_id: number }) => each.config_id === config.id);
  const seen = counted.nodes.find((each: { node_id: number }) => each.node_id === node.id);
  expect(seen).toMatchObject({ requests: 5, errors: 0, open: 0 });
  expect(seen.bytes_out).toBeGreaterThan(250_000);
  expect(seen.latency.reduce((sum: number, each: { count: number }) => sum + each.count, 0)).toBe(5);
  expect(seen.latency.at(-1)).toMatchObject({ up_to_ms: null });
  expect(counted.bytes_out).toBeGreaterThan(250_000);

  const stats = await until(async () => {
    const answer = await cloud.api.get(`${pathOf(balancer)}/stats`);
    return answer.status === 200 && answer.body.data.traffic.out.some(([, bits]: [number, number]) => bits > 0) && answer.body;
  });
  expect(stats.title).toContain(balancer.label);
  expect(Object.keys(stats.data)).toEqual(["connections", "traffic"]);
  const [atMs] = stats.data.connections[0];
  expect(Math.abs(Date.now() - atMs)).toBeLessThan(60_000);
  const { transfer } = await until(async () => {
    const { body } = await cloud.api.get(pathOf(balancer));
    return body.transfer.out > 0.25 && body;
  });
  expect(transfer.total).toBeCloseTo(transfer.in + transfer.out, 9);
});
