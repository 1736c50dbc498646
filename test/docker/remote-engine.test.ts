import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { DockerOptions } from "dockerode";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { dialEndpoint } from "#backlot/kernel/relay.js";
import { defaultImageMap, guestImages } from "#backlot/runtime/docker/guest-image.js";
import { configPath, createBalancer, createConfig, createNode, listening, nodePath } from "../api/world.js";
import { type Json, startCloud, type TestCloud } from "../support/cloud.js";
import { commandLine, openTerminal } from "../support/command-line.js";
import { addressIn, describeDocker, openPlot } from "../support/docker.js";
import { ownRange } from "../support/loopback.js";
import { type OwnEngine, openOwnEngine } from "../support/own-engine.js";
import { until } from "../support/until.js";

const within = { withinMs: 40_000 };

const undo: Array<() => unknown> = [];
afterEach(() => {
  for (const act of undo.splice(0).reverse()) act();
});

const openEngine = async (place: "loopback" | "away"): Promise<OwnEngine> => {
  const none = { imageFallback: undefined, owner: "", ownImages: {}, onProgress: () => {} };
  const guest = (await guestImages(undefined, { imageMap: await defaultImageMap(), ...none }).ensure("cloud/debian12")).tag;
  const engine = await openOwnEngine("900m", place);
  await engine.take(guest);
  return engine;
};

/** The whole story of the demo, on an engine. */
const tellStory = async (engine: OwnEngine): Promise<{ exitCode: number | null; said: string }> => {
  const terminal = openTerminal();
  const tmp = join(terminal.folder(), "tmp");
  mkdirSync(tmp);
  const own = ["--private-pool", "192.168.96.0/20", "--balancer-addresses", ownRange().cidr];
  const run = terminal.type(["demo", "--exit", "--runtime", "docker", ...own], { ...engine.variables, TMPDIR: tmp });
  const exitCode = await run.ended;
  await terminal.close();
  return { exitCode, said: run.out() + run.err() };
};

/** To it whatever DOCKER_HOST says. */
const connectionTo = ({ variables, host }: OwnEngine): DockerOptions => {
  const read = (name: string) => readFileSync(join(variables.DOCKER_CERT_PATH ?? "", `${name}.pem`));
  const { hostname, port } = new URL(host);
  return { protocol: "https", host: hostname, port, ca: read("ca"), cert: read("cert"), key: read("key") };
};

const proven = (said: string): number => said.split("\n").filter((line) => line.startsWith("  ✓ ")).length;

describeDocker("an engine at a port of this machine (DOCKER_HOST=tcp://127.0.0.1:…, TLS)", () => {
  let engine: OwnEngine;
  beforeAll(async () => {
    engine = await openEngine("loopback");
  }, 120_000);
  afterAll(() => engine?.close());

  test("the demo's story holds, and nothing is left on it", { timeout: 60_000 }, async () => {
    const { exitCode, said } = await tellStory(engine);
    expect(exitCode, said).toBe(0);
    expect(proven(said)).toBe(12);
    expect(await engine.docker.listContainers({ all: true })).toEqual([]);
  });

  test("clean says first what has no owner on it and removes it, a loop device that nobody mounts too", { timeout: 60_000 }, async () => {
    const plot = await openPlot({ docker: connectionTo(engine) });
    const terminal = openTerminal();
    await plot.driver.ensure(plot.spec());
    for (const [volume, instance] of [
      [1, null],
      [2, 1],
    ] as const)
      await plot.driver.volumes.ensure({ volume, label: `data-${volume}`, bytes: 32 * 2 ** 20, copyOf: null, instance });
    const [volume = ""] = (await engine.docker.listVolumes()).Volumes.map(({ Name }) => Name).sort();
    const file = join((await engine.docker.getVolume(volume).inspect()).Mountpoint, `${volume}.ext4`);
    const device = execFileSync("losetup", ["--find", "--show", file], { encoding: "utf8" }).trim();
    const isHeld = (): boolean => existsSync(`/sys/block/${device.slice(5)}/loop`);
    undo.push(() => isHeld() && execFileSync("losetup", ["--detach", device]));
    // What other tests have orphaned on purpose is not to be cleaned: it sees this engine and no process but its own.
    const clean = (...words: string[]): string =>
      execFileSync("unshare", ["--pid", "--fork", "--mount-proc", process.execPath, commandLine, "clean", ...words], {
        encoding: "utf8",
        env: { ...process.env, ...engine.variables, TMPDIR: terminal.folder() },
      });
    const left = async () => {
      const [boxes, networks] = [await engine.docker.listContainers({ all: true }), await engine.docker.listNetworks()];
      const { Volumes } = await engine.docker.listVolumes();
      return { boxes: boxes.length, networks: networks.length - 3, volumes: Volumes.length, loop: isHeld() };
    };
    const before = await left();
    expect(before).toEqual({ boxes: 1, networks: 2, volumes: 2, loop: true });
    expect(clean("--dry-run")).toContain(`would remove loop device ${device} (state ${plot.options.stateFolder})`);
    expect(await left()).toEqual(before);
    const said = clean();
    expect(said.match(/^removed loop device .*$/gm)).toEqual([`removed loop device ${device} (state ${plot.options.stateFolder})`]);
    expect(said).not.toMatch(/^kept/m);
    expect(await left()).toEqual({ boxes: 0, networks: 0, volumes: 0, loop: false });
    expect(clean()).toContain("Nothing to clean");
    await plot.driver.close();
    await terminal.close();
  });
});

// Of its machine only one address is reached from here, as of a machine in another place: its bridges, and so its containers, are not.
describeDocker("an engine on another machine (DOCKER_HOST=tcp://ADDRESS:…, TLS)", () => {
  const before: Record<string, string | undefined> = {};
  let engine: OwnEngine;
  let cloud: TestCloud;
  let web: Json;
  let config: Json;
  /** At the port where the instance serves, and at one where nobody does. */
  let serving: Json;
  let silent: Json;

  beforeAll(async () => {
    engine = await openEngine("away");
    for (const [name, value] of Object.entries(engine.variables)) {
      before[name] = process.env[name];
      process.env[name] = value;
    }
    cloud = await startCloud({ runtime: "docker" });
    const wanted = { region: "us-east", type: "g6-nanode-1", image: "cloud/debian12", root_pass: "Correct-horse-1", private_ip: true, script_id: 1 };
    web = (await cloud.api.post("/v4/cloud/instances", { ...wanted, label: "web" })).body;
    await until(async () => (await cloud.api.get(`/v4/cloud/instances/${web.id}`)).body.status === "running", { ...within, what: "web" });
    config = await createConfig(cloud, (await createBalancer(cloud)).id, { port: 20_280, check: "http", check_path: "/" });
    serving = await createNode(cloud, config, `${web.ipv4[1]}:80`);
    silent = await createNode(cloud, config, `${web.ipv4[1]}:81`);
  }, 120_000);
  afterAll(async () => {
    await cloud?.close();
    for (const [name, value] of Object.entries(before)) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
    await engine?.close();
  });

  const nodeIs = (node: Json, status: string) =>
    until(async () => (await cloud.api.get(nodePath(node))).body.status === status, { ...within, what: `node ${node.id} ${status}` });
  const lastReason = async (node: Json): Promise<string> => (await cloud.api.get(`/_backlot/nodes/${node.id}/probes`)).body.probes.at(-1)?.reason;
  const noteOf = async (subject: string): Promise<string> =>
    (await cloud.api.get("/_backlot/capabilities")).body.rows.find((row: Json) => row.subject === subject).note;
  const page = async (): Promise<{ status: number; text: string }> => {
    const { listener } = await listening(cloud, config);
    const answer = await fetch(`http://${listener.address}:${listener.port}/`);
    return { status: answer.status, text: await answer.text() };
  };
  const relays = () => engine.docker.listContainers({ filters: { label: ["io.backlot.relay"] } });

  test("health is what is there, through a relay that is published at the engine's address alone", { timeout: 60_000 }, async () => {
    await nodeIs(serving, "UP");
    await nodeIs(silent, "DOWN");
    expect(await lastReason(silent)).toBe("connection refused");
    expect(await page()).toEqual({ status: 200, text: expect.stringContaining("instance=web") });
    const [relay] = await relays();
    const published = relay?.Ports.filter(({ PublicPort }) => PublicPort).map(({ IP, PublicPort }) => `${IP} port ${PublicPort}`);
    expect(published).toEqual([expect.stringMatching(`^${engine.address} port \\d+$`)]);
    const note = await noteOf("Dialling of private addresses");
    expect(note).toContain(`${web.ipv4[1]} cannot be dialled from here`);
    expect(note).toContain(`us-east: ${published?.[0]}`);
    expect(await noteOf("Public addresses")).toContain("not relayed");
  });

  test("a machine that is killed is down at once, and its watchdog brings it back", { timeout: 60_000 }, async () => {
    await nodeIs(serving, "UP");
    expect((await cloud.api.post(`/_backlot/instances/${web.id}/kill`)).status).toBe(200);
    await nodeIs(serving, "DOWN");
    expect((await page()).status).toBe(503);
    await nodeIs(serving, "UP");
    expect((await page()).status).toBe(200);
  });

  test("an address that is translated on the way and none of its own: the relay is published at every address it has", async () => {
    const translated = engine.address.replace("10.254.", "10.253.");
    undo.push(engine.rule("nat", "PREROUTING", `-d ${translated}`, `-j DNAT --to-destination ${engine.address}`));
    // It goes with the line.
    execFileSync("ip", ["route", "add", translated, "via", engine.address]);
    const plot = await openPlot({ docker: Object.assign(connectionTo(engine), { host: translated, checkServerIdentity: () => undefined }) });
    try {
      await plot.driver.ensure(plot.spec());
      const endpoint = plot.driver.dial(addressIn(plot.options.privatePool, 1), 22);
      expect(endpoint?.via).toMatchObject({ host: translated });
      const socket = dialEndpoint(endpoint ?? { host: "", port: 0 });
      await once(socket, "connect");
      socket.destroy();
    } finally {
      await plot.close();
    }
  });

  test("published ports that a firewall drops: nodes are down, the reason says what to do; without it they are up", {
    timeout: 120_000,
  }, async () => {
    await nodeIs(serving, "UP");
    const { port } = new URL(engine.host);
    undo.push(engine.rule("filter", "INPUT", "-p tcp", `! --dport ${port}`, "-j DROP"));
    const [relay] = await relays();
    await engine.docker.getContainer(relay?.Id ?? "").kill();
    await nodeIs(serving, "DOWN");
    await until(async () => /no firewall/.test(await noteOf("Dialling of private addresses")), { ...within, what: "the reason" });
    await until(async () => /does not answer there\. Let no firewall/.test(await lastReason(serving)), { ...within, what: "the node's reason" });
    undo.pop()?.();
    await nodeIs(serving, "UP");
    expect((await page()).status).toBe(200);
  });

  test("a line that is dead: reads answer, the outage is told, the node is down; when it lives again all comes back", {
    timeout: 120_000,
  }, async () => {
    await nodeIs(serving, "UP");
    const label = ["io.backlot.instance"];
    const startOf = async () => {
      const [row] = await engine.docker.listContainers({ filters: { label } });
      return (await engine.docker.getContainer(row?.Id ?? "").inspect()).State.StartedAt;
    };
    const started = await startOf();
    undo.push(engine.rule("filter", "INPUT", "-i eth0", "-j DROP"));
    const notices = async (): Promise<Json[]> => (await cloud.api.get("/v4/account/notifications")).body.data;
    await until(async () => (await notices()).some(({ message }) => /nothing answered within/.test(message)), { ...within, what: "the outage" });
    await nodeIs(serving, "DOWN");
    for (const path of ["/v4/cloud/instances", configPath(config), "/v4/account/events"]) expect((await cloud.api.get(path)).status).toBe(200);
    undo.pop()?.();
    await until(async () => (await notices()).length === 0, { ...within, what: "no notice" });
    await nodeIs(serving, "UP");
    expect(await startOf()).toBe(started);
  });
});
