import { lstatSync, mkdirSync, readdirSync, readFileSync, readlinkSync, unlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Json, startCloud, type TestCloud } from "../support/cloud.js";
import { until } from "../support/until.js";
import { createInstance, eventsOf, fieldsOf, freshLabel, instanceIn, removeInstance, selfNaming } from "./world.js";

let cloud: TestCloud;
let first: Json;
let second: Json;
let abroad: Json;
beforeAll(async () => {
  cloud = await startCloud();
  [first, second, abroad] = await Promise.all([{}, {}, { region: "eu-west" }].map((more) => createInstance(cloud, more)));
  for (const { id } of [first, second, abroad]) await instanceIn(cloud, id, "running");
});
afterAll(() => cloud.close());

const path = ({ id }: Json, action = "") => `/v4/volumes/${id}${action}`;
const read = async (volume: Json): Promise<Json> => (await cloud.api.get(path(volume))).body;
const reaches = (volume: Json, wanted: object): Promise<Json> =>
  until(
    async () => {
      const now = await read(volume);
      return Object.entries(wanted).every(([name, value]) => now[name] === value) && now;
    },
    { what: `volume ${volume.id} that is ${JSON.stringify(wanted)}` },
  );
const make = async (more: object = {}): Promise<Json> => {
  const { status, body } = await cloud.api.post("/v4/volumes", { label: freshLabel("vol"), region: "us-east", ...more });
  expect(status, JSON.stringify(body)).toBe(200);
  return reaches(body, { status: "active" });
};
const ok = async (asked: Promise<{ status: number; body: Json }>): Promise<Json> => {
  const { status, body } = await asked;
  expect(status, JSON.stringify(body)).toBe(200);
  return body;
};
const refused = async (asked: Promise<{ status: number; body: Json }>): Promise<Json[]> => {
  const { status, body } = await asked;
  expect(status, JSON.stringify(body)).toBe(400);
  expect(selfNaming(body)).toEqual([]);
  return body.errors;
};
/** Asked of the file system: where this machine sees a volume. */
const mountOf = ({ id }: Json, label: string) => join(cloud.state, "machines", String(id), "mnt", label);
const isThere = (place: string): boolean => lstatSync(place, { throwIfNoEntry: false }) !== undefined;
const attached = async (volume: Json, instance: Json): Promise<string> => {
  await ok(cloud.api.post(path(volume, "/attach"), { cloud_id: instance.id }));
  await reaches(volume, { cloud_id: instance.id, io_ready: true, status: "active" });
  return mountOf(instance, (await read(volume)).label);
};
const jobs = async (volume: Json): Promise<string[]> =>
  (await eventsOf(cloud, "volume", volume.id)).map((event) => `${event.action} ${event.status}`).reverse();

describe("creating (contract 11)", () => {
  it("answers the whole record at once, and the volume becomes active", async () => {
    const label = freshLabel("whole");
    const body = await ok(cloud.api.post("/v4/volumes", { label, region: "us-east", size: 10, tags: ["data"], encryption: "enabled" }));
    expect(body).toEqual({
      id: expect.any(Number),
      label,
      filesystem_path: `/dev/disk/by-id/scsi-0Cloud_Volume_${label}`,
      status: "creating",
      size: 10,
      region: "us-east",
      cloud_id: null,
      cloud_label: null,
      created: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$/),
      updated: body.created,
      tags: ["data"],
      hardware_type: "nvme",
      encryption: "enabled",
      io_ready: false,
      locks: [],
    });
    expect(await reaches(body, { status: "active" })).toEqual({ ...body, status: "active" });
    expect(readdirSync(join(cloud.state, "volumes"))).toContain(String(body.id));
    expect(await jobs(body)).toEqual(["volume_create finished"]);
  });

  it("is 20 GB and not encrypted unless something else is asked for", async () => {
    expect(await make()).toMatchObject({ size: 20, encryption: "disabled", tags: [] });
  });

  it("with an instance it lies in that one's region and is attached right after", async () => {
    const label = freshLabel("at-once");
    const config = (await cloud.api.get(`/v4/cloud/instances/${abroad.id}/configs`)).body.data[0];
    const body = await ok(cloud.api.post("/v4/volumes", { label, cloud_id: abroad.id, config_id: config.id, region: null }));
    expect(body).toMatchObject({ region: "eu-west", cloud_id: abroad.id, cloud_label: abroad.label, status: "creating" });
    await reaches(body, { status: "active", io_ready: true });
    expect(isThere(mountOf(abroad, label))).toBe(true);
    await until(async () => (await jobs(body)).join() === "volume_create finished,volume_attach finished", { what: "both events" });
    const [event] = await eventsOf(cloud, "volume", body.id, { action: "volume_attach" });
    expect(event).toMatchObject({
      entity: { id: body.id, label, type: "volume", url: `/v4/volumes/${body.id}` },
      secondary_entity: { id: abroad.id, type: "instance" },
      username: expect.any(String),
    });
  });

  it.each([
    ["no label", { region: "us-east" }, ["label"]],
    ["neither region nor instance", { label: "lost" }, ["region"]],
    ["an unknown region", { label: "lost", region: "atlantis" }, ["region"]],
    ["an unknown instance", { label: "lost", cloud_id: 99_999 }, ["cloud_id"]],
    ["a size below the least", { label: "lost", region: "us-east", size: 9 }, ["size"]],
    ["a size above the most", { label: "lost", region: "us-east", size: 10_241 }, ["size"]],
    ["half a gigabyte", { label: "lost", region: "us-east", size: 10.5 }, ["size"]],
    ["another encryption", { label: "lost", region: "us-east", encryption: "rot13" }, ["encryption"]],
    ["a profile of no instance", { label: "lost", region: "us-east", config_id: 3 }, ["config_id"]],
    ["everything at once", { label: "1x", size: 1, region: "atlantis", cloud_id: 99_999 }, ["cloud_id", "label", "region", "size"]],
  ])("refuses %s", async (_what, body, fields) => {
    const { status, body: answer } = await cloud.api.post("/v4/volumes", body);
    expect(status).toBe(400);
    expect(fieldsOf(answer)).toEqual(fields);
    expect(selfNaming(answer)).toEqual([]);
  });

  it.each(["", "1st", "-a", "a b", "a--b", "a__b", "ä", "a.b", "a/b", "..", "x".repeat(33), "a\n"])("refuses the label %j", async (label) => {
    expect(fieldsOf((await cloud.api.post("/v4/volumes", { label, region: "us-east" })).body)).toContain("label");
  });

  it.each(["a", "A1", "a-b_c-", `z${"y".repeat(31)}`])("takes the label %j", async (label) => {
    expect((await make({ label })).label).toBe(label);
  });

  it("refuses the other region of an instance, and a label that another volume has", async () => {
    const { label } = await make();
    expect(await refused(cloud.api.post("/v4/volumes", { label, region: "us-east", cloud_id: abroad.id }))).toEqual([
      { field: "label", reason: expect.stringContaining("unique") },
      { field: "cloud_id", reason: expect.stringContaining("us-east and the instance in eu-west") },
    ]);
  });
});

describe("listing", () => {
  it("filters by label, status, region and tags, and by nothing that is not documented", async () => {
    const tagged = await make({ tags: ["wanted"], region: "ap-south" });
    const found = async (filter: object) =>
      (await cloud.api.get("/v4/volumes", { "X-Filter": JSON.stringify(filter) })).body.data?.map(({ id }: Json) => id);
    for (const filter of [{ label: tagged.label }, { tags: "wanted" }, { region: "ap-south", status: "active" }])
      expect(await found(filter)).toEqual([tagged.id]);
    expect((await cloud.api.get("/v4/volumes", { "X-Filter": '{"io_ready":true}' })).status).toBe(400);
  });

  it("an instance's volumes are those attached to it", async () => {
    const volume = await make();
    await attached(volume, second);
    const { body } = await cloud.api.get(`/v4/cloud/instances/${second.id}/volumes`);
    expect(body.data).toEqual([await read(volume)]);
    expect((await cloud.api.get("/v4/cloud/instances/99999/volumes")).status).toBe(404);
    await cloud.api.post(path(volume, "/detach"));
    await reaches(volume, { cloud_id: null });
    expect((await cloud.api.get(`/v4/cloud/instances/${second.id}/volumes`)).body.results).toBe(0);
  });

  it("the kinds and their prices are the shipped data", async () => {
    const { body } = await cloud.api.get("/v4/volumes/types");
    expect(body.data).toEqual(JSON.parse(readFileSync(new URL("../../fixtures/catalogue/volume-types.json", import.meta.url), "utf8")));
    expect(body.data).toMatchObject([{ id: "volume", price: { hourly: 0.00015, monthly: 0.1 } }]);
  });
});

describe("updating", () => {
  it("changes label and tags only, and a mounted volume gets its new name in the machine", async () => {
    const volume = await make();
    const before = await attached(volume, first);
    const label = freshLabel("renamed");
    const body = await ok(cloud.api.put(path(volume), { label, tags: ["new"], size: 4000, region: "eu-west" }));
    expect(body).toMatchObject({ label, tags: ["new"], size: 20, region: "us-east", filesystem_path: `/dev/disk/by-id/scsi-0Cloud_Volume_${label}` });
    await until(() => isThere(mountOf(first, label)) && !isThere(before), { what: "the mount under its new name" });
    expect((await eventsOf(cloud, "volume", volume.id, { action: "volume_update" }))[0]).toMatchObject({ status: "notification" });
    expect(await ok(cloud.api.put(path(volume), {}))).toMatchObject({ label, tags: ["new"] });
  });

  it("refuses another's label", async () => {
    const [one, other] = [await make(), await make()];
    expect(await refused(cloud.api.put(path(one), { label: other.label }))).toMatchObject([{ field: "label" }]);
    expect((await cloud.api.put("/v4/volumes/99999", { label: "x" })).status).toBe(404);
  });
});

describe("attaching and detaching", () => {
  it("a machine sees what was written on another one", async () => {
    const volume = await make();
    const there = await attached(volume, first);
    writeFileSync(join(there, "letter"), "dear machine");
    expect(await ok(cloud.api.post(path(volume, "/detach")))).toEqual({});
    await reaches(volume, { cloud_id: null, cloud_label: null, io_ready: false, status: "active" });
    expect(isThere(there)).toBe(false);
    const now = await attached(volume, second);
    expect(readFileSync(join(now, "letter"), "utf8")).toBe("dear machine");
    expect((await jobs(volume)).slice(1)).toEqual(["volume_attach finished", "volume_detach finished", "volume_attach finished"]);
  });

  it("is refused twice, across regions, to nobody, and detached when it is not attached", async () => {
    const volume = await make();
    const attach = (body: object) => refused(cloud.api.post(path(volume, "/attach"), body));
    expect(await attach({ cloud_id: abroad.id })).toMatchObject([{ field: "cloud_id", reason: expect.stringContaining("one region") }]);
    expect(await attach({ cloud_id: 99_999 })).toMatchObject([{ field: "cloud_id" }]);
    expect(await attach({})).toMatchObject([{ field: "cloud_id" }]);
    expect(await attach({ cloud_id: "x", config_id: "y", persist_across_boots: 1 })).toHaveLength(3);
    expect(await refused(cloud.api.post(path(volume, "/detach")))).toEqual([{ reason: "The volume is not attached." }]);
    await attached(volume, first);
    expect((await attach({ cloud_id: second.id }))[0].reason).toContain(`attached to instance ${first.id}`);
    expect((await attach({ cloud_id: first.id }))[0].reason).toContain(`attached to instance ${first.id}`);
  });

  it("goes to a config of that instance or to none", async () => {
    const configOf = async ({ id }: Json): Promise<number> => (await cloud.api.get(`/v4/cloud/instances/${id}/configs`)).body.data[0].id;
    const volume = await make();
    const wrong = [{ field: "config_id", reason: "This instance has no config with this id." }];
    for (const config of [99_999, await configOf(second)]) {
      const asked = { cloud_id: first.id, config_id: config };
      expect(await refused(cloud.api.post(path(volume, "/attach"), asked))).toEqual(wrong);
      expect(await refused(cloud.api.post("/v4/volumes", { label: freshLabel(), ...asked }))).toEqual(wrong);
    }
    expect(await read(volume)).toMatchObject({ cloud_id: null });
    await ok(cloud.api.post(path(volume, "/attach"), { cloud_id: first.id, config_id: await configOf(first) }));
    await reaches(volume, { cloud_id: first.id, io_ready: true });
    await ok(cloud.api.post(path(volume, "/detach")));
  });

  it("has the config's first free slot while it is attached for good; with several configs one must be named", async () => {
    const instance = await createInstance(cloud, { booted: false });
    await instanceIn(cloud, instance.id, "offline");
    const configs = `/v4/cloud/instances/${instance.id}/configs`;
    const slotsOf = async (index = 0): Promise<Json> => {
      const { devices } = (await cloud.api.get(configs)).body.data[index];
      return Object.fromEntries(Object.entries(devices).filter(([, device]) => device !== null));
    };
    const before = await slotsOf();
    const [lasting, passing] = [await make(), await make()];
    await ok(cloud.api.post(path(lasting, "/attach"), { cloud_id: instance.id }));
    await ok(cloud.api.post(path(passing, "/attach"), { cloud_id: instance.id, persist_across_boots: false }));
    expect(await slotsOf()).toEqual({ ...before, sdc: { disk_id: null, volume_id: lasting.id } });
    const [disk] = (await cloud.api.get(`/v4/cloud/instances/${instance.id}/disks`)).body.data;
    const second = (await cloud.api.post(configs, { label: "second", devices: { sda: { disk_id: disk.id } } })).body;
    for (const volume of [lasting, passing]) {
      await reaches(volume, { cloud_id: instance.id, status: "active" });
      await until(async () => (await cloud.api.post(path(volume, "/detach"))).status === 200, { what: "the detach taken" });
      await reaches(volume, { cloud_id: null });
    }
    expect(await slotsOf()).toEqual(before);
    expect((await refused(cloud.api.post(path(lasting, "/attach"), { cloud_id: instance.id })))[0].reason).toContain("several configs");
    expect((await refused(cloud.api.post("/v4/volumes", { label: freshLabel(), cloud_id: instance.id })))[0].reason).toContain("several configs");
    await ok(cloud.api.post(path(lasting, "/attach"), { cloud_id: instance.id, config_id: second.id }));
    expect([await slotsOf(), (await slotsOf(1)).sdb]).toEqual([before, { disk_id: null, volume_id: lasting.id }]);
    await removeInstance(cloud, instance.id);
  });

  it("takes eight for good, and more for one boot where memory allows", async () => {
    const instance = await createInstance(cloud, { type: "g6-standard-6", booted: false });
    const volumes = await Promise.all(Array.from({ length: 10 }, () => make()));
    for (const volume of volumes.slice(0, 8)) await ok(cloud.api.post(path(volume, "/attach"), { cloud_id: instance.id }));
    expect((await refused(cloud.api.post(path(volumes[8], "/attach"), { cloud_id: instance.id })))[0].reason).toContain("8 volumes");
    expect((await refused(cloud.api.post("/v4/volumes", { label: freshLabel(), cloud_id: instance.id })))[0].reason).toContain("8 volumes");
    await ok(cloud.api.post(path(volumes[9], "/attach"), { cloud_id: instance.id, persist_across_boots: false }));
    await removeInstance(cloud, instance.id);
    for (const volume of volumes) await reaches(volume, { cloud_id: null, status: "active" });
  });

  it("keeps its instance in its region, and may be named in that one's profiles only there", async () => {
    const volume = await make();
    const named = (instance: Json, volumeId: number) =>
      cloud.api.post(`/v4/cloud/instances/${instance.id}/configs`, { label: freshLabel("profile"), devices: { sdc: { volume_id: volumeId } } });
    expect((await refused(named(second, volume.id)))[0].reason).toContain("attach it first");
    expect((await refused(named(abroad, volume.id)))[0].reason).toContain("both must be in one region");
    expect((await refused(named(second, 99_999)))[0].reason).toContain("No volume");
    await attached(volume, second);
    const profile = await ok(named(second, volume.id));
    const moved = await refused(cloud.api.post(`/v4/cloud/instances/${second.id}/migrate`, { region: "eu-west" }));
    expect(moved[0].reason).toContain("detach it first");
    await ok(cloud.api.del(`/v4/cloud/instances/${second.id}/configs/${profile.id}`));
    await ok(cloud.api.post(path(volume, "/detach")));
    await reaches(volume, { cloud_id: null });
  });

  it("one attached for a boot only is detached when that is over", async () => {
    const volume = await make();
    await ok(cloud.api.post(path(volume, "/attach"), { cloud_id: second.id, persist_across_boots: false }));
    await reaches(volume, { io_ready: true });
    await ok(cloud.api.post(`/v4/cloud/instances/${second.id}/reboot`));
    await reaches(volume, { cloud_id: null, io_ready: false });
    expect(isThere(mountOf(second, volume.label))).toBe(false);
    await instanceIn(cloud, second.id, "running");
  });

  it("to an instance that is off, it is mounted when that boots, and again at every boot", async () => {
    const instance = await createInstance(cloud, { booted: false });
    await instanceIn(cloud, instance.id, "offline");
    const volume = await make();
    await ok(cloud.api.post(path(volume, "/attach"), { cloud_id: instance.id }));
    await reaches(volume, { status: "active", cloud_id: instance.id, io_ready: false });
    await until(async () => (await jobs(volume)).includes("volume_attach finished"));
    await ok(cloud.api.post(`/v4/cloud/instances/${instance.id}/boot`));
    await reaches(volume, { io_ready: true });
    expect(isThere(mountOf(instance, volume.label))).toBe(true);
    await instanceIn(cloud, instance.id, "running");
    await ok(cloud.api.post(`/v4/cloud/instances/${instance.id}/shutdown`));
    await reaches(volume, { io_ready: false, cloud_id: instance.id });
    await instanceIn(cloud, instance.id, "offline");
    await ok(cloud.api.post(`/v4/cloud/instances/${instance.id}/boot`));
    await reaches(volume, { io_ready: true });
    await removeInstance(cloud, instance.id);
  });

  it("an attach that cannot be done is a failed event with the reason, and the volume is free again", async () => {
    const volume = await make();
    const other = await make();
    writeFileSync(join(await attached(other, first), "..", volume.label), "in the way");
    await ok(cloud.api.post(path(volume, "/attach"), { cloud_id: first.id }));
    await reaches(volume, { cloud_id: null, status: "active" });
    const [event] = await eventsOf(cloud, "volume", volume.id);
    expect(event).toMatchObject({
      action: "volume_attach",
      status: "failed",
      percent_complete: 100,
      message: expect.stringContaining("something else"),
    });
  });
});

describe("resizing (description 2.6, section 7)", () => {
  it("grows, with the job's event", async () => {
    const volume = await make({ size: 10 });
    expect(await ok(cloud.api.post(path(volume, "/resize"), { size: 11 }))).toMatchObject({ size: 11, status: "resizing" });
    await reaches(volume, { size: 11, status: "active" });
    expect(await jobs(volume)).toEqual(["volume_create finished", "volume_resize finished"]);
  });

  it.each([19, 20])("refuses %i GB for one of 20, with both sizes in the reason", async (size) => {
    const volume = await make();
    const errors = await refused(cloud.api.post(path(volume, "/resize"), { size }));
    expect(errors).toMatchObject([{ field: "size", reason: expect.stringMatching(new RegExp(`${size} GB.*20 GB`)) }]);
    expect(await read(volume)).toMatchObject({ size: 20, status: "active" });
  });

  it.each([[10_241], ["30"], [null], [undefined]])("refuses %j", async (size) => {
    expect(fieldsOf((await cloud.api.post(path(await make(), "/resize"), { size })).body)).toEqual(["size"]);
  });
});

describe("cloning", () => {
  it("makes a volume of the same size with a copy of the data", async () => {
    const source = await make({ size: 12, tags: ["not copied"] });
    writeFileSync(join(await attached(source, first), "data"), "once");
    const label = freshLabel("clone");
    const clone = await ok(cloud.api.post(path(source, "/clone"), { label }));
    expect(clone).toMatchObject({ label, size: 12, region: "us-east", cloud_id: null, tags: [], status: "creating" });
    await reaches(clone, { status: "active" });
    writeFileSync(join(mountOf(first, source.label), "data"), "changed");
    expect(readFileSync(join(await attached(clone, second), "data"), "utf8")).toBe("once");
    expect(await jobs(source)).toContain("volume_clone notification");
    expect((await jobs(clone))[0]).toBe("volume_create finished");
  });

  it("needs a label of its own", async () => {
    const source = await make();
    expect(await refused(cloud.api.post(path(source, "/clone"), {}))).toMatchObject([{ field: "label" }]);
    expect(await refused(cloud.api.post(path(source, "/clone"), { label: source.label }))).toMatchObject([{ field: "label" }]);
    expect(await refused(cloud.api.post(path(source, "/clone"), { label: "2nd" }))).toMatchObject([{ field: "label" }]);
  });
});

describe("deleting", () => {
  it("is refused while attached, and then takes the data along", async () => {
    const volume = await make();
    await attached(volume, first);
    expect((await refused(cloud.api.del(path(volume))))[0].reason).toContain("detach it first");
    await cloud.api.post(path(volume, "/detach"));
    await reaches(volume, { cloud_id: null });
    expect(await ok(cloud.api.del(path(volume)))).toEqual({});
    await until(async () => (await cloud.api.get(path(volume))).status === 404, { what: "the end of the volume" });
    expect(readdirSync(join(cloud.state, "volumes"))).not.toContain(String(volume.id));
    expect((await jobs(volume)).at(-1)).toBe("volume_delete finished");
    expect((await cloud.api.del(path(volume))).status).toBe(404);
  });

  it("an instance's end detaches its volumes, and they keep their data", async () => {
    const instance = await createInstance(cloud);
    await instanceIn(cloud, instance.id, "running");
    const volume = await make();
    writeFileSync(join(await attached(volume, instance), "kept"), "still here");
    await removeInstance(cloud, instance.id);
    expect(await read(volume)).toMatchObject({ cloud_id: null, cloud_label: null, status: "active", io_ready: false });
    expect(await jobs(volume)).toContain("volume_detach notification");
    expect(readFileSync(join(await attached(volume, first), "kept"), "utf8")).toBe("still here");
  });

  it("what no row explains is removed at the next start, and what is attached is mounted again", async () => {
    const own = await startCloud();
    const made = (
      await own.api.post("/v4/cloud/instances", { region: "us-east", type: "g6-nanode-1", image: "cloud/debian12", root_pass: "Curtain-7-Call" })
    ).body;
    const volume = (await own.api.post("/v4/volumes", { label: "kept", cloud_id: made.id })).body;
    const isReady = (now: TestCloud) => until(async () => (await now.api.get(path(volume))).body.io_ready === true, { what: "a mounted volume" });
    await instanceIn(own, made.id, "running");
    await isReady(own);
    await own.close({ machines: "keep", keepState: true });
    const orphan = join(own.state, "volumes", "77");
    const link = join(own.state, "machines", String(made.id), "mnt", "kept");
    const target = readlinkSync(link);
    mkdirSync(orphan);
    unlinkSync(link);
    const again = await startCloud({ state: own.state });
    try {
      await isReady(again);
      expect(readlinkSync(link)).toBe(target);
      await until(() => !isThere(orphan), { what: "the end of the orphan" });
      expect(isThere(target)).toBe(true);
    } finally {
      await again.close();
    }
  });
});

describe("what is under way takes nothing else", () => {
  it("a volume that is being made may be attached, and nothing else", async () => {
    const label = freshLabel("early");
    const asked = cloud.api.post("/v4/volumes", { label, region: "us-east" });
    const volume = await ok(asked);
    const { status, body } = await cloud.api.post(path(volume, "/attach"), { cloud_id: first.id });
    expect([status, body.cloud_id]).toEqual([200, first.id]);
    await reaches(volume, { io_ready: true, status: "active" });
    await until(async () => (await jobs(volume)).join() === "volume_create finished,volume_attach finished");
  });
});
