import { existsSync, readFileSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Json, send, startCloud, type TestCloud } from "../support/cloud.js";
import { until } from "../support/until.js";
import { createInstance, eventsOf, fieldsOf, instanceIn, removeInstance } from "./world.js";

let cloud: TestCloud;
let original: Json;
let disk: Json;
const own = "cloud/mine";

beforeAll(async () => {
  cloud = await startCloud({ allowHostScripts: true, images: { [own]: "registry.example/mine:1", "cloud/debian11": "registry.example/mine:2" } });
  const script = '#!/bin/sh\necho "$BACKLOT_INSTANCE" >>"$HOME/ran-on"\n';
  const made = await cloud.api.post("/v4/cloud/scripts", { label: "Marks", images: ["any/all"], script });
  original = await createInstance(cloud, { script_id: made.body.id });
  await instanceIn(cloud, original.id, "running");
  await until(() => existsSync(fileOf(original.id)), { what: "the deploy script's mark" });
  disk = (await cloud.api.get(`/v4/cloud/instances/${original.id}/disks`)).body.data[0];
});
afterAll(() => cloud.close());

const fileOf = (instance: number): string => join(cloud.state, "machines", String(instance), "root", "ran-on");
const folders = (): Promise<string[]> => readdir(join(cloud.state, "images")).catch(() => []);

const imageIn = (id: string, status: string): Promise<Json> =>
  until(
    async () => {
      const { body } = await cloud.api.get(`/v4/images/${id}`);
      return body.status === status && body;
    },
    { what: `${id} that is ${status}` },
  );
const make = async (more: object = {}): Promise<Json> => {
  const { status, body } = await cloud.api.post("/v4/images", { disk_id: disk.id, ...more });
  if (status !== 200) throw new Error(JSON.stringify(body));
  return body;
};

describe("images of the account", () => {
  it("are made from a disk by a job, measured, and real", async () => {
    const made = await make({ label: "Golden one", description: "As it was", tags: ["nightly"], cloud_init: true });
    expect(made).toMatchObject({
      id: expect.stringMatching(/^private\/\d+$/),
      label: "Golden one",
      description: "As it was",
      status: "creating",
      size: 0,
      is_public: false,
      vendor: null,
      type: "manual",
      deprecated: false,
      expiry: null,
      created_by: expect.any(String),
      capabilities: ["cloud-init"],
      tags: ["nightly"],
    });
    const image = await imageIn(made.id, "available");
    expect(image).toMatchObject({ regions: [{ region: "us-east", status: "available" }] });
    expect(image.size).toBeGreaterThan(0);
    const [event] = await eventsOf(cloud, "instance", original.id, { action: "disk_imagize" });
    expect(event).toMatchObject({ status: "finished", percent_complete: 100, secondary_entity: { id: made.id, type: "image", label: "Golden one" } });

    const { id } = await createInstance(cloud, { image: made.id });
    await instanceIn(cloud, id, "running");
    expect(readFileSync(fileOf(id), "utf8")).toBe(`${original.id}\n`);
    expect((await cloud.api.get(`/v4/cloud/instances/${id}`)).body.image).toBe(made.id);
    await removeInstance(cloud, id);
  });

  it("boot with a script of their own beside what was in them", async () => {
    const { id: image } = await make();
    await imageIn(image, "available");
    const made = await cloud.api.post("/v4/cloud/scripts", { label: "Again", images: [image], script: '#!/bin/sh\necho again >>"$HOME/ran-on"\n' });
    expect(made.status).toBe(200);
    const { id } = await createInstance(cloud, { image, script_id: made.body.id });
    expect(await until(() => existsSync(fileOf(id)) && readFileSync(fileOf(id), "utf8").includes("again") && readFileSync(fileOf(id), "utf8"))).toBe(
      `${original.id}\nagain\n`,
    );
    await removeInstance(cloud, id);
  });

  it("are called after their disk when nothing is said, and are updated", async () => {
    const { id, label } = await make();
    expect(label).toBe("Debian 12 Disk");
    const changed = await cloud.api.put(`/v4/images/${encodeURIComponent(id)}`, { label: "Other", description: null, tags: ["abc"] });
    expect(changed.body).toMatchObject({ id, label: "Other", description: "", tags: ["abc"] });
    expect((await eventsOf(cloud, "image", id))[0]).toMatchObject({ action: "image_update", status: "notification" });
    expect(fieldsOf((await cloud.api.put(`/v4/images/${id}`, { label: "no/slash", tags: ["a"] })).body)).toEqual(["label", "tags[0]"]);
  });

  it("are listed with a token only, and filtered by what the contract names", async () => {
    const found = async (filter: object, headers: Record<string, string> = { Authorization: `Bearer ${cloud.token}` }) => {
      const answer = await send(cloud.url, "GET", "/v4/images?page_size=500", { ...headers, "X-Filter": JSON.stringify(filter) });
      expect(answer.status).toBe(200);
      return answer.body.data;
    };
    const mine = await found({ is_public: false });
    expect(mine.length).toBeGreaterThan(1);
    expect(mine.every((entry: Json) => entry.id.startsWith("private/"))).toBe(true);
    expect(await found({ is_public: false }, {})).toEqual([]);
    expect((await found({ vendor: "Debian", deprecated: false })).every((entry: Json) => entry.vendor === "Debian")).toBe(true);
    expect((await found({ label: "Golden one", status: "available", type: "manual" })).length).toBe(1);
    expect((await found({ size: { "+gt": 5000 } })).every((entry: Json) => entry.size > 5000)).toBe(true);
    expect((await send(cloud.url, "GET", `/v4/images/${mine[0].id}`, {})).status).toBe(404);
    expect((await cloud.api.get(`/v4/images/${mine[0].id.replace("/", "%2F")}`)).body).toEqual(mine[0]);
  });

  it("are deleted for good; instances made from them go on", async () => {
    const made = await make();
    await imageIn(made.id, "available");
    const folder = made.id.replace("/", "-");
    expect(await folders()).toContain(folder);
    const { id } = await createInstance(cloud, { image: made.id });
    await instanceIn(cloud, id, "running");
    expect(await cloud.api.del(`/v4/images/${made.id}`)).toMatchObject({ status: 200, body: {} });
    expect((await cloud.api.get(`/v4/images/${made.id}`)).status).toBe(404);
    await until(async () => !(await folders()).includes(folder), { what: "the end of the copy" });
    expect((await eventsOf(cloud, "image", made.id))[0].action).toBe("image_delete");
    expect((await cloud.api.get(`/v4/cloud/instances/${id}`)).body.status).toBe("running");
    const late = await cloud.api.post("/v4/cloud/instances", { region: "us-east", type: "g6-nanode-1", image: made.id, root_pass: "Curtain-7-Call" });
    expect([late.status, fieldsOf(late.body)]).toEqual([400, ["image"]]);
    await removeInstance(cloud, id);
  });

  it("are refused of a disk that nothing was ever booted from, until it was, and of a copy not", async () => {
    const { id } = await createInstance(cloud, { booted: false });
    await instanceIn(cloud, id, "offline");
    const [never] = (await cloud.api.get(`/v4/cloud/instances/${id}/disks`)).body.data;
    const refused = await cloud.api.post("/v4/images", { disk_id: never.id });
    expect([refused.status, refused.body.errors]).toEqual([400, [{ reason: expect.stringContaining("Boot it once"), field: "disk_id" }]]);
    await cloud.api.post(`/v4/cloud/instances/${id}/boot`);
    await instanceIn(cloud, id, "running");
    await imageIn((await make({ disk_id: never.id })).id, "available");
    const { body: clone } = await cloud.api.post(`/v4/cloud/instances/${id}/clone`, { region: "us-east", type: "g6-nanode-1" });
    await instanceIn(cloud, clone.id, "offline");
    const [copied] = (await cloud.api.get(`/v4/cloud/instances/${clone.id}/disks`)).body.data;
    await imageIn((await make({ disk_id: copied.id })).id, "available");
    for (const one of [id, clone.id]) await removeInstance(cloud, one);
  });

  it("are refused for disks that are not there, hold no system, or are busy", async () => {
    expect(fieldsOf((await cloud.api.post("/v4/images", {})).body)).toEqual(["disk_id"]);
    expect(fieldsOf((await cloud.api.post("/v4/images", { disk_id: 99_999, label: "a/b" })).body)).toEqual(["disk_id", "label"]);
    const [, swap] = (await cloud.api.get(`/v4/cloud/instances/${original.id}/disks`)).body.data;
    expect((await cloud.api.post("/v4/images", { disk_id: swap.id })).body.errors[0]).toMatchObject({ field: "disk_id" });
    await cloud.api.post(`/v4/cloud/instances/${original.id}/reboot`);
    expect((await cloud.api.post("/v4/images", { disk_id: disk.id })).body).toEqual({ errors: [{ reason: "Instance busy." }] });
    await instanceIn(cloud, original.id, "running");
  });

  it("that are public belong to nobody: 403; uploads and regions are refused with a reason", async () => {
    expect((await cloud.api.put("/v4/images/cloud/debian12", { label: "Mine" })).status).toBe(403);
    expect((await cloud.api.del("/v4/images/cloud%2Fdebian12")).status).toBe(403);
    expect((await cloud.api.del("/v4/images/private/99999")).status).toBe(404);
    expect((await cloud.api.put("/v4/images/nothing", {})).status).toBe(404);
    expect((await cloud.api.post("/v4/images/upload", { label: "a", region: "us-east" })).body.errors[0].reason).toContain("--image");
    expect((await cloud.api.post("/v4/images/private/1/regions", { regions: ["eu-west"] })).status).toBe(400);
  });

  it("survive a restart, and what nobody knows of is removed at it", async () => {
    const { id } = await make({ label: "Kept" });
    await imageIn(id, "available");
    const gone = await make({ label: "Lost" });
    await imageIn(gone.id, "available");
    const copy = join(cloud.state, "images", gone.id.replace("/", "-"));
    await cloud.close({ machines: "keep", keepState: true });
    const { cp } = await import("node:fs/promises");
    await cp(copy, join(cloud.state, "images", "private-777"), { recursive: true });
    const record = join(cloud.state, "images", "private-777", "image.json");
    const { writeFile } = await import("node:fs/promises");
    await writeFile(record, JSON.stringify({ key: "private/777", sizeMb: 1 }));
    cloud = await startCloud({ ...cloud.config, state: cloud.state });
    await until(async () => !(await folders()).includes("private-777"), { what: "the end of the orphan" });
    expect(await folders()).toContain(id.replace("/", "-"));
    expect((await cloud.api.get(`/v4/images/${id}`)).body).toMatchObject({ label: "Kept", status: "available" });
  });
});

describe("containers of the user's own", () => {
  it("are listed, in the place of a slug that was there", async () => {
    const { body } = await send(cloud.url, "GET", "/v4/images?page_size=500", {});
    const mine = body.data.filter((entry: Json) => entry.vendor === "Own container");
    expect(mine.map((entry: Json) => entry.id)).toEqual([own, "cloud/debian11"]);
    expect(body.data.filter((entry: Json) => entry.id === "cloud/debian11")).toHaveLength(1);
    expect((await cloud.api.get(`/v4/images/${own}`)).body).toMatchObject({
      is_public: true,
      description: expect.stringContaining("registry.example/mine:1"),
    });
  });

  it("take no deploy script, and say why", async () => {
    const body = { region: "us-east", type: "g6-nanode-1", image: own, root_pass: "Curtain-7-Call", script_id: 1 };
    const answer = await cloud.api.post("/v4/cloud/instances", body);
    expect(answer.body.errors).toEqual([{ field: "script_id", reason: expect.stringContaining("own entrypoint") }]);
  });

  it("are not pretended on the process runtime: the boot fails with the reason", async () => {
    const { id } = await createInstance(cloud, { image: own });
    const event = await until(async () => (await eventsOf(cloud, "instance", id, { action: "instance_boot", status: "failed" }))[0]);
    expect(event.message).toMatch(/registry\.example\/mine:1.*--runtime docker/);
    await removeInstance(cloud, id);
  });
});
