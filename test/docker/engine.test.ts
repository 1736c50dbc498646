import { execFileSync } from "node:child_process";
import { closeSync, openSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import type Docker from "dockerode";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { defaultImageMap, guestImages } from "#backlot/runtime/docker/guest-image.js";
import { type Json, startCloud, type TestCloud } from "../support/cloud.js";
import { describeDocker, run } from "../support/docker.js";
import { type OwnEngine, openOwnEngine } from "../support/own-engine.js";
import { until } from "../support/until.js";

const within = { withinMs: 40_000 };
const before = process.env.DOCKER_HOST;

/** Writes until the disk is full. */
const fill = (path: string): void => {
  const file = openSync(path, "a");
  try {
    for (const size of [1 << 20, 4_096, 1]) {
      try {
        for (;;) writeSync(file, Buffer.alloc(size));
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
      }
    }
  } finally {
    closeSync(file);
  }
};

// On an engine of the test's own: what happens to it here must not happen to those that others use.
describeDocker("an engine that misbehaves", () => {
  let engine: OwnEngine;
  let cloud: TestCloud;
  let owner: string;
  let guest: string;
  /** Runs "Hello web" behind a balancer all the time. */
  let web: Json;
  let config: Json;
  const undo: Array<() => void> = [];

  beforeAll(async () => {
    const none = { imageFallback: undefined, owner: "", ownImages: {}, onProgress: () => {} };
    guest = (await guestImages(undefined, { imageMap: await defaultImageMap(), ...none }).ensure("cloud/debian12")).tag;
    engine = await openOwnEngine("900m");
    await engine.take(guest);
    process.env.DOCKER_HOST = engine.host;
    // A speed at which the watchdog's two minutes take 2.4 s.
    cloud = await startCloud({
      runtime: "docker",
      speed: 50,
      images: { "cloud/hungry": "backlot-test/hungry:1", "cloud/absent": "backlot-test/absent:1" },
    });
    owner = (await cloud.api.get("/_backlot/health")).body.owner;
    web = await create({ label: "web", script_id: 1, private_ip: true });
    await reaches(web.id, "running");
    const { body: balancer } = await cloud.api.post("/v4/balancers", { label: "front", region: "us-east" });
    const nodes = [{ label: "web", address: `${web.ipv4[1]}:80` }];
    const wanted = { port: 21_180, check: "http", check_path: "/", check_interval: 5, check_timeout: 3, nodes };
    config = (await cloud.api.post(`/v4/balancers/${balancer.id}/configs`, wanted)).body;
    await nodesUp(1);
  }, 120_000);
  afterEach(() => {
    for (const act of undo.splice(0)) act();
  });
  afterAll(async () => {
    await cloud?.close();
    if (before === undefined) delete process.env.DOCKER_HOST;
    else process.env.DOCKER_HOST = before;
    await engine?.close();
  });

  const create = async (more: object = {}): Promise<Json> => {
    const wanted = { region: "us-east", type: "g6-nanode-1", image: "cloud/debian12", root_pass: "Correct-horse-1", ...more };
    const { status, body } = await cloud.api.post("/v4/cloud/instances", wanted);
    expect(status, JSON.stringify(body)).toBe(200);
    return body;
  };
  const statusOf = async (id: number): Promise<string> => (await cloud.api.get(`/v4/cloud/instances/${id}`)).body.status;
  const reaches = (id: number, status: string) => until(async () => (await statusOf(id)) === status, { ...within, what: `instance ${id} ${status}` });
  const nodesUp = (count: number) =>
    until(async () => (await cloud.api.get(`/v4/balancers/${config.balancer_id}/configs/${config.id}`)).body.nodes_status.up === count, {
      ...within,
      what: `${count} nodes up`,
    });
  const boxOf = async (id: number): Promise<Docker.Container> => {
    const label = [`io.backlot.owner=${owner}`, `io.backlot.instance=${id}`];
    const [row] = await engine.docker.listContainers({ all: true, filters: { label } });
    if (!row) throw new Error(`there is no container of instance ${id}`);
    return engine.docker.getContainer(row.Id);
  };
  const startOf = async (id: number): Promise<string> => (await (await boxOf(id)).inspect()).State.StartedAt;
  const notices = async (): Promise<Json[]> => (await cloud.api.get("/v4/account/notifications")).body.data;
  const noticed = (message: RegExp): Promise<Json> =>
    until(async () => (await notices()).find((notice) => message.test(notice.message)), { ...within, what: `the notice ${message}` });
  const eventOf = (id: number, action: string, status: string): Promise<Json> =>
    until(
      async () => {
        const { data } = (await cloud.api.get("/v4/account/events")).body;
        return data.find(
          (event: Json) => event.entity?.id === id && event.entity.type === "instance" && event.action === action && event.status === status,
        );
      },
      { ...within, what: `${action} ${status} of instance ${id}` },
    );
  const remove = async (id: number): Promise<void> => {
    await cloud.api.del(`/v4/cloud/instances/${id}`);
    await until(async () => (await cloud.api.get(`/v4/cloud/instances/${id}`)).status === 404, { ...within, what: `the end of instance ${id}` });
  };
  /** Everything a user looks at, answered. */
  const reads = async (): Promise<void> => {
    const { balancer_id, id } = config;
    const paths = [
      "/v4/cloud/instances",
      `/v4/cloud/instances/${web.id}`,
      "/v4/balancers",
      `/v4/balancers/${balancer_id}/configs/${id}/nodes`,
      "/v4/volumes",
      "/v4/account/events",
    ];
    for (const path of paths) expect((await cloud.api.get(path)).status, path).toBe(200);
  };

  test("that is stopped and started: reads answer, the outage and the node that is down are told, and everything comes back by itself", {
    timeout: 120_000,
  }, async () => {
    await engine.stop();
    const told = await noticed(/^Nothing can be created, booted, stopped or deleted until it does/);
    expect(told).toMatchObject({ type: "outage", severity: "critical" });
    await nodesUp(0);
    await reads();
    await engine.start();
    await nodesUp(1);
    await reaches(web.id, "running");
    expect((await (await boxOf(web.id)).inspect()).State.Running).toBe(true);
    await until(async () => (await notices()).length === 0, { ...within, what: "no notice" });
  });

  test("that is stopped and started: a volume's data is there, mounted again by itself", { timeout: 120_000 }, async () => {
    const { body: volume } = await cloud.api.post("/v4/volumes", { label: "kept", cloud_id: web.id, size: 10 });
    const path = `/v4/volumes/${volume.id}`;
    const isReady = (ready: boolean) =>
      until(async () => (await cloud.api.get(path)).body.io_ready === ready, { ...within, what: `io_ready ${ready}` });
    await isReady(true);
    await run(await boxOf(web.id), ["sh", "-c", "echo safe >/mnt/kept/file"]);
    await engine.stop();
    await nodesUp(0);
    await engine.start();
    await nodesUp(1);
    await isReady(true);
    expect((await run(await boxOf(web.id), ["sh", "-c", "cat /mnt/kept/file; grep -c /mnt/kept /proc/mounts"])).text).toBe("safe\n1\n");
    await cloud.api.post(`${path}/detach`);
    await isReady(false);
    await cloud.api.del(path);
    await until(async () => (await cloud.api.get(path)).status === 404, { ...within, what: "the volume's end" });
    await until(async () => (await notices()).length === 0, { ...within, what: "no notice" });
  });

  test("that hangs: reads answer, the outage is told, and nothing was started anew when it goes on", { timeout: 120_000 }, async () => {
    const started = await startOf(web.id);
    engine.signal("SIGSTOP");
    await noticed(/nothing answered within/);
    await reads();
    expect(await statusOf(web.id)).toBe("running");
    const { status, body } = await cloud.api.get(`/_backlot/instances/${web.id}`);
    expect([status, body.errors?.[0]?.reason]).toEqual([503, expect.stringMatching(/nothing answered within/)]);
    engine.signal("SIGCONT");
    await until(async () => (await notices()).length === 0, { ...within, what: "no notice" });
    expect(await startOf(web.id)).toBe(started);
    await nodesUp(1);
  });

  test.each([
    [
      "killed",
      (box: Docker.Container) => box.kill({ signal: "SIGKILL" }),
      /^web: It stopped by itself, with exit code 137\. Its watchdog restarts it\.$/,
    ],
    ["paused", (box: Docker.Container) => box.pause(), /^web: It is paused \(docker pause\)\. Its watchdog restarts it\.$/],
    ["removed", (box: Docker.Container) => box.remove({ force: true }), /^web: The machine was gone, with its disk; it is made anew/],
  ])("a container that is %s: offline with the reason, its node down, and it comes back", { timeout: 120_000 }, async (_how, harm, reason) => {
    await harm(await boxOf(web.id));
    const told = await noticed(reason);
    expect(told).toMatchObject({ label: "An instance is down", severity: "major", entity: { id: web.id, type: "instance" } });
    expect(await statusOf(web.id)).toBe("offline");
    const { data } = (await cloud.api.get(`/v4/balancers/${config.balancer_id}/configs/${config.id}/nodes`)).body;
    expect(data[0].status).toBe("DOWN");
    await reaches(web.id, "running");
    await nodesUp(1);
    expect(await notices()).toEqual([]);
  });

  test("a machine that runs out of memory: offline, and the reason says so", { timeout: 120_000 }, async () => {
    const script =
      "mkdir -p /out/bin && cp /bin/busybox /out/bin/ && cp -L --parents $(ldd /bin/busybox | grep -o '/[^ ]*') /out/ && tar -c -C /out .";
    const entrypoint = 'ENTRYPOINT ["/bin/busybox", "tail", "/dev/zero"]';
    const command = `set -o pipefail; docker run --rm --network none --entrypoint sh "$1" -c "$2" | docker import --change "$3" - backlot-test/hungry:1`;
    execFileSync("bash", ["-c", command, "bash", guest, script, entrypoint], { env: { ...process.env, DOCKER_HOST: engine.host } });
    const hungry = await create({ label: "hungry", image: "cloud/hungry", watchdog_enabled: false });
    const told = await eventOf(hungry.id, "instance_shutdown", "notification");
    expect(told.message).toBe("It ran out of memory and was killed. Its watchdog is off.");
    expect(await statusOf(hungry.id)).toBe("offline");
    await remove(hungry.id);
  });

  test("a network that somebody takes the machine off, and removes: made again, with the same address", { timeout: 120_000 }, async () => {
    const started = await startOf(web.id);
    const { NetworkSettings } = await (await boxOf(web.id)).inspect();
    const [name] = Object.entries(NetworkSettings.Networks).find(([, network]) => network.IPAddress === web.ipv4[1]) ?? [];
    const network = engine.docker.getNetwork(name ?? "");
    await network.disconnect({ Container: (await boxOf(web.id)).id, Force: true });
    await network.remove();
    await nodesUp(0);
    await nodesUp(1);
    expect((await (await boxOf(web.id)).inspect()).NetworkSettings.Networks[name ?? ""]?.IPAddress).toBe(web.ipv4[1]);
    expect(await startOf(web.id)).toBe(started);
  });

  test("an address that a stranger's container took: the boot fails and names it; without it the boot succeeds", { timeout: 120_000 }, async () => {
    const late = await create({ label: "late", private_ip: true });
    await reaches(late.id, "running");
    const { NetworkSettings } = await (await boxOf(late.id)).inspect();
    const [name = ""] = Object.entries(NetworkSettings.Networks).find(([, network]) => network.IPAddress === late.ipv4[1]) ?? [];
    await cloud.api.post(`/v4/cloud/instances/${late.id}/shutdown`);
    await reaches(late.id, "offline");
    const stranger = await engine.docker.createContainer({
      name: "a-stranger",
      Image: guest,
      Entrypoint: ["sleep", "600"],
      HostConfig: { NetworkMode: name },
      NetworkingConfig: { EndpointsConfig: { [name]: { IPAMConfig: { IPv4Address: late.ipv4[1] } } } },
    });
    await stranger.start();
    await cloud.api.post(`/v4/cloud/instances/${late.id}/boot`);
    const { message } = await eventOf(late.id, "instance_boot", "failed");
    expect(message).toBe(
      `${late.ipv4[1]} of instance ${late.id} is taken by the container a-stranger. Take it off the network: docker network disconnect ${name} a-stranger`,
    );
    expect((await notices())[0]).toMatchObject({ label: "An instance did not boot", entity: { id: late.id } });
    expect((await stranger.inspect()).State.Running).toBe(true);
    await stranger.remove({ force: true });
    await cloud.api.post(`/v4/cloud/instances/${late.id}/boot`);
    await reaches(late.id, "running");
    await remove(late.id);
  });

  test("an image that was removed: a new machine's event says why it has none, what runs goes on; with it back it boots", {
    timeout: 120_000,
  }, async () => {
    await engine.docker.getImage("backlot-test/hungry:1").tag({ repo: "backlot-test/absent", tag: "1" });
    await engine.docker.getImage("backlot-test/absent:1").remove();
    const absent = await create({ label: "absent", image: "cloud/absent" });
    const { message } = await eventOf(absent.id, "instance_boot", "failed");
    expect(message).toMatch(/backlot-test\/absent:1/);
    expect(await statusOf(absent.id)).toBe("offline");
    expect(await statusOf(web.id)).toBe("running");
    await reads();
    await engine.docker.getImage("backlot-test/hungry:1").tag({ repo: "backlot-test/absent", tag: "1" });
    await cloud.api.post(`/v4/cloud/instances/${absent.id}/boot`);
    await reaches(absent.id, "running");
    await remove(absent.id);
  });

  test("a full disk of the engine: the boot fails and says so, what runs goes on, reads answer; with room it boots", {
    timeout: 120_000,
  }, async () => {
    const ballast = join(engine.data, "ballast");
    const started = await startOf(web.id);
    fill(ballast);
    const late = await create({ label: "no-room" });
    const { message } = await eventOf(late.id, "instance_boot", "failed");
    expect(message).toMatch(/no space left on device/);
    expect(await noticed(/^no-room: .*no space left on device/)).toMatchObject({ label: "An instance did not boot" });
    await reads();
    expect(await statusOf(web.id)).toBe("running");
    await nodesUp(1);
    rmSync(ballast);
    await cloud.api.post(`/v4/cloud/instances/${late.id}/boot`);
    await reaches(late.id, "running");
    expect(await startOf(web.id)).toBe(started);
    await remove(late.id);
  });

  test("that hangs amid a job: the job and a kill fail with the reason, a delete is told why it waits, and Backlot stops cleanly", {
    timeout: 120_000,
  }, async () => {
    const late = await create({ label: "late" });
    await reaches(late.id, "running");
    engine.signal("SIGSTOP");
    undo.push(() => engine.signal("SIGCONT"));
    await cloud.api.post(`/v4/cloud/instances/${late.id}/reboot`);
    const killed = await cloud.api.post(`/_backlot/instances/${web.id}/kill`);
    expect([killed.status, killed.body.errors?.[0]?.reason]).toEqual([503, expect.stringMatching(/nothing answered within/)]);
    expect((await eventOf(late.id, "instance_reboot", "failed")).message).toMatch(/nothing answered within/);
    expect((await cloud.api.del(`/v4/cloud/instances/${late.id}`)).status).toBe(200);
    await until(async () => /nothing answered within/.test((await eventOf(late.id, "instance_delete", "started")).message), {
      ...within,
      what: "why it is still there",
    });
    await reads();
    engine.signal("SIGCONT");
    await until(async () => (await cloud.api.get(`/v4/cloud/instances/${late.id}`)).status === 404, { ...within, what: "the end of it" });
    await nodesUp(1);
    // Hanging again, it keeps nobody from closing.
    engine.signal("SIGSTOP");
    await cloud.api.post(`/v4/cloud/instances/${web.id}/reboot`);
    await cloud.running.close({ machines: "keep" });
  });
});
