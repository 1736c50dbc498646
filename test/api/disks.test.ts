import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Json, startCloud, type TestCloud } from "../support/cloud.js";
import { until } from "../support/until.js";
import { createInstance, eventsOf, fieldsOf, instanceIn, removeInstance } from "./world.js";

let cloud: TestCloud;
beforeAll(async () => {
  cloud = await startCloud();
});
afterAll(() => cloud.close());

const path = (instance: Json, rest = "") => `/v4/cloud/instances/${instance.id}${rest}`;
const list = async (instance: Json, what: "disks" | "configs"): Promise<Json[]> => (await cloud.api.get(path(instance, `/${what}`))).body.data;
const free = (instance: Json, job: () => Promise<Json>): Promise<Json> =>
  until(
    async () => {
      const answer = await job();
      if (answer.status === 200) return answer.body;
      if (answer.body.errors[0].reason === "Instance busy.") return false;
      throw new Error(JSON.stringify(answer.body));
    },
    { what: `a turn on instance ${instance.id}` },
  );
const ready = (instance: Json, disk: Json): Promise<Json> =>
  until(async () => {
    const { body } = await cloud.api.get(path(instance, `/disks/${disk.id}`));
    return body.status === "ready" && body;
  });

describe("what an instance is made with (contract 9.1)", () => {
  it("an image disk as large as the plan allows, a swap disk and a config that boots the one with the other", async () => {
    const instance = await createInstance(cloud, { booted: false });
    await instanceIn(cloud, instance.id, "offline");
    const disks = await list(instance, "disks");
    const stamp = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$/);
    const more = { id: expect.any(Number), status: "ready", created: stamp, updated: stamp, disk_encryption: "disabled" };
    expect(disks).toEqual([
      { ...more, label: "Debian 12 Disk", size: instance.specs.disk - 512, filesystem: "ext4" },
      { ...more, label: "512 MB Swap Image", size: 512, filesystem: "swap" },
    ]);
    const empty = { sdc: null, sdd: null, sde: null, sdf: null, sdg: null, sdh: null };
    expect(await list(instance, "configs")).toEqual([
      {
        id: expect.any(Number),
        label: "My Debian 12 Disk Profile",
        kernel: "cloud/grub2",
        comments: "",
        memory_limit: 0,
        run_level: "default",
        virt_mode: "paravirt",
        helpers: { updatedb_disabled: true, distro: true, modules_dep: true, network: true, devtmpfs_automount: true },
        devices: { sda: { disk_id: disks[0]?.id, volume_id: null }, sdb: { disk_id: disks[1]?.id, volume_id: null }, ...empty },
        root_device: "/dev/sda",
        interfaces: [],
      },
    ]);
    await removeInstance(cloud, instance.id);
    expect((await cloud.api.get(path(instance, "/disks"))).status).toBe(404);
  });

  it.each([
    [0, ["Debian 12 Disk"]],
    [256, ["Debian 12 Disk", "256 MB Swap Image"]],
  ])("with a swap of %i MB", async (swap, labels) => {
    const instance = await createInstance(cloud, { booted: false, swap_size: swap });
    const disks = await list(instance, "disks");
    expect(disks.map((disk) => disk.label)).toEqual(labels);
    expect(disks.reduce((sum, disk) => sum + disk.size, 0)).toBe(instance.specs.disk);
    await removeInstance(cloud, instance.id);
  });

  it("nothing without an image, and swap that does not fit is refused", async () => {
    const { body: bare } = await cloud.api.post("/v4/cloud/instances", { region: "us-east", type: "g6-nanode-1" });
    expect([await list(bare, "disks"), await list(bare, "configs")]).toEqual([[], []]);
    await removeInstance(cloud, bare.id);
    const wanted = { region: "us-east", type: "g6-nanode-1", image: "cloud/debian12", root_pass: "Curtain-7-Call" };
    const { status, body } = await cloud.api.post("/v4/cloud/instances", { ...wanted, swap_size: 25_600 });
    expect([status, fieldsOf(body)]).toEqual([400, ["swap_size"]]);
    expect(fieldsOf((await cloud.api.post("/v4/cloud/instances", { ...wanted, boot_size: 25_600, kernel: "none", firewall_id: 7 })).body)).toEqual([
      "boot_size",
      "firewall_id",
      "kernel",
    ]);
  });
});

describe("disks (contract 9.6)", () => {
  let instance: Json;
  beforeAll(async () => {
    instance = await createInstance(cloud, { booted: false, boot_size: 2_000 });
    await instanceIn(cloud, instance.id, "offline");
  });
  afterAll(() => removeInstance(cloud, instance.id));

  it("are added, renamed, resized and deleted, each with its event; a second job at once is refused as busy", async () => {
    const made = await cloud.api.post(path(instance, "/disks"), { size: 1_000, filesystem: "raw" });
    expect([made.status, made.body.status, made.body.label]).toEqual([200, "not ready", "1000 MB Disk"]);
    const disk = await ready(instance, made.body);
    expect((await cloud.api.put(path(instance, `/disks/${disk.id}`), { label: "data" })).body).toMatchObject({ label: "data", size: 1_000 });
    await free(instance, () => cloud.api.post(path(instance, `/disks/${disk.id}/resize`), { size: 1_500 }));
    await until(async () => (await ready(instance, disk)).size === 1_500);
    await free(instance, () => cloud.api.del(path(instance, `/disks/${disk.id}`)));
    await until(async () => (await cloud.api.get(path(instance, `/disks/${disk.id}`))).status === 404);
    const told = (await eventsOf(cloud, "instance", instance.id)).filter(({ action }) => action.startsWith("disk_")).reverse();
    expect(told.map(({ action, status, secondary_entity }) => [action, status, secondary_entity.id, secondary_entity.type])).toEqual([
      ["disk_create", "finished", disk.id, "disk"],
      ["disk_update", "notification", disk.id, "disk"],
      ["disk_resize", "finished", disk.id, "disk"],
      ["disk_delete", "finished", disk.id, "disk"],
    ]);
    expect(told[0]?.secondary_entity.url).toBe(path(instance, `/disks/${disk.id}`));
  });

  it("may not be larger than the plan together, nor belong to somebody else", async () => {
    const left = instance.specs.disk - 2_000 - 512;
    const tooLarge = await cloud.api.post(path(instance, "/disks"), { size: left + 1, image: "cloud/none", filesystem: "swap" });
    expect([tooLarge.status, fieldsOf(tooLarge.body)]).toEqual([400, ["filesystem", "image", "root_pass", "size"]]);
    const [root] = await list(instance, "disks");
    expect((await cloud.api.post(path(instance, `/disks/${root?.id}/resize`), { size: left + 2_001 })).status).toBe(400);
    const other = await createInstance(cloud, { booted: false });
    expect((await cloud.api.get(path(other, `/disks/${root?.id}`))).status).toBe(404);
    await removeInstance(cloud, other.id);
  });
});

describe("which config boots (contract 9.4, 9.5)", () => {
  it("the given one; else the only one; else the last booted; else none", async () => {
    const instance = await createInstance(cloud, { booted: false, boot_size: 2_000 });
    await instanceIn(cloud, instance.id, "offline");
    const [first] = await list(instance, "configs");
    const [root, swap] = await list(instance, "disks");
    const add = async (body: object): Promise<Json> => (await cloud.api.post(path(instance, "/configs"), body)).body;
    const broken = await add({ label: "swap only", devices: { sda: { disk_id: swap?.id } }, root_device: "no device", helpers: { distro: false } });
    expect(broken).toMatchObject({ root_device: "/dev/sda", kernel: "cloud/latest-64bit", helpers: { distro: false, network: true } });
    const refused = await cloud.api.post(path(instance, "/boot"), { config_id: broken.id });
    expect([refused.status, refused.body.errors[0].reason]).toEqual([400, expect.stringContaining("holds no system")]);
    expect(fieldsOf((await cloud.api.post(path(instance, "/boot"), { config_id: 99_999 })).body)).toEqual(["config_id"]);

    await cloud.api.del(path(instance, `/configs/${first?.id}`));
    const a = await add({ label: "a", devices: { sdb: { disk_id: root?.id, volume_id: null } }, root_device: "/dev/sdb" });
    const unclear = await cloud.api.post(path(instance, "/boot"), {});
    expect([unclear.status, unclear.body.errors[0].reason]).toEqual([400, expect.stringContaining("several configs")]);
    expect((await cloud.api.post(path(instance, "/boot"), { config_id: a.id })).status).toBe(200);
    await instanceIn(cloud, instance.id, "running");
    expect((await cloud.api.post(path(instance, "/reboot"), {})).status).toBe(200);
    await instanceIn(cloud, instance.id, "running");
    const [reboot] = await eventsOf(cloud, "instance", instance.id, { action: "instance_reboot" });
    expect(reboot).toMatchObject({ secondary_entity: { id: a.id, label: "a", type: "instance_config", url: path(instance, `/configs/${a.id}`) } });
    await removeInstance(cloud, instance.id);
  });

  it("refuses devices that are not the instance's, all at once", async () => {
    const instance = await createInstance(cloud, { booted: false });
    const { status, body } = await cloud.api.post(path(instance, "/configs"), {
      devices: { sda: { disk_id: 99_999 }, sdb: { volume_id: 99_999 }, sdc: null },
      kernel: "cloud/none",
    });
    expect([status, fieldsOf(body)]).toEqual([400, ["devices.sda", "devices.sdb", "kernel", "label"]]);
    await removeInstance(cloud, instance.id);
  });
});
