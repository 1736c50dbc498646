import { randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { createConnection, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { cleanMachine } from "#backlot/index.js";
import { dockerDriver } from "#backlot/runtime/docker/driver.js";
import { engineAnswers } from "#backlot/runtime/docker/engine.js";
import { ownedThings, removeOwned } from "#backlot/runtime/docker/orphans.js";
import { stateOwner } from "#backlot/store/state-owner.js";
import { testConfig } from "../support/cloud.js";
import { addressIn, containerOf, describeDocker, docker, openPlot, type Plot } from "../support/docker.js";
import { until } from "../support/until.js";

const listening = (server: Server, path: string): Promise<void> =>
  new Promise((resolve, reject) => server.once("error", reject).listen(path, () => resolve()));

const closed = (server: Server): Promise<void> => new Promise((resolve) => server.close(() => resolve()));

describe("without an engine", () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "backlot-engine-"));
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  it("says why none answers and what to do", async () => {
    const absent = { socketPath: join(folder, "absent.sock") };
    const answer = await engineAnswers(absent);
    expect(answer).toEqual({ reason: expect.stringMatching(/does not answer .*absent\.sock.*ensure-engine\.sh/), absent: true });
    const options = { owner: "nobody", stateFolder: folder, privatePool: "192.168.128.0/17", publicPool: "198.18.0.0/16", docker: absent };
    await expect(dockerDriver(options)).rejects.toMatchObject({
      name: "Fault",
      kind: "unavailable",
      message: expect.stringContaining("does not answer"),
    });
  });

  it("does not wait for a socket that never speaks", async () => {
    const sockets = new Set<Socket>();
    const mute = createServer((socket) => void sockets.add(socket));
    await listening(mute, join(folder, "mute.sock"));
    try {
      expect(await engineAnswers({ socketPath: join(folder, "mute.sock") })).toEqual({
        reason: expect.stringContaining("nothing answered"),
        absent: false,
      });
    } finally {
      for (const socket of sockets) socket.destroy();
      await closed(mute);
    }
  });
});

describeDocker("what a Docker engine makes impossible", () => {
  let plot: Plot;
  beforeEach(async () => {
    plot = await openPlot();
  });
  afterEach(() => plot?.close());

  const networksOf = async (owner: string) =>
    (await docker.listNetworks({ filters: { label: [`io.backlot.owner=${owner}`] } }))
      .map((network) => network.Name.split("-").slice(2).join("-"))
      .sort();

  it("tells the version of an engine that answers", async () => {
    expect(await engineAnswers()).toEqual({ version: (await docker.version()).Version });
  });

  it("makes a network per region when first needed, and takes it away with its last machine", async () => {
    const { driver, spec, options } = plot;
    const half = options.privatePool.replace("/24", "/25");
    const otherHalf = options.privatePool.replace(".0/24", ".128/25");
    expect(await networksOf(options.owner)).toEqual([]);
    const here = spec({ privateRange: half });
    const there = spec({
      instance: 2,
      region: "eu-west",
      privateRange: otherHalf,
      privateAddresses: [addressIn(otherHalf.replace("/25", "/24"), 150)],
    });
    there.privateAddresses = [options.privatePool.replace(".0/24", ".200")];
    await Promise.all([driver.ensure(here), driver.ensure(there)]);
    expect(await networksOf(options.owner)).toEqual(["eu-west", "public", "us-east"]);

    await driver.ensure({ ...there, running: false });
    await driver.remove(1);
    expect(await networksOf(options.owner)).toEqual(["eu-west", "public"]);
    await driver.remove(2);
    expect(await networksOf(options.owner)).toEqual([]);
  });

  it("names whose network a range clashes with", async () => {
    const other = await openPlot();
    try {
      await other.driver.ensure(other.spec());
      const taken = plot.spec({ privateRange: other.options.privatePool, privateAddresses: [addressIn(other.options.privatePool, 50)] });
      const clash = plot.driver.ensure(taken);
      await expect(clash).rejects.toMatchObject({ kind: "unavailable", message: expect.stringContaining(other.options.owner) });
      await expect(clash).rejects.toThrow(/backlot-.*-us-east.*--private-pool/);
      expect(await plot.driver.occupied()).toContainEqual({
        cidr: other.options.privatePool,
        owner: expect.stringContaining(other.options.stateFolder),
      });
      expect((await other.driver.occupied()).map(({ cidr }) => cidr)).not.toContain(other.options.privatePool);
    } finally {
      await other.close();
    }
  });

  it("refuses an image that cannot be had with cause and remedy, or boots the fallback and says so", async () => {
    const wanted = plot.spec({ image: "cloud/alpine3.22" });
    await expect(plot.driver.ensure(wanted)).rejects.toMatchObject({
      kind: "unavailable",
      message: expect.stringMatching(/cloud\/alpine3\.22 cannot be had: .*apk.*--image-fallback/),
    });
    expect(await containerOf(plot.options.owner, 1)).toBeUndefined();
    expect(await networksOf(plot.options.owner)).toEqual([]);

    const lenient = await plot.again({ imageFallback: "cloud/debian12" });
    expect(await lenient.ensure(wanted)).toMatchObject({ running: true, substitutedImage: "cloud/debian12" });
    expect(await plot.driver.list()).toMatchObject([{ instance: 1, substitutedImage: "cloud/debian12" }]);
  });

  it("says what a registry and debootstrap said when neither has the base", async () => {
    const imageMap = { "cloud/nowhere": { family: "apt", oci: "127.0.0.1:9/nowhere:1", debootstrap: "no-such-suite" } };
    const driver = await plot.again({ imageMap });
    await expect(driver.ensure(plot.spec({ image: "cloud/nowhere" }))).rejects.toThrow(
      /cannot be had: the registry did not give 127\.0\.0\.1:9.*debootstrap could not/,
    );
  });

  it("never touches what is not labelled ours, even under our own name", async () => {
    const image = (await docker.listImages({ filters: { label: ["io.backlot.guest"] } }))[0]?.Id ?? "";
    const name = `backlot-${plot.options.owner.slice(0, 8)}-1`;
    const stranger = await docker.createContainer({ name, Image: image, Entrypoint: ["/bin/sleep"], Cmd: ["600"] });
    try {
      await stranger.start();
      await expect(plot.driver.ensure(plot.spec())).rejects.toThrow(new RegExp(`${name} is taken`));
      await plot.driver.ensure(plot.spec({ instance: 2 }));
      await plot.driver.kill(1);
      await plot.driver.remove(1);
      for (const things of await ownedThings()) if (things.owner === plot.options.owner) await removeOwned(things);
      expect(await plot.driver.list()).toEqual([]);
      expect((await stranger.inspect()).State.Running).toBe(true);
    } finally {
      await stranger.remove({ force: true });
    }
  });

  it("shows by owner what was left, for `backlot clean`", async () => {
    await plot.driver.ensure(plot.spec());
    const mine = (await ownedThings()).filter(({ owner }) => owner === plot.options.owner);
    expect(mine).toMatchObject([{ stateFolder: plot.options.stateFolder, containers: [{ running: true }], networks: [{}, {}] }]);
    for (const things of mine) await removeOwned(things);
    expect((await ownedThings()).filter(({ owner }) => owner === plot.options.owner)).toEqual([]);
  });

  it("leaves what a container's Backlot made under an older host name to it, and says of a stranger's that nobody here can tell", async () => {
    const { state } = await testConfig();
    const found = await stateOwner(state);
    const owners = [typeof found === "object" ? found.owner : "", randomUUID()];
    const names = owners.map((owner) => `backlot-${owner.slice(0, 8)}-volume-1`);
    for (const [index, owner] of owners.entries()) {
      const Labels = { "io.backlot.owner": owner, "io.backlot.state": state, "io.backlot.host": "container 0123456789ab" };
      await docker.createVolume({ Name: names[index] ?? "", Labels });
    }
    try {
      const shown = (await cleanMachine({ dryRun: true })).filter(({ what }) => owners.some((owner) => what.includes(owner.slice(0, 8))));
      expect(shown).toEqual([
        { what: `1 things of the Backlot ${owners[1]}`, removed: false, unknown: true, reason: expect.stringContaining("container 0123456789ab") },
      ]);
    } finally {
      for (const name of names) await docker.getVolume(name).remove();
      await rm(state, { recursive: true });
    }
  });

  it("hears of machines again after the engine's connection broke", async () => {
    await plot.driver.ensure(plot.spec());
    // A door in front of the engine that can be shut and opened, as a restart of the engine does.
    const path = join(tmpdir(), `backlot-door-${randomUUID()}.sock`);
    const sockets = new Set<Socket>();
    const door = () =>
      createServer((socket) => {
        const onward = createConnection("/var/run/docker.sock");
        for (const [from, to] of [
          [socket, onward],
          [onward, socket],
        ] as const) {
          sockets.add(from);
          from.on("error", () => to.destroy()).on("close", () => to.destroy());
          from.pipe(to);
        }
      });
    let server = door();
    await listening(server, path);
    const problems: string[] = [];
    const driver = await plot.again({ docker: { socketPath: path }, onProblem: (reason) => problems.push(reason) });
    const hints: number[] = [];
    const watch = driver.watch((instance) => hints.push(instance));
    try {
      await until(() => hints.length > 0, { what: "the first hint" });
      for (const socket of sockets) socket.destroy();
      await closed(server);
      await until(() => problems.length > 0, { what: "the report of the broken stream" });
      hints.length = 0;
      server = door();
      await listening(server, path);
      await until(() => hints.includes(1), { what: "a hint after the engine came back" });
      hints.length = 0;
      await (await containerOf(plot.options.owner, 1))?.kill();
      await until(() => hints.includes(1), { what: "a hint of a death after the engine came back" });
      expect(problems).toEqual([expect.stringContaining("broke")]);
    } finally {
      await watch.close();
      for (const socket of sockets) socket.destroy();
      await closed(server);
    }
  });
});
