import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Config } from "#backlot/index.js";
import { type Json, send, startCloud, type TestCloud, testConfig } from "../support/cloud.js";
import { containerOf, describeDocker, docker, run } from "../support/docker.js";
import { until } from "../support/until.js";

const gibibyte = 2 ** 30;
const within = { withinMs: 30_000 };

describeDocker("a cloud's volumes, asked of the guests", () => {
  let cloud: TestCloud;
  let owner: string;
  let first: number;
  let second: number;

  const wanted = { region: "us-east", type: "g6-nanode-1", image: "cloud/debian12", root_pass: "Correct-horse-1" };
  const ok = async (asked: Promise<{ status: number; body: Json }>): Promise<Json> => {
    const { status, body } = await asked;
    expect(status, JSON.stringify(body)).toBe(200);
    return body;
  };
  const instanceIs = (id: number, status: string) =>
    until(async () => (await cloud.api.get(`/v4/cloud/instances/${id}`)).body.status === status, { ...within, what: `instance ${id} ${status}` });
  const volumeIs = (id: number, state: object) =>
    until(
      async () => {
        const { body } = await cloud.api.get(`/v4/volumes/${id}`);
        return Object.entries(state).every(([name, value]) => body[name] === value) && body;
      },
      { ...within, what: `volume ${id} ${JSON.stringify(state)}` },
    );
  const sh = async (instance: number, text: string): Promise<{ text: string; exitCode: number }> => {
    const container = await containerOf(owner, instance);
    if (!container) throw new Error(`there is no instance ${instance}`);
    return run(container, ["sh", "-c", text]);
  };
  /** Gigabytes (2^30) of what is mounted there, from `df` in the guest; undefined when nothing is. */
  const df = async (instance: number, path: string): Promise<number | undefined> => {
    const { text, exitCode } = await sh(instance, `df -B1 --output=size,target ${path}`);
    const [bytes, target] = text.trim().split("\n").pop()?.trim().split(/\s+/) ?? [];
    return exitCode === 0 && target === path ? Number(bytes) / gibibyte : undefined;
  };
  const loops = (): string[] =>
    readdirSync("/sys/block").flatMap((name) => {
      const path = `/sys/block/${name}/loop/backing_file`;
      return existsSync(path) && readFileSync(path, "utf8").includes(`backlot-${owner.slice(0, 8)}-volume`) ? [name] : [];
    });

  beforeAll(async () => {
    cloud = await startCloud({ runtime: "docker" });
    owner = (await cloud.api.get("/_backlot/health")).body.owner;
    first = (await ok(cloud.api.post("/v4/cloud/instances", wanted))).id;
    second = (await ok(cloud.api.post("/v4/cloud/instances", wanted))).id;
    for (const id of [first, second]) await instanceIs(id, "running");
  });
  afterAll(async () => {
    for (const { id } of (await cloud.api.get("/v4/cloud/instances")).body.data) await cloud.api.del(`/v4/cloud/instances/${id}`);
    await until(async () => (await cloud.api.get("/v4/cloud/instances")).body.results === 0, { ...within, what: "no instance" });
    for (const { id } of (await cloud.api.get("/v4/volumes")).body.data) await ok(cloud.api.del(`/v4/volumes/${id}`));
    await until(async () => (await cloud.api.get("/v4/volumes")).body.results === 0, { ...within, what: "no volume" });
    const filters = { label: [`io.backlot.owner=${owner}`] };
    const left = [await docker.listContainers({ all: true, filters }), await docker.listNetworks({ filters }), loops()];
    const { Volumes } = await docker.listVolumes({ filters });
    await cloud.close();
    expect([...left, Volumes ?? []]).toEqual([[], [], [], []]);
  });

  test("made with an instance: mounted there, larger after a resize, there again after a reboot and a crash, elsewhere after a move", async () => {
    const { id } = await ok(cloud.api.post("/v4/volumes", { label: "data", cloud_id: first, size: 10 }));
    await volumeIs(id, { io_ready: true, status: "active" });
    expect(await df(first, "/mnt/data")).toBeCloseTo(9.75, 1);
    await sh(first, "echo kept >/mnt/data/file");

    expect(await ok(cloud.api.post(`/v4/volumes/${id}/resize`, { size: 20 }))).toMatchObject({ size: 20, status: "resizing" });
    await volumeIs(id, { status: "active" });
    expect(await df(first, "/mnt/data")).toBeCloseTo(19.58, 1);

    await ok(cloud.api.post(`/v4/cloud/instances/${first}/reboot`));
    await instanceIs(first, "running");
    await until(() => df(first, "/mnt/data"), { ...within, what: "the mount after a reboot" });
    await (await containerOf(owner, first))?.kill({ signal: "SIGKILL" });
    await volumeIs(id, { io_ready: false });
    await until(async () => (await sh(first, "cat /mnt/data/file")).text === "kept\n", { ...within, what: "the data after a crash" });

    await volumeIs(id, { io_ready: true });
    expect(await ok(cloud.api.post(`/v4/volumes/${id}/detach`))).toEqual({});
    await volumeIs(id, { cloud_id: null });
    expect(await df(first, "/mnt/data")).toBeUndefined();
    await ok(cloud.api.post(`/v4/volumes/${id}/attach`, { cloud_id: second }));
    await volumeIs(id, { io_ready: true });
    expect((await sh(second, "cat /mnt/data/file")).text).toBe("kept\n");
  });

  test("an instance's end leaves the volume and its data, and a clone has both", async () => {
    const { id: third } = await ok(cloud.api.post("/v4/cloud/instances", wanted));
    const { id } = await ok(cloud.api.post("/v4/volumes", { label: "heir", cloud_id: third, size: 10 }));
    await instanceIs(third, "running");
    await volumeIs(id, { io_ready: true });
    await sh(third, "echo testament >/mnt/heir/file");
    await ok(cloud.api.del(`/v4/cloud/instances/${third}`));
    await until(async () => (await cloud.api.get(`/v4/cloud/instances/${third}`)).status === 404, within);
    await volumeIs(id, { cloud_id: null, status: "active" });
    const { id: clone } = await ok(cloud.api.post(`/v4/volumes/${id}/clone`, { label: "copied" }));
    await volumeIs(clone, { status: "active" });
    await ok(cloud.api.post(`/v4/volumes/${clone}/attach`, { cloud_id: first }));
    await volumeIs(clone, { io_ready: true });
    expect((await sh(first, "cat /mnt/copied/file")).text).toBe("testament\n");
    expect(await df(first, "/mnt/copied")).toBeCloseTo(9.75, 1);
  });

  test("a container restarted behind our back gets its volume again, and what is in the way is a failed event", async () => {
    const { id } = await ok(cloud.api.post("/v4/volumes", { label: "again", cloud_id: second, size: 10 }));
    await volumeIs(id, { io_ready: true });
    await (await containerOf(owner, second))?.restart({ t: 1 });
    await until(() => df(second, "/mnt/again"), { withinMs: 40_000, what: "the mount after a restart by somebody else" });

    await sh(first, "echo 'in the way' >/mnt/blocked");
    const { id: blocked } = await ok(cloud.api.post("/v4/volumes", { label: "blocked", region: "us-east", size: 10 }));
    await volumeIs(blocked, { status: "active" });
    expect((await ok(cloud.api.post(`/v4/volumes/${blocked}/attach`, { cloud_id: first }))).cloud_id).toBe(first);
    await volumeIs(blocked, { cloud_id: null, status: "active" });
    const filter = { "X-Filter": JSON.stringify({ "entity.type": "volume", "entity.id": blocked, action: "volume_attach" }) };
    const [event] = (await cloud.api.get("/v4/account/events", filter)).body.data;
    expect(event).toMatchObject({ status: "failed", message: expect.stringContaining("/mnt/blocked") });
    expect(await df(first, "/mnt/blocked")).toBeUndefined();
  });

  test("Backlot killed between the answer and the mount: mounted after the next start; killed later: never unmounted", async () => {
    const config: Config = await testConfig({ runtime: "docker" });
    const start = async () => {
      const program = fileURLToPath(new URL("../api/restart-child.mjs", import.meta.url));
      const child = spawn(process.execPath, [program], { stdio: ["pipe", "pipe", "inherit"] });
      child.stdin?.end(JSON.stringify(config));
      for await (const line of createInterface({ input: child.stdout ?? process.stdin })) return { ...(JSON.parse(line) as Json), child };
      throw new Error(`the child ended with ${child.exitCode}`);
    };
    const { url, token, child } = await start();
    const auth = { Authorization: `Bearer ${token}` };
    const of = (path: string) => send(url, "GET", path, auth);
    const mine = (await of("/_backlot/health")).body.owner as string;
    const { body: made } = await send(url, "POST", "/v4/cloud/instances", auth, wanted);
    await until(async () => (await of(`/v4/cloud/instances/${made.id}`)).body.status === "running", within);
    const { body: volume } = await send(url, "POST", "/v4/volumes", auth, { label: "late", region: "us-east", size: 10 });
    await until(async () => (await of(`/v4/volumes/${volume.id}`)).body.status === "active", within);
    const { status } = await send(url, "POST", `/v4/volumes/${volume.id}/attach`, auth, { cloud_id: made.id });
    const ended = once(child, "exit");
    child.kill("SIGKILL");
    await ended;
    expect(status).toBe(200);

    const again = await startCloud({ runtime: "docker", state: config.state });
    const container = await containerOf(mine, made.id);
    if (!container) throw new Error("the instance is gone");
    const source = async () => (await run(container, ["findmnt", "-no", "SOURCE", "/mnt/late"])).text.trim();
    await until(async () => (await again.api.get(`/v4/volumes/${volume.id}`)).body.io_ready === true, { ...within, what: "the mount" });
    const device = await source();
    expect(device).toMatch(/^\/dev\/loop\d+/);
    await again.close({ machines: "keep", keepState: true });
    expect(await source()).toBe(device);

    const last = await startCloud({ runtime: "docker", state: config.state });
    await until(async () => (await last.api.get(`/v4/volumes/${volume.id}`)).body.io_ready === true, { ...within, what: "the mount" });
    expect(await source()).toBe(device);
    await last.api.del(`/v4/cloud/instances/${made.id}`);
    await until(async () => (await last.api.get(`/v4/cloud/instances/${made.id}`)).status === 404, within);
    await ok(last.api.del(`/v4/volumes/${volume.id}`));
    await until(async () => (await last.api.get(`/v4/volumes/${volume.id}`)).status === 404, within);
    await last.close();
    const filters = { label: [`io.backlot.owner=${mine}`] };
    expect([await docker.listContainers({ all: true, filters }), (await docker.listVolumes({ filters })).Volumes ?? []]).toEqual([[], []]);
  });
});
