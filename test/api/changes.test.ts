import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Json, startCloud, type TestCloud } from "../support/cloud.js";
import { until } from "../support/until.js";
import { createInstance, dial, eventsOf, fieldsOf, instanceIn, isListening, removeInstance } from "./world.js";

let cloud: TestCloud;
beforeAll(async () => {
  cloud = await startCloud();
});
afterAll(() => cloud.close());

const path = (instance: Json, rest = "") => `/v4/cloud/instances/${instance.id}${rest}`;
const post = (instance: Json, verb: string, body: object = {}): Promise<Json> => cloud.api.post(path(instance, `/${verb}`), body);
const read = async (instance: Json, rest = ""): Promise<Json> => (await cloud.api.get(path(instance, rest))).body;
const list = async (instance: Json, what: string): Promise<Json[]> => (await read(instance, `/${what}`)).data;
const real = async (instance: Json): Promise<Json> => (await cloud.api.get(`/_backlot/instances/${instance.id}`)).body;
/** The machine's own disk, behind the API's back. */
const file = (instance: Json, name = "mark"): string => join(cloud.state, "machines", String(instance.id), "root", name);
const leave = (instance: Json, text: string): void => writeFileSync(file(instance), text);
const told = async (instance: Json): Promise<string[]> =>
  (await eventsOf(cloud, "instance", instance.id)).map(({ action, status }) => `${action} ${status}`).reverse();
const running = async (more: object = {}): Promise<Json> => instanceIn(cloud, (await createInstance(cloud, more)).id, "running");
const settled = (instance: Json, action: string): Promise<Json> =>
  until(
    async () => {
      const [event] = await eventsOf(cloud, "instance", instance.id, { action });
      return ["finished", "failed"].includes(event?.status) && event;
    },
    { what: `the end of ${action}` },
  );
const busy = { errors: [{ reason: "Instance busy." }] };

describe("rebuild (contract 9.4)", () => {
  it("makes new disks and configs, wipes what was on them, and boots", async () => {
    const instance = await running();
    leave(instance, "old");
    const [disk] = await list(instance, "disks");
    const { status, body } = await post(instance, "rebuild", { image: "cloud/debian11", root_pass: "Another-1-Secret", swap_size: 256 });
    expect([status, body.status, body.image]).toEqual([200, "rebuilding", "cloud/debian11"]);
    expect((await post(instance, "rebuild", { image: "cloud/debian11", root_pass: "Another-1-Secret" })).body).toEqual(busy);
    await instanceIn(cloud, instance.id, "running");
    expect(existsSync(file(instance))).toBe(false);
    const disks = await list(instance, "disks");
    expect(disks.map(({ label, size }) => [label, size])).toEqual([
      ["Debian 11 Disk", instance.specs.disk - 256],
      ["256 MB Swap Image", 256],
    ]);
    expect(disks.some(({ id }) => id === disk?.id)).toBe(false);
    expect((await list(instance, "configs")).map(({ label }) => label)).toEqual(["My Debian 11 Disk Profile"]);
    expect((await told(instance)).slice(-2)).toEqual(["instance_rebuild finished", "instance_boot finished"]);
    await removeInstance(cloud, instance.id);
  });

  it("leaves it off when it shall not boot, and names every fault at once", async () => {
    const instance = await running();
    const refused = await post(instance, "rebuild", { image: "cloud/none", booted: "no", swap_size: 99_999 });
    expect([refused.status, fieldsOf(refused.body)]).toEqual([400, ["booted", "image", "root_pass", "swap_size"]]);
    expect(fieldsOf((await post(instance, "rebuild", {})).body)).toEqual(["image"]);
    await post(instance, "rebuild", { image: "cloud/debian12", root_pass: "Another-1-Secret", booted: false });
    await instanceIn(cloud, instance.id, "offline");
    expect(await real(instance)).toMatchObject({ running: false, pid: null });
    await post(instance, "boot");
    await instanceIn(cloud, instance.id, "running");
    await removeInstance(cloud, instance.id);
  });
});

describe("resize (contract 9.4)", () => {
  it("cold: another plan after a restart, with the same files and a grown disk", async () => {
    const instance = await running();
    leave(instance, "kept");
    const { pid } = await real(instance);
    expect((await post(instance, "resize", { type: "g6-standard-2" })).status).toBe(200);
    expect((await read(instance)).status).toBe("resizing");
    const after = await instanceIn(cloud, instance.id, "running");
    expect([after.type, readFileSync(file(instance), "utf8")]).toEqual(["g6-standard-2", "kept"]);
    expect((await real(instance)).pid).not.toBe(pid);
    expect((await list(instance, "disks")).map(({ size }) => size)).toEqual([after.specs.disk - 512, 512]);
    expect((await told(instance)).slice(-2)).toEqual(["instance_resize_create notification", "instance_resize finished"]);

    const back = await post(instance, "resize", { type: "g6-nanode-1" });
    expect([back.status, back.body.errors[0].reason]).toEqual([400, expect.stringMatching(/More disk is allocated/)]);
    await removeInstance(cloud, instance.id);
  });

  it("warm: without a restart, and without growing a disk when told so", async () => {
    const instance = await running();
    const { pid } = await real(instance);
    await post(instance, "resize", { type: "g6-standard-1", migration_type: "warm", allow_auto_disk_resize: false });
    expect((await settled(instance, "instance_resize")).status).toBe("finished");
    expect([(await read(instance)).type, (await real(instance)).pid]).toEqual(["g6-standard-1", pid]);
    expect((await list(instance, "disks")).map(({ size }) => size)).toEqual([instance.specs.disk - 512, 512]);
    await removeInstance(cloud, instance.id);
  });

  it("refuses the same plan, an unknown one, and members that are wrong", async () => {
    const instance = await createInstance(cloud, { booted: false });
    await instanceIn(cloud, instance.id, "offline");
    const same = await post(instance, "resize", { type: instance.type });
    expect([same.status, same.body.errors]).toEqual([400, [{ reason: expect.stringContaining("already on this plan") }]]);
    expect(fieldsOf((await post(instance, "resize", { type: "none", migration_type: "hot" })).body)).toEqual(["migration_type", "type"]);
    expect(fieldsOf((await post(instance, "resize", { type: "g6-standard-1", migration_type: "hot" })).body)).toEqual(["migration_type"]);
    await post(instance, "resize", { type: "g6-standard-1" });
    expect((await settled(instance, "instance_resize")).status).toBe("finished");
    expect(await read(instance)).toMatchObject({ status: "offline", type: "g6-standard-1" });
    await removeInstance(cloud, instance.id);
  });

  it("mutate moves from a plan that is no longer sold to its successor", async () => {
    const instance = await createInstance(cloud, { booted: false, type: "g5-standard-1" });
    await instanceIn(cloud, instance.id, "offline");
    expect((await post(instance, "mutate")).status).toBe(200);
    expect((await settled(instance, "instance_mutate")).status).toBe("finished");
    expect((await read(instance)).type).toBe("g6-standard-1");
    expect((await post(instance, "mutate")).status).toBe(400);
    await removeInstance(cloud, instance.id);
  });
});

describe("clone (contract 9.4)", () => {
  it("to a new instance: the files, the disks and a config that boots them", async () => {
    const source = await running({ metadata: { user_data: Buffer.from("for both").toString("base64") } });
    leave(source, "from the source");
    const { status, body: clone } = await post(source, "clone", { region: "us-east", type: "g6-nanode-1", label: "a-clone", private_ip: true });
    expect([status, clone.status, clone.label, clone.ipv4.length, clone.image]).toEqual([200, "cloning", "a-clone", 2, source.image]);
    expect((await post(source, "reboot")).body).toEqual(busy);
    await instanceIn(cloud, clone.id, "offline");
    await instanceIn(cloud, source.id, "running");
    const [event] = await eventsOf(cloud, "instance", source.id, { action: "instance_clone" });
    expect(event).toMatchObject({ status: "finished", secondary_entity: { id: clone.id, type: "instance" } });
    await removeInstance(cloud, source.id);

    expect((await list(clone, "disks")).map(({ label, status: state }) => [label, state])).toEqual([
      ["Debian 12 Disk", "ready"],
      ["512 MB Swap Image", "ready"],
    ]);
    expect((await post(clone, "boot")).status).toBe(200);
    await instanceIn(cloud, clone.id, "running");
    expect(readFileSync(file(clone), "utf8")).toBe("from the source");
    expect(readFileSync(join(cloud.state, "machines", String(clone.id), "user-data"), "utf8")).toBe("for both");
    expect((await read(clone)).has_user_data).toBe(true);
    await removeInstance(cloud, clone.id);
    expect(existsSync(file(clone))).toBe(false);
  });

  it("of one that was never booted: the copy is deployed as the source would be", async () => {
    const source = await createInstance(cloud, { booted: false, script_id: 1, script_data: {} });
    await instanceIn(cloud, source.id, "offline");
    const { body: clone } = await post(source, "clone", { region: "us-east", type: "g6-nanode-1", private_ip: true });
    await instanceIn(cloud, clone.id, "offline");
    await post(clone, "boot");
    await instanceIn(cloud, clone.id, "running");
    const place = await dial(cloud, clone.ipv4[1], 8000);
    await until(() => isListening(place), { what: "the clone's page" });
    for (const each of [source, clone]) await removeInstance(cloud, each.id);
  });

  it("to another instance: chosen disks are added, and one of them boots there", async () => {
    const source = await running();
    leave(source, "travelled");
    const target = await createInstance(cloud, { booted: false, type: "g6-standard-2", boot_size: 5_000 });
    await instanceIn(cloud, target.id, "offline");
    const [disk] = await list(source, "disks");
    const { body } = await post(source, "clone", { cloud_id: target.id, disks: [disk?.id] });
    expect([body.id, body.status]).toEqual([target.id, "cloning"]);
    expect((await cloud.api.del(path(target))).status).toBe(400);
    await instanceIn(cloud, target.id, "offline");
    const added = (await list(target, "disks"))[2];
    expect(added).toMatchObject({ label: disk?.label, size: disk?.size, status: "ready" });
    const { body: config } = await post(target, "configs", { label: "travelled", devices: { sda: { disk_id: added?.id } } });
    await post(target, "boot", { config_id: config.id });
    await instanceIn(cloud, target.id, "running");
    expect(readFileSync(file(target), "utf8")).toBe("travelled");
    // The disk it was made with is as it was: never booted, and still there to be.
    const [own] = await list(target, "configs");
    await until(async () => (await post(target, "reboot", { config_id: own?.id })).status === 200);
    await instanceIn(cloud, target.id, "running");
    expect(existsSync(file(target))).toBe(false);
    await until(async () => (await post(target, "reboot", { config_id: config.id })).status === 200);
    await instanceIn(cloud, target.id, "running");
    expect(readFileSync(file(target), "utf8")).toBe("travelled");
    for (const each of [source, target]) await removeInstance(cloud, each.id);
  });

  it("refuses what does not fit, is not there, or is not said", async () => {
    const source = await createInstance(cloud, { booted: false, type: "g6-standard-2" });
    await instanceIn(cloud, source.id, "offline");
    expect(fieldsOf((await post(source, "clone")).body)).toEqual(["region", "type"]);
    const wrong = { cloud_id: 99_999, disks: [1, "two"], configs: [99_999] };
    expect(fieldsOf((await post(source, "clone", wrong)).body)).toEqual(["cloud_id", "configs[0]", "disks[1]"]);
    const small = await post(source, "clone", { region: "us-east", type: "g6-nanode-1" });
    expect([small.status, small.body.errors[0].reason]).toEqual([400, expect.stringContaining("The disks take")]);
    expect((await post(source, "clone", { cloud_id: source.id })).status).toBe(400);
    await removeInstance(cloud, source.id);
  });
});

describe("disks that are copied and dropped", () => {
  it("a copy of a disk boots with its files, and a deleted one is gone", async () => {
    const instance = await running({ boot_size: 5_000 });
    leave(instance, "twice");
    const [disk] = await list(instance, "disks");
    expect((await cloud.api.del(path(instance, `/disks/${disk?.id}`))).body.errors[0].reason).toMatch(/in use/);
    const { body: copy } = await post(instance, `disks/${disk?.id}/clone`);
    expect(copy).toMatchObject({ label: "Copy of Debian 12 Disk", status: "not ready", size: 5_000 });
    expect((await settled(instance, "disk_duplicate")).status).toBe("finished");
    writeFileSync(file(instance), "changed since");
    const { body: config } = await post(instance, "configs", { label: "copy", devices: { sda: { disk_id: copy.id } } });
    await post(instance, "reboot", { config_id: config.id });
    await instanceIn(cloud, instance.id, "running");
    expect(readFileSync(file(instance), "utf8")).toBe("twice");
    expect((await cloud.api.del(path(instance, `/disks/${disk?.id}`))).status).toBe(200);
    expect((await settled(instance, "disk_delete")).status).toBe("finished");
    expect((await list(instance, "disks")).map(({ id }) => id)).not.toContain(disk?.id);
    await removeInstance(cloud, instance.id);
  });
});

describe("rescue and password (contract 9.4)", () => {
  it("rescue boots without services, and the next boot ends it", async () => {
    const instance = await running({ script_id: 1, script_data: {}, private_ip: true });
    const place = await dial(cloud, instance.ipv4[1], 8000);
    await until(() => isListening(place), { what: "the page" });
    expect(fieldsOf((await post(instance, "rescue", { devices: { sda: { disk_id: 99_999 } } })).body)).toEqual(["devices.sda"]);
    expect((await post(instance, "rescue", {})).status).toBe(200);
    await instanceIn(cloud, instance.id, "running");
    await until(
      async () => (await real(instance)).bootLog?.includes("to be repaired") || (await real(instance)).boot_log?.includes("to be repaired"),
    );
    expect(await isListening(place)).toBe(false);
    await post(instance, "reboot");
    await instanceIn(cloud, instance.id, "running");
    await until(() => isListening(place), { what: "the page again" });
    await removeInstance(cloud, instance.id);
  });

  it("rescue takes the devices sda to sdg, checks each, and keeps sdh for itself", async () => {
    const instance = await running();
    const [disk, swap] = await list(instance, "disks");
    const { body: free } = await cloud.api.post("/v4/volumes", { label: "free-one", region: "us-east", size: 10 });
    const rescue = (devices: object) => post(instance, "rescue", { devices });
    expect((await rescue({ sdh: { disk_id: disk?.id } })).body.errors).toEqual([
      { reason: "This slot is the rescue system's own.", field: "devices.sdh" },
    ]);
    const { status, body } = await rescue({ sda: { volume_id: free.id }, sdb: { volume_id: 99_999 }, sdc: { disk_id: 99_999 }, sdd: null });
    expect([status, fieldsOf(body)]).toEqual([400, ["devices.sda", "devices.sdb", "devices.sdc"]]);
    expect(fieldsOf((await rescue({ sda: { disk_id: disk?.id, volume_id: free.id }, sdb: {} })).body)).toEqual(["devices.sda", "devices.sdb"]);
    expect((await rescue({ sda: { disk_id: swap?.id }, sdb: { disk_id: disk?.id, volume_id: null }, sdh: null })).status).toBe(200);
    await until(async () => (await real(instance)).boot_log?.includes("to be repaired"));
    await removeInstance(cloud, instance.id);
  });

  it("a password is set on an instance that is off, and on no other", async () => {
    const instance = await running();
    const refused = await post(instance, "password", { root_pass: "Brand-New-1" });
    expect([refused.status, refused.body.errors[0].reason]).toEqual([400, expect.stringContaining("running")]);
    expect(fieldsOf((await post(instance, "password", { root_pass: "Ab1" })).body)).toEqual(["root_pass"]);
    await post(instance, "shutdown");
    await instanceIn(cloud, instance.id, "offline");
    expect((await post(instance, "password", { root_pass: "Brand-New-1" })).status).toBe(200);
    expect(await settled(instance, "password_reset")).toMatchObject({ status: "finished", secondary_entity: { type: "disk" } });
    const [disk] = await list(instance, "disks");
    await until(async () => (await post(instance, `disks/${disk?.id}/password`, { password: "Brand-New-2" })).status === 200);
    await removeInstance(cloud, instance.id);
  });
});

describe("what a change of words does to a machine", () => {
  it("a new label or tag leaves the machine alone", async () => {
    const instance = await running();
    const { pid } = await real(instance);
    await cloud.api.put(path(instance), { label: "renamed", tags: ["other"] });
    expect([(await read(instance)).status, (await real(instance)).pid]).toEqual(["running", pid]);
    expect((await told(instance)).slice(-1)).toEqual(["instance_update notification"]);
    await removeInstance(cloud, instance.id);
  });
});

describe("migrate (contract 9.4)", () => {
  it("moves to another region: the same files, new addresses, the old ones free", async () => {
    const instance = await running({ private_ip: true });
    leave(instance, "moved along");
    expect(fieldsOf((await post(instance, "migrate")).body)).toEqual(["region"]);
    expect(fieldsOf((await post(instance, "migrate", { region: "us-east" })).body)).toEqual(["region"]);
    expect((await post(instance, "migrate", { region: "eu-west" })).status).toBe(200);
    const after = await instanceIn(cloud, instance.id, "running");
    expect([after.region, readFileSync(file(instance), "utf8")]).toEqual(["eu-west", "moved along"]);
    expect(after.ipv4.filter((address: string) => instance.ipv4.includes(address))).toEqual([]);
    expect((await real(instance)).addresses).toEqual(after.ipv4);
    for (const address of instance.ipv4) expect((await cloud.api.get(`/v4/networking/ips/${address}`)).status).toBe(404);
    await removeInstance(cloud, instance.id);
  });
});
