import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { type Json, startCloud, type TestCloud } from "../support/cloud.js";
import { until } from "../support/until.js";
import {
  closeWorld,
  configPath,
  createBalancer,
  createConfig,
  createInstance,
  createNode,
  dial,
  fieldsOf,
  freshLabel,
  httpServer,
  listening,
  nodesStatus,
  placeOfListener,
  rawExchange,
} from "./world.js";

let cloud: TestCloud;
beforeAll(async () => {
  cloud = await startCloud();
});
afterEach(closeWorld);
afterAll(() => cloud.close());

const quick = { check: "connection", check_interval: 2, check_timeout: 1, check_attempts: 1 };

/** The `last`-th address of the pool; regions have sixteen each, in the order they are first used. */
const inPool = (last: number): string => `${cloud.config.privatePool.split(".").slice(0, 3).join(".")}.${last}`;

const lastReason = async (node: Json): Promise<string> => (await cloud.api.get(`/_backlot/nodes/${node.id}/probes`)).body.probes.at(-1)?.reason;
const ask = async (config: Json): Promise<string> =>
  rawExchange(placeOfListener(await listening(cloud, config)), "GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");

it.each([
  "127.0.0.1:80",
  "10.0.0.1:80",
  "169.254.169.254:80",
  "localhost:80",
  "192.168.0.1.nip.io:80",
  "[::1]:80",
  "[::ffff:192.168.128.2]:80",
  "0xc0a88002:80",
  "3232268290:80",
  "192.168.0128.2:80",
  "192.168.128.2",
  "192.168.128.2:0",
  "192.168.128.2:65536",
  "192.168.128.2:80/x",
  "user@192.168.128.2:80",
  " 192.168.128.2:80",
])("a node at %s is refused", async (address) => {
  const balancer = await createBalancer(cloud);
  const config = await createConfig(cloud, balancer.id, { port: 20_400 });
  const answer = await cloud.api.post(`${configPath(config)}/nodes`, { label: freshLabel("node"), address });
  expect([answer.status, fieldsOf(answer.body)]).toEqual([400, ["address"]]);
});

it("an address that comes to belong to another region is dialled no more, though it answers", async () => {
  await createInstance(cloud, { region: "us-east", private_ip: true, booted: false });
  const balancer = await createBalancer(cloud, { region: "us-east" });
  const config = await createConfig(cloud, balancer.id, { port: 20_401, ...quick });
  const place = await dial(cloud, inPool(18), 8080);
  await httpServer(place, "still here");
  const node = await createNode(cloud, config, `${inPool(18)}:8080`);
  await nodesStatus(cloud, config, 1, 0);
  await until(async () => (await ask(config)).includes("still here"));
  await createInstance(cloud, { region: "eu-west", private_ip: true, booted: false });
  await nodesStatus(cloud, config, 0, 1);
  expect(await lastReason(node)).toBe("The address belongs to eu-west; the balancer is in us-east.");
  expect(await ask(config)).toMatch(/^HTTP\/1\.1 503 [\s\S]*X-Backlot-Reason: no-node-up/);
});

it("a network's gateway is this machine, and no node", async () => {
  await createInstance(cloud, { region: "us-east", private_ip: true, booted: false });
  const balancer = await createBalancer(cloud, { region: "us-east" });
  const config = await createConfig(cloud, balancer.id, { port: 20_402, ...quick });
  await httpServer(await dial(cloud, inPool(1), 8080), "the host");
  const node = await createNode(cloud, config, `${inPool(1)}:8080`);
  await until(async () => (await lastReason(node)) === "The address is the network's gateway, not an instance's.");
  await nodesStatus(cloud, config, 0, 1);
  expect(await ask(config)).toMatch(/^HTTP\/1\.1 503 /);
});
