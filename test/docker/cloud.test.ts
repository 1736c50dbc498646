import { afterAll, beforeAll, expect, test } from "vitest";
import { startCloud, type TestCloud } from "../support/cloud.js";
import { containerOf, describeDocker, docker } from "../support/docker.js";
import { until } from "../support/until.js";

describeDocker("a cloud on the engine, asked of the engine", () => {
  let cloud: TestCloud;
  let owner: string;
  beforeAll(async () => {
    // A speed at which the watchdog's two minutes take 2.4 s.
    cloud = await startCloud({ runtime: "docker", speed: 50 });
    owner = (await cloud.api.get("/_backlot/health")).body.owner;
  });
  afterAll(async () => {
    const { data } = (await cloud.api.get("/v4/cloud/instances")).body as { data: Array<{ id: number }> };
    for (const { id } of data) await cloud.api.del(`/v4/cloud/instances/${id}`);
    await until(async () => (await cloud.api.get("/v4/cloud/instances")).body.results === 0, { withinMs: 30_000, what: "no instance" });
    const left = await docker.listContainers({ all: true, filters: { label: [`io.backlot.owner=${owner}`] } });
    const networks = await docker.listNetworks({ filters: { label: [`io.backlot.owner=${owner}`] } });
    await cloud.close();
    expect([left, networks]).toEqual([[], []]);
  });

  const create = async (more: object): Promise<number> => {
    const body = { region: "us-east", type: "g6-nanode-1", image: "cloud/debian12", root_pass: "Correct-horse-1", ...more };
    const made = await cloud.api.post("/v4/cloud/instances", body);
    expect(made.status).toBe(200);
    return made.body.id;
  };
  const status = async (id: number): Promise<string> => (await cloud.api.get(`/v4/cloud/instances/${id}`)).body.status;
  const reaches = (id: number, wanted: string) =>
    until(async () => (await status(id)) === wanted, { withinMs: 30_000, what: `instance ${id} ${wanted}` });
  const addresses = async (id: number): Promise<string[]> => {
    const { NetworkSettings } = (await (await containerOf(owner, id))?.inspect()) ?? {};
    return Object.values(NetworkSettings?.Networks ?? {}).map((network) => network.IPAddress);
  };
  const lately = async (id: number): Promise<string[]> => {
    const filter = JSON.stringify({ "entity.id": id, "entity.type": "instance" });
    const { data } = (await cloud.api.get("/v4/account/events", { "X-Filter": filter })).body;
    return data.map((event: { action: string; status: string }) => `${event.action} ${event.status}`);
  };

  test("an address that is asked for the moment it runs is really the container's", async () => {
    const id = await create({});
    await reaches(id, "running");
    const { address } = (await cloud.api.post("/v4/networking/ips", { type: "ipv4", public: false, cloud_id: id })).body;
    await until(async () => (await addresses(id)).includes(address), { withinMs: 20_000, what: `${address} on the container` });
    const before = (await (await containerOf(owner, id))?.inspect())?.State.StartedAt;
    expect(before).toBeDefined();
    expect(await status(id)).toBe("running");
  });

  test("a container that dies is seen offline, and the watchdog brings it back with an event", async () => {
    const id = await create({ label: "mortal" });
    await reaches(id, "running");
    await (await containerOf(owner, id))?.kill({ signal: "SIGKILL" });
    await reaches(id, "offline");
    await reaches(id, "running");
    expect((await (await containerOf(owner, id))?.inspect())?.State.Running).toBe(true);
    expect(await lately(id)).toContain("lassie_reboot finished");
  });

  test("a container that somebody removed is made anew", async () => {
    const id = await create({ label: "removed" });
    await reaches(id, "running");
    const old = await containerOf(owner, id);
    await old?.remove({ force: true });
    await until(async () => (await containerOf(owner, id))?.id !== undefined && (await containerOf(owner, id))?.id !== old?.id, {
      withinMs: 30_000,
      what: "another container",
    });
    await reaches(id, "running");
  });

  test("an image that cannot be had fails the boot with cause and remedy, and the instance is offline", async () => {
    const id = await create({ image: "cloud/slackware15.0", label: "no-image" });
    await until(async () => (await lately(id)).includes("instance_boot failed"), { withinMs: 60_000, what: "the failed event" });
    expect(await status(id)).toBe("offline");
    const filter = JSON.stringify({ "entity.id": id, "entity.type": "instance", action: "instance_boot" });
    const [event] = (await cloud.api.get("/v4/account/events", { "X-Filter": filter })).body.data;
    expect(event.message).toMatch(/slackware/);
    expect(event.message).toMatch(/--image-fallback/);
    expect(await containerOf(owner, id)).toBeUndefined();
  });
});
