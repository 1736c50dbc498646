import { afterAll, beforeAll, expect, test } from "vitest";
import { type Json, startCloud, type TestCloud } from "../support/cloud.js";
import { containerOf, describeDocker, docker, run } from "../support/docker.js";
import { until } from "../support/until.js";

describeDocker("images and backups of a cloud on the engine, asked of the engine", () => {
  let cloud: TestCloud;
  let owner: string;
  let id: number;
  beforeAll(async () => {
    cloud = await startCloud({ runtime: "docker", speed: 50 });
    owner = (await cloud.api.get("/_backlot/health")).body.owner;
    id = await create({ image: "cloud/debian12", root_pass: "Correct-horse-1", backups_enabled: true });
    await reaches(id, "running");
    await inside(id, "echo monday >/root/diary");
  });
  afterAll(async () => {
    for (const image of (await cloud.api.get("/v4/images", { "X-Filter": '{"is_public":false}' })).body.data)
      await cloud.api.del(`/v4/images/${image.id}`);
    for (const instance of (await cloud.api.get("/v4/cloud/instances")).body.data) await cloud.api.del(`/v4/cloud/instances/${instance.id}`);
    await until(async () => (await cloud.api.get("/v4/cloud/instances")).body.results === 0, { withinMs: 60_000, what: "no instance" });
    // What a machine rested on goes with the next look.
    await until(async () => (await ourTags()).length === 0, { withinMs: 60_000, what: "no image of ours" });
    await cloud.close();
  });

  const path = (instance: number): string => `/v4/cloud/instances/${instance}`;
  const create = async (body: object): Promise<number> => {
    const made = await cloud.api.post("/v4/cloud/instances", { region: "us-east", type: "g6-nanode-1", ...body });
    expect(made.body).toMatchObject({ id: expect.any(Number) });
    return made.body.id;
  };
  const reaches = (instance: number, status: string) =>
    until(async () => (await cloud.api.get(path(instance))).body.status === status, { withinMs: 60_000, what: `instance ${instance} ${status}` });
  const inside = async (instance: number, command: string): Promise<string> => {
    const container = await containerOf(owner, instance);
    if (!container) throw new Error(`there is no container of ${instance}`);
    return (await run(container, ["sh", "-c", command])).text;
  };
  const ourTags = async (): Promise<string[]> =>
    (await docker.listImages({ filters: { label: [`io.backlot.owner=${owner}`] } })).flatMap((row) => row.RepoTags ?? []);
  const ends = (instance: number, action: string): Promise<Json> =>
    until(
      async () => {
        const filter = JSON.stringify({ "entity.id": instance, "entity.type": "instance", action });
        const [event] = (await cloud.api.get("/v4/account/events", { "X-Filter": filter })).body.data;
        return event?.status === "finished" && event;
      },
      { withinMs: 60_000, what: `${action} finished` },
    );

  test("a snapshot of a running machine leaves it running, and brings back what was there", async () => {
    const statuses = new Set<string>();
    const taken = await cloud.api.post(`${path(id)}/backups`, { label: "Monday" });
    expect(taken.status).toBe(200);
    await until(
      async () => {
        statuses.add((await cloud.api.get(path(id))).body.status);
        return (await cloud.api.get(`${path(id)}/backups/${taken.body.id}`)).body.status === "successful";
      },
      { withinMs: 60_000, what: "the snapshot" },
    );
    expect([...statuses]).toEqual(["running"]);
    expect((await ourTags()).filter((tag) => tag.startsWith("backlot/disk:"))).toHaveLength(1);

    await inside(id, "echo tuesday >/root/diary; rm -f /usr/bin/python3");
    const key = await inside(id, "cat /etc/ssh/ssh_host_ed25519_key.pub");
    const restored = await cloud.api.post(`${path(id)}/backups/${taken.body.id}/restore`, { cloud_id: id, overwrite: true });
    expect(restored.status).toBe(200);
    await ends(id, "backups_restore");
    expect((await cloud.api.get(path(id))).body.status).toBe("offline");
    await cloud.api.post(`${path(id)}/boot`);
    await reaches(id, "running");
    expect(await inside(id, "cat /root/diary; ls /usr/bin/python3")).toBe("monday\n/usr/bin/python3\n");
    expect(await inside(id, "cat /etc/ssh/ssh_host_ed25519_key.pub")).toBe(key);
  });

  test("an image of a disk is one of the engine's, and boots as another machine", async () => {
    const [disk] = (await cloud.api.get(`${path(id)}/disks`)).body.data;
    const image = (await cloud.api.post("/v4/images", { disk_id: disk.id, label: "Golden" })).body;
    const made = await until(
      async () => {
        const { body } = await cloud.api.get(`/v4/images/${image.id}`);
        return body.status === "available" && body;
      },
      { withinMs: 120_000, what: "the image" },
    );
    const [tag = ""] = (await ourTags()).filter((one) => one.startsWith("backlot/private:"));
    const { Size } = await docker.getImage(tag).inspect();
    expect(made.size).toBe(Math.ceil(Size / 2 ** 20));
    const other = await create({ image: image.id, root_pass: "Another-horse-2" });
    await reaches(other, "running");
    expect(await inside(other, "cat /root/diary")).toBe("monday\n");
    expect(await inside(other, "cat /etc/ssh/ssh_host_ed25519_key.pub")).not.toBe(await inside(id, "cat /etc/ssh/ssh_host_ed25519_key.pub"));

    await cloud.api.del(`/v4/images/${image.id}`);
    expect((await cloud.api.get(path(other))).body.status).toBe("running");
    expect(await inside(other, "cat /root/diary")).toBe("monday\n");
    await cloud.api.del(path(other));
    await until(async () => !(await ourTags()).includes(tag), { withinMs: 60_000, what: "the end of the engine's image" });
  });

  test("cancelled backups leave nothing behind once no machine rests on them", async () => {
    await cloud.api.post(`${path(id)}/backups/cancel`);
    await cloud.api.del(path(id));
    await until(async () => (await ourTags()).length === 0, { withinMs: 60_000, what: "no image of ours" });
  });
});
