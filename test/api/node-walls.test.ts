import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { kinds } from "#backlot/resources/cloud.js";
import { migrations, schemaVersion } from "#backlot/resources/migrations.js";
import { openStore } from "#backlot/store/open-store.js";
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

const lastReason = async (node: Json, of = cloud): Promise<string> =>
  (await of.api.get(`/_backlot/nodes/${node.id}/probes`)).body.probes.at(-1)?.reason;
const ask = async (config: Json, of = cloud): Promise<string> =>
  rawExchange(placeOfListener(await listening(of, config)), "GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");

/** An address of the pool in other spellings: what refuses these is their form, not where they lie. */
const spelt = (text: string): string => {
  const ip = inPool(2);
  const numbers = ip.split(".").map(Number);
  const hex = Buffer.from(numbers).toString("hex");
  const padded = `192.168.0${numbers[2]}.2`;
  return text
    .replace("IP", ip)
    .replace("HEX", `0x${hex}`)
    .replace("NUMBER", String(Number.parseInt(hex, 16)))
    .replace("PADDED", padded);
};

it.each([
  "127.0.0.1:80",
  "10.0.0.1:80",
  "169.254.169.254:80",
  "localhost:80",
  "192.168.0.1:80",
  "IP.nip.io:80",
  "[::1]:80",
  "[::ffff:IP]:80",
  "HEX:80",
  "NUMBER:80",
  "PADDED:80",
  "IP",
  "IP:",
  "IP:0",
  "IP:080",
  "IP:65536",
  "IP:80/x",
  "IP:80,127.0.0.1:80",
  "user@IP:80",
  " IP:80",
  "IP:80 ",
])("a node at %s is refused", async (text) => {
  const balancer = await createBalancer(cloud);
  const config = await createConfig(cloud, balancer.id, { port: 20_400 });
  const answer = await cloud.api.post(`${configPath(config)}/nodes`, { label: freshLabel("node"), address: spelt(text) });
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

it("rows that no caller could have written, of an older state or a backup, are not dialled, even where no check keeps a node out", async () => {
  let one = await startCloud();
  try {
    const abroad = await createInstance(one, { region: "eu-west", private_ip: true, booted: false });
    const privateAddress: string = abroad.ipv4.find((address: string) => address.startsWith("192.168."));
    const publicAddress = inPool(9).replace("192.168.", "198.18.");
    const loopback = await httpServer({ host: "127.0.0.1", port: 0 }, "this host");
    await httpServer(await dial(one, privateAddress, 8080), "abroad");
    await httpServer(await dial(one, publicAddress, 8080), "public");
    const rows = [
      [`127.0.0.1:${loopback.port}`, "The address lies outside the private pool."],
      [`${publicAddress}:8080`, "The address lies outside the private pool."],
      [`${privateAddress}:8080`, "The address belongs to eu-west; the balancer is in us-east."],
    ] as const;
    const balancer = await createBalancer(one, { region: "us-east" });
    const places: Json[] = [];
    for (const [index] of rows.entries()) {
      const config = await createConfig(one, balancer.id, { port: 20_410 + index, check: "none" });
      places.push({ config, node: await createNode(one, config, `${inPool(9)}:8080`) });
    }
    await one.close({ keepState: true });
    const store = await openStore({ folder: one.state, kinds, schemaVersion, migrations, onProblem: () => undefined });
    await store.commit((tx: Json) => {
      for (const [index, [address]] of rows.entries()) tx.update("node", places[index].node.id, { address });
    });
    await store.close();
    one = await startCloud({ state: one.state });
    for (const [index, [address, reason]] of rows.entries()) {
      const { config, node } = places[index];
      await until(async () => (await lastReason(node, one)) === reason, { what: `${address}: ${reason}` });
      expect(await ask(config, one), address).toMatch(/^HTTP\/1\.1 503 /);
    }
  } finally {
    await one.close();
  }
});
