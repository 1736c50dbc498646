import { existsSync, readFileSync } from "node:fs";
import { readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { dailySlots, slotHour } from "#backlot/reconcile/backup-slots.js";
import { type Json, startCloud, type TestCloud } from "../support/cloud.js";
import { until } from "../support/until.js";
import { createInstance, eventsOf, fieldsOf, instanceIn, removeInstance } from "./world.js";

let cloud: TestCloud;
let source: Json;
beforeAll(async () => {
  cloud = await startCloud();
  source = await createInstance(cloud, { backups_enabled: true });
  await instanceIn(cloud, source.id, "running");
});
afterAll(() => cloud.close());

const path = (id: number): string => `/v4/cloud/instances/${id}`;
const homeOf = (id: number): string => join(cloud.state, "machines", String(id), "root");
const copies = (): Promise<string[]> => readdir(join(cloud.state, "disks")).catch(() => []);

const snapshot = async (id: number, label: string): Promise<Json> => {
  const { status, body } = await cloud.api.post(`${path(id)}/backups`, { label });
  if (status !== 200) throw new Error(JSON.stringify(body));
  return body;
};
const finished = (id: number, backup: number, status = "successful"): Promise<Json> =>
  until(
    async () => {
      const { body } = await cloud.api.get(`${path(id)}/backups/${backup}`);
      return body.status === status && body;
    },
    { what: `backup ${backup} that is ${status}` },
  );

describe("a snapshot", () => {
  it("is a real copy that comes back, on the same instance, which is off then", async () => {
    await writeFile(join(homeOf(source.id), "diary"), "monday");
    const taken = await snapshot(source.id, "Before");
    expect(taken).toMatchObject({
      type: "snapshot",
      label: "Before",
      status: "pending",
      region: "us-east",
      finished: null,
      available: false,
      configs: ["My Debian 12 Disk Profile"],
      disks: [
        { label: "Debian 12 Disk", size: expect.any(Number), filesystem: "ext4" },
        { label: "512 MB Swap Image", size: 512, filesystem: "swap" },
      ],
    });
    const made = await finished(source.id, taken.id);
    expect(made).toMatchObject({ available: true, finished: expect.any(String) });
    expect((await cloud.api.get(`${path(source.id)}/backups`)).body).toEqual({ automatic: [], snapshot: { current: made, in_progress: null } });
    const { backups } = (await cloud.api.get(path(source.id))).body;
    expect(backups).toMatchObject({ enabled: true, available: true, last_successful: made.finished });
    expect((await eventsOf(cloud, "instance", source.id, { action: "instance_snapshot" }))[0]).toMatchObject({ status: "finished" });

    await writeFile(join(homeOf(source.id), "diary"), "tuesday");
    const restored = await cloud.api.post(`${path(source.id)}/backups/${made.id}/restore`, { cloud_id: source.id, overwrite: true });
    expect(restored).toMatchObject({ status: 200, body: {} });
    await until(async () => (await eventsOf(cloud, "instance", source.id, { action: "backups_restore", status: "finished" })).length === 1);
    expect((await cloud.api.get(path(source.id))).body).toMatchObject({ status: "offline", image: "cloud/debian12" });
    await cloud.api.post(`${path(source.id)}/boot`);
    await instanceIn(cloud, source.id, "running");
    expect(readFileSync(join(homeOf(source.id), "diary"), "utf8")).toBe("monday");
    const disks = (await cloud.api.get(`${path(source.id)}/disks`)).body.data;
    expect(disks.map(({ label, status }: Json) => [label, status])).toEqual([
      ["Debian 12 Disk", "ready"],
      ["512 MB Swap Image", "ready"],
    ]);
  });

  it("takes the place of the one before, whose copy goes", async () => {
    const [before] = await copies();
    expect(before).toBeDefined();
    const old = (await cloud.api.get(`${path(source.id)}/backups`)).body.snapshot.current;
    const taken = await snapshot(source.id, "After");
    await finished(source.id, taken.id);
    expect((await cloud.api.get(`${path(source.id)}/backups/${old.id}`)).status).toBe(404);
    await until(async () => !(await copies()).includes(before ?? ""), { what: "the end of the old copy" });
    expect((await cloud.api.get(`${path(source.id)}/backups`)).body.snapshot).toMatchObject({ current: { label: "After" }, in_progress: null });
  });

  it("makes other instances, by restoring and by creating", async () => {
    const { id } = (await cloud.api.get(`${path(source.id)}/backups`)).body.snapshot.current;
    const empty = await createInstance(cloud, { image: null, root_pass: null });
    await instanceIn(cloud, empty.id, "offline");
    expect((await cloud.api.post(`${path(source.id)}/backups/${id}/restore`, { cloud_id: empty.id })).status).toBe(200);
    await until(async () => (await eventsOf(cloud, "instance", empty.id, { action: "backups_restore", status: "finished" })).length === 1);
    await cloud.api.post(`${path(empty.id)}/boot`);
    await instanceIn(cloud, empty.id, "running");
    expect(readFileSync(join(homeOf(empty.id), "diary"), "utf8")).toBe("monday");

    const twin = await createInstance(cloud, { image: null, root_pass: null, backup_id: id });
    expect(twin.image).toBe("cloud/debian12");
    await instanceIn(cloud, twin.id, "running");
    expect(readFileSync(join(homeOf(twin.id), "diary"), "utf8")).toBe("monday");
    await writeFile(join(homeOf(twin.id), "diary"), "of my own");
    expect(readFileSync(join(homeOf(source.id), "diary"), "utf8")).toBe("monday");
    for (const one of [empty, twin]) await removeInstance(cloud, one.id);
  });

  it("is refused while backups are off, without a label, and of nothing", async () => {
    const plain = await createInstance(cloud);
    await instanceIn(cloud, plain.id, "running");
    expect((await cloud.api.post(`${path(plain.id)}/backups`, { label: "x" })).body.errors[0].reason).toContain("not enabled");
    await cloud.api.post(`${path(plain.id)}/backups/enable`);
    expect(fieldsOf((await cloud.api.post(`${path(plain.id)}/backups`, {})).body)).toEqual(["label"]);
    expect(fieldsOf((await cloud.api.post(`${path(plain.id)}/backups`, { label: "" })).body)).toEqual(["label"]);
    await cloud.api.post(`${path(plain.id)}/reboot`);
    expect((await cloud.api.post(`${path(plain.id)}/backups`, { label: "x" })).body.errors).toEqual([{ reason: "Instance busy." }]);
    await instanceIn(cloud, plain.id, "running");
    await removeInstance(cloud, plain.id);
    const bare = await createInstance(cloud, { image: null, root_pass: null, backups_enabled: true });
    await instanceIn(cloud, bare.id, "offline");
    expect((await cloud.api.post(`${path(bare.id)}/backups`, { label: "x" })).body.errors[0].reason).toContain("no disk with a system");
    await removeInstance(cloud, bare.id);
  });

  it("of a disk that was never booted fails in its event", async () => {
    const never = await createInstance(cloud, { booted: false, backups_enabled: true });
    await instanceIn(cloud, never.id, "offline");
    const taken = await snapshot(never.id, "Nothing");
    await finished(never.id, taken.id, "failed");
    const [event] = await eventsOf(cloud, "instance", never.id, { action: "instance_snapshot" });
    expect(event).toMatchObject({ status: "failed", message: expect.stringContaining("Boot it once") });
    expect((await cloud.api.get(`${path(never.id)}/backups`)).body.snapshot).toEqual({ current: null, in_progress: null });
    const late = await cloud.api.post(`${path(never.id)}/backups/${taken.id}/restore`, { cloud_id: never.id, overwrite: true });
    expect(late.body.errors[0].reason).toContain("failed");
    await removeInstance(cloud, never.id);
  });

  it("is not restored where there is no room, no such instance, or another region", async () => {
    const { id } = (await cloud.api.get(`${path(source.id)}/backups`)).body.snapshot.current;
    const attempt = async (body: object) => (await cloud.api.post(`${path(source.id)}/backups/${id}/restore`, body)).body.errors[0];
    expect((await attempt({ cloud_id: source.id })).reason).toContain("not enough free space");
    expect(await attempt({})).toMatchObject({ field: "cloud_id" });
    expect(await attempt({ cloud_id: 99_999 })).toMatchObject({ field: "cloud_id" });
    const far = await createInstance(cloud, { region: "eu-west", image: null, root_pass: null });
    await instanceIn(cloud, far.id, "offline");
    expect(await attempt({ cloud_id: far.id })).toMatchObject({ field: "cloud_id" });
    await removeInstance(cloud, far.id);
    const wrong = { region: "eu-west", type: "g6-nanode-1", image: "cloud/debian12", root_pass: "Curtain-7-Call", backup_id: id };
    expect(fieldsOf((await cloud.api.post("/v4/cloud/instances", wrong)).body)).toEqual(["backup_id", "region"]);
    expect(fieldsOf((await cloud.api.post("/v4/cloud/instances", { region: "us-east", type: "g6-nanode-1", backup_id: 99_999 })).body)).toEqual([
      "backup_id",
    ]);
  });
});

describe("backups", () => {
  it("are cancelled with all there are, and go with their instance", async () => {
    const one = await createInstance(cloud);
    await instanceIn(cloud, one.id, "running");
    await cloud.api.post(`${path(one.id)}/backups/enable`);
    expect((await cloud.api.get(path(one.id))).body.backups.enabled).toBe(true);
    const before = await copies();
    await finished(one.id, (await snapshot(one.id, "One")).id);
    expect((await copies()).length).toBe(before.length + 1);
    expect(await cloud.api.post(`${path(one.id)}/backups/cancel`)).toMatchObject({ status: 200, body: {} });
    await until(async () => (await copies()).length === before.length, { what: "the end of the copy" });
    expect((await cloud.api.get(path(one.id))).body.backups).toMatchObject({ enabled: false, available: false, last_successful: null });
    const actions = (await eventsOf(cloud, "instance", one.id)).map((event) => event.action);
    expect(actions).toEqual(expect.arrayContaining(["backups_enable", "backups_cancel"]));

    await cloud.api.post(`${path(one.id)}/backups/enable`);
    await finished(one.id, (await snapshot(one.id, "Two")).id);
    await removeInstance(cloud, one.id);
    await until(async () => (await copies()).length === before.length, { what: "the end of the copy of a deleted instance" });
  });

  it("are made by themselves, one a simulated day, and only the newest are kept", async () => {
    // A day takes 0.4 s, and a slot is looked at a second after the other at the soonest.
    const fast = await startCloud({ speed: 200_000 });
    try {
      const { id } = await createInstance(fast, { backups_enabled: true });
      await instanceIn(fast, id, "running");
      const automatic = async (): Promise<Json[]> => (await fast.api.get(`${path(id)}/backups`)).body.automatic;
      const seen = new Set<number>();
      await until(
        async () => {
          for (const backup of await automatic()) if (backup.status === "successful") seen.add(backup.id);
          return seen.size >= 4;
        },
        { withinMs: 20_000, what: "a fourth automatic backup" },
      );
      const rows = await until(async () => (await automatic()).length <= 4 && automatic());
      expect(rows[0]).toMatchObject({ type: "auto", label: null });
      expect(rows.some((row) => row.id === Math.min(...seen))).toBe(false);
      expect((await fast.api.get(path(id))).body.backups.available).toBe(true);
    } finally {
      await fast.close();
    }
  });

  it("come at the hours of their schedule: in UTC at speed 1, on simulated days else", () => {
    const at = (text: string): number => Date.parse(`${text}Z`);
    const since = at("2026-03-01T10:30:00");
    expect(dailySlots(since, at("2026-03-02T15:00:00"), slotHour("W14"), 1)).toEqual({
      lastMs: at("2026-03-02T14:00:00"),
      nextMs: at("2026-03-03T14:00:00"),
    });
    expect(dailySlots(since, at("2026-03-02T13:59:59"), slotHour("W14"), 1).lastMs).toBe(at("2026-03-01T14:00:00"));
    // Ten times as fast: 3.5 simulated hours to 14:00 take 21 minutes.
    expect(dailySlots(since, since, 14, 0.1).nextMs).toBe(since + 21 * 60_000);
    expect([slotHour(null), slotHour("Scheduling"), slotHour("W0"), slotHour("W22")]).toEqual([0, 0, 0, 22]);
  });

  it("survive a restart, and a copy that no row names is removed", async () => {
    const { id } = (await cloud.api.get(`${path(source.id)}/backups`)).body.snapshot.current;
    await cloud.close({ machines: "keep", keepState: true });
    const [copy = ""] = await copies();
    const { cp } = await import("node:fs/promises");
    const stray = join(cloud.state, "disks", "0123456789abcdef0123456789abcdef");
    await cp(join(cloud.state, "disks", copy), stray, { recursive: true });
    cloud = await startCloud({ ...cloud.config, state: cloud.state });
    await until(() => !existsSync(stray), { what: "the end of the stray copy" });
    expect((await cloud.api.get(`${path(source.id)}/backups/${id}`)).body).toMatchObject({ status: "successful", available: true });
    expect(existsSync(join(cloud.state, "disks", copy))).toBe(true);
    await rm(join(homeOf(source.id), "diary"));
    await cloud.api.post(`${path(source.id)}/backups/${id}/restore`, { cloud_id: source.id, overwrite: true });
    await until(async () => (await eventsOf(cloud, "instance", source.id, { action: "backups_restore", status: "finished" })).length === 2);
    expect(readFileSync(join(homeOf(source.id), "diary"), "utf8")).toBe("monday");
  });
});
