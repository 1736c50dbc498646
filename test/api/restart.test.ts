import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, it } from "vitest";
import type { Config } from "#backlot/index.js";
import { type Json, send, startCloud, type TestCloud, testConfig } from "../support/cloud.js";
import { until } from "../support/until.js";
import {
  closeWorld,
  configPath,
  createBalancer,
  createConfig,
  createInstance,
  createNode,
  dial,
  events,
  eventsOf,
  freshLabel,
  httpServer,
  instanceIn,
  isListening,
  listening,
  nodesStatus,
  placeOfListener,
  rawExchange,
  unheldAddress,
} from "./world.js";

const left: Array<() => Promise<void>> = [];
afterEach(async () => {
  await closeWorld();
  for (const close of left.splice(0).reverse()) await close();
});

const isAlive = (pid: number): boolean => {
  try {
    return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
};
const pidOf = async (cloud: TestCloud, instance: Json): Promise<number> => (await cloud.api.get(`/_backlot/instances/${instance.id}`)).body.pid;
const auth = (token: string) => ({ Authorization: `Bearer ${token}` });

/** Everything the API shows, but for what is measured anew. */
const everything = async (cloud: TestCloud): Promise<Json> => {
  const list = async (path: string) => (await cloud.api.get(`${path}?page_size=500`)).body.data;
  const balancers = await list("/v4/balancers");
  const configs = (await Promise.all(balancers.map(({ id }: Json) => list(`/v4/balancers/${id}/configs`)))).flat();
  const nodes = (await Promise.all(configs.map((config: Json) => list(`${configPath(config)}/nodes`)))).flat();
  return {
    balancers,
    configs,
    nodes,
    instances: await list("/v4/cloud/instances"),
    ips: await list("/v4/networking/ips"),
    events: await list("/v4/account/events"),
  };
};

describe("a restart on the same state", () => {
  it("keeps rows, events, tokens and machines, opens the listeners and measures the nodes again", async () => {
    const cloud = await startCloud();
    const made = await createInstance(cloud, { private_ip: true, script_id: 1 });
    const dead = await createInstance(cloud, { booted: false });
    await instanceIn(cloud, dead.id, "offline");
    const balancer = await createBalancer(cloud);
    const config = await createConfig(cloud, balancer.id, { port: 20_500, check: "connection", check_interval: 2, check_timeout: 1 });
    await createNode(cloud, config, `${made.ipv4[1]}:8000`);
    await createNode(cloud, config, `${unheldAddress(cloud)}:80`);
    await nodesStatus(cloud, config, 1, 1);
    await until(async () => (await eventsOf(cloud, "instance", made.id, { action: "script_deploy" })).length === 1);
    await until(async () => (await cloud.api.get(`${configPath(config)}/nodes`)).body.data.every((node: Json) => node.status !== "Unknown"));
    const place = placeOfListener(await listening(cloud, config));
    const pid = await pidOf(cloud, made);
    const before = await everything(cloud);

    await cloud.close({ machines: "keep", keepState: true });
    expect(isAlive(pid)).toBe(true);
    expect(await isListening(place)).toBe(false);

    const again = await startCloud({ state: cloud.state });
    left.push(() => again.close());
    expect((await send(again.url, "GET", "/v4/balancers", auth(cloud.token))).status).toBe(200);
    expect((await again.api.get(`/v4/cloud/instances/${made.id}`)).body.status).toBe("running");
    await nodesStatus(again, config, 1, 1);
    await listening(again, config);
    expect(await pidOf(again, made)).toBe(pid);
    expect(await rawExchange(place, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")).toContain(`from ${made.label}`);
    await until(async () => (await again.api.get(`${configPath(config)}/nodes`)).body.data.every((node: Json) => node.status !== "Unknown"));
    expect(await everything(again)).toEqual(before);
    const next = await createBalancer(again);
    expect(next.id).toBeGreaterThan(balancer.id);
    expect(next.ipv4).not.toBe(balancer.ipv4);
  });

  it("stopped with its machines, brings them up again, and says that the host did it", async () => {
    const cloud = await startCloud();
    const made = await createInstance(cloud);
    await instanceIn(cloud, made.id, "running");
    const pid = await pidOf(cloud, made);
    await cloud.close({ machines: "stop", keepState: true });
    expect(isAlive(pid)).toBe(false);
    const again = await startCloud({ state: cloud.state });
    left.push(() => again.close());
    await instanceIn(again, made.id, "running");
    expect(isAlive(await pidOf(again, made))).toBe(true);
    expect(await eventsOf(again, "instance", made.id, { action: "host_reboot" })).toMatchObject([{ status: "finished", username: null }]);
  });

  it("a machine that died meanwhile comes back", async () => {
    const cloud = await startCloud();
    const made = await createInstance(cloud);
    await instanceIn(cloud, made.id, "running");
    const pid = await pidOf(cloud, made);
    await cloud.close({ machines: "keep", keepState: true });
    process.kill(pid, "SIGKILL");
    await until(() => !isAlive(pid));
    const again = await startCloud({ state: cloud.state });
    left.push(() => again.close());
    await until(async () => isAlive((await pidOf(again, made)) ?? 0));
    await instanceIn(again, made.id, "running");
  });
});

interface Child {
  url: string;
  token: string;
  process: ChildProcess;
}

const startChild = async (config: Config): Promise<Child> => {
  const child = spawn(process.execPath, [fileURLToPath(new URL("restart-child.mjs", import.meta.url))], { stdio: ["pipe", "pipe", "inherit"] });
  child.stdin?.end(JSON.stringify(config));
  for await (const line of createInterface({ input: child.stdout ?? process.stdin })) return { ...JSON.parse(line), process: child };
  throw new Error(`the child ended with ${child.exitCode}`);
};

const killHard = async ({ process: child }: Child): Promise<void> => {
  const ended = once(child, "exit");
  child.kill("SIGKILL");
  await ended;
};

describe("kill -9 as soon as the answer is there, before the loops are done", () => {
  it.each([
    ["a config", 0],
    ["a boot", 1],
    ["a delete", 2],
  ])("%s that was answered becomes true after the restart", async (_what, which) => {
    const config = await testConfig();
    const child = await startChild(config);
    const post = (path: string, body: object) => send(child.url, "POST", path, auth(child.token), body);
    const { body: balancer } = await post("/v4/balancers", { label: freshLabel(), region: "us-east" });
    const { body: instance } = await post("/v4/cloud/instances", {
      region: "us-east",
      type: "g6-nanode-1",
      image: "cloud/debian12",
      root_pass: "Curtain-7-Call",
      booted: which === 2,
      private_ip: true,
    });
    if (which === 2)
      await until(async () => (await send(child.url, "GET", `/v4/cloud/instances/${instance.id}`, auth(child.token))).body.status === "running");
    const wanted = [
      () => post(`/v4/balancers/${balancer.id}/configs`, { port: 20_510, nodes: [{ label: "one", address: `${instance.ipv4[1]}:80` }] }),
      () => post(`/v4/cloud/instances/${instance.id}/boot`, {}),
      () => send(child.url, "DELETE", `/v4/cloud/instances/${instance.id}`, auth(child.token)),
    ][which] as () => Promise<Json>;
    const { status, body } = await wanted();
    await killHard(child);
    expect(status).toBe(200);

    const cloud = await startCloud({ state: config.state });
    left.push(() => cloud.close());
    expect((await send(cloud.url, "GET", "/v4/balancers", auth(child.token))).status).toBe(200);
    if (which === 0) {
      const open = await listening(cloud, body);
      expect(await isListening(placeOfListener(open))).toBe(true);
      const { host, port } = await dial(cloud, instance.ipv4[1], 80);
      expect([host, port]).toEqual([expect.stringMatching(/^127\.192\./), 80]);
      await cloud.api.put(configPath(body), { check: "connection", check_interval: 2, check_timeout: 1 });
      await nodesStatus(cloud, body, 0, 1);
    } else if (which === 1) {
      await instanceIn(cloud, instance.id, "running");
      expect(isAlive(await pidOf(cloud, instance))).toBe(true);
      expect(await eventsOf(cloud, "instance", instance.id, { action: "instance_boot" })).toMatchObject([{ status: "finished" }]);
    } else {
      await until(async () => (await cloud.api.get(`/v4/cloud/instances/${instance.id}`)).status === 404);
      expect(await eventsOf(cloud, "instance", instance.id, { action: "instance_delete" })).toMatchObject([{ status: "finished" }]);
      expect((await cloud.api.get("/v4/networking/ips")).body.results).toBe(0);
    }
  });

  it("in the middle of many writes: every one that was answered is there, and none is torn", async () => {
    const config = await testConfig();
    const child = await startChild(config);
    const answered: string[] = [];
    const ended = once(child.process, "exit");
    const writers = Array.from({ length: 8 }, async (_, writer) => {
      for (let count = 0; ; count += 1) {
        const label = `w${writer}-${count}`;
        const { status } = await send(child.url, "POST", "/v4/balancers", auth(child.token), { label, region: "us-east" });
        if (status !== 200) return;
        answered.push(label);
        if (answered.length === 60) child.process.kill("SIGKILL");
      }
    });
    await Promise.allSettled(writers);
    await ended;
    const cloud = await startCloud({ state: config.state });
    left.push(() => cloud.close());
    const balancers = (await cloud.api.get("/v4/balancers?page_size=500")).body.data;
    const labels = balancers.map((balancer: Json) => balancer.label);
    expect(answered.length).toBeGreaterThanOrEqual(60);
    expect(answered.filter((label) => !labels.includes(label))).toEqual([]);
    const told = (await events(cloud)).map((event) => event.entity.label);
    for (const label of labels.slice(-50)) expect(told).toContain(label);
    await httpServer({ host: balancers[0].ipv4, port: 0 }, "free").then((server) => server.close());
  });
});
