import { existsSync, readFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Json, send, startCloud, type TestCloud } from "../support/cloud.js";
import { until } from "../support/until.js";
import { createInstance, eventsOf, fieldsOf, freshLabel, instanceIn, removeInstance, selfNaming } from "./world.js";

let cloud: TestCloud;
let careful: TestCloud;
beforeAll(async () => {
  cloud = await startCloud({ allowHostScripts: true });
});
afterAll(async () => {
  await cloud.close();
  await careful?.close();
});

const scripts = "/v4/cloud/scripts";
const says = (words: string) => `#!/bin/sh\necho "${words}" >"$HOME/said"\necho "${words}"\n`;

const create = async (more: object = {}): Promise<Json> => {
  const wanted = { label: freshLabel("script"), images: ["any/all"], script: says("hello"), ...more };
  const { status, body } = await cloud.api.post(scripts, wanted);
  if (status !== 200) throw new Error(JSON.stringify(body));
  return body;
};
const open = (path: string, base = cloud): Promise<Json> => send(base.url, "GET", path, {});
const idsOf = ({ body }: Json): number[] => body.data.map((entry: Json) => entry.id);

/** What Backlot itself says about an instance, when its deploy script has ended. */
const deployed = (id: number, at = cloud): Promise<Json> =>
  until(
    async () => {
      const { body } = await at.api.get(`/_backlot/instances/${id}`);
      return typeof body.script?.exit_code === "number" && body;
    },
    { what: `the end of the deploy script of ${id}` },
  );

describe("scripts of the account", () => {
  it("are created with what was said and what follows from it", async () => {
    const script = `#!/bin/sh\n# <UDF name="who" label="Who?" default="you" oneof="you,me" />\necho "$who"\n`;
    const made = await create({ label: "Greets", description: "Says a word", rev_note: "first", script });
    expect(made).toMatchObject({
      label: "Greets",
      description: "Says a word",
      rev_note: "first",
      images: ["any/all"],
      is_public: false,
      mine: true,
      username: expect.any(String),
      deployments_total: 0,
      deployments_active: 0,
      script,
      user_defined_fields: [{ name: "who", label: "Who?", default: "you", oneof: "you,me" }],
    });
    expect(made.id).toBeGreaterThan(1000);
    expect((await cloud.api.get(`${scripts}/${made.id}`)).body).toEqual(made);
    const [event] = await eventsOf(cloud, "script", made.id);
    expect(event).toMatchObject({ action: "script_create", status: "notification", entity: { label: "Greets", url: `${scripts}/${made.id}` } });
  });

  it("are listed only with a token, public ones also without", async () => {
    const hidden = await create();
    const shown = await create({ is_public: true });
    const withToken = await cloud.api.get(`${scripts}?page_size=500`);
    expect(idsOf(withToken)).toEqual(expect.arrayContaining([1, 2, 3, hidden.id, shown.id]));
    const without = await open(`${scripts}?page_size=500`);
    expect(idsOf(without)).toEqual(expect.arrayContaining([1, 2, 3, shown.id]));
    expect(idsOf(without)).not.toContain(hidden.id);
    expect(without.body.data.every((entry: Json) => entry.is_public && !entry.mine)).toBe(true);
    expect((await open(`${scripts}/${hidden.id}`)).status).toBe(404);
    expect((await open(`${scripts}/${shown.id}`)).body).toMatchObject({ id: shown.id, mine: false });
  });

  it("are filtered by what the contract names", async () => {
    const one = await create({ label: freshLabel("needle"), rev_note: "sharp" });
    const found = async (filter: object) => idsOf(await cloud.api.get(scripts, { "X-Filter": JSON.stringify(filter) }));
    expect(await found({ label: one.label })).toEqual([one.id]);
    expect(await found({ rev_note: "sharp", mine: true, is_public: false, deployments_total: 0 })).toEqual([one.id]);
    expect(await found({ mine: false })).toEqual([1, 2, 3]);
    expect((await cloud.api.get(scripts, { "X-Filter": '{"script":"x"}' })).status).toBe(400);
  });

  it("are refused with every fault at once", async () => {
    const { status, body } = await cloud.api.post(scripts, { label: "ab", script: "echo hello", images: [], is_public: "yes" });
    expect(status).toBe(400);
    expect(fieldsOf(body)).toEqual(["images", "is_public", "label", "script"]);
    expect(selfNaming(body)).toEqual([]);
    expect(fieldsOf((await cloud.api.post(scripts, {})).body)).toEqual(["images", "label", "script"]);
    const late = await cloud.api.post(scripts, {
      label: "abc",
      script: "#!/bin/sh\n# <UDF name=x>\n# <UDF name='a'>\n",
      images: ["cloud/none", "any/all"],
    });
    expect(fieldsOf(late.body)).toEqual(["images", "script", "script"]);
  });

  it("are updated, revised and made public, each with its event; public stays", async () => {
    const { id } = await create({ label: "Before" });
    const actions = async () => (await eventsOf(cloud, "script", id)).map((event) => event.action).sort();
    expect((await cloud.api.put(`${scripts}/${id}`, { label: "After" })).body).toMatchObject({ label: "After", script: says("hello") });
    expect(await actions()).toEqual(["script_create", "script_update"]);
    expect((await cloud.api.put(`${scripts}/${id}`, { script: says("bye") })).body).toMatchObject({ label: "After", script: says("bye") });
    expect(await actions()).toEqual(["script_create", "script_revise", "script_update"]);
    expect((await cloud.api.put(`${scripts}/${id}`, { is_public: true })).body.is_public).toBe(true);
    expect(await actions()).toEqual(["script_create", "script_publicize", "script_revise", "script_update"]);
    const back = await cloud.api.put(`${scripts}/${id}`, { is_public: false });
    expect([back.status, fieldsOf(back.body)]).toEqual([400, ["is_public"]]);
    expect((await cloud.api.put(`${scripts}/${id}`, { images: [] })).status).toBe(400);
  });

  it("that Backlot ships belong to nobody: 403; what is not there: 404", async () => {
    expect((await cloud.api.put(`${scripts}/1`, { label: "Mine now" })).status).toBe(403);
    expect((await cloud.api.del(`${scripts}/1`)).status).toBe(403);
    expect((await cloud.api.put(`${scripts}/99999`, { label: "Nothing" })).status).toBe(404);
    expect((await cloud.api.del(`${scripts}/99999`)).status).toBe(404);
    expect((await send(cloud.url, "POST", scripts, {}, { label: "abc" })).status).toBe(401);
  });
});

describe("scripts at deploy", () => {
  it("run once with the answers given and the defaults, and the log is there to read", async () => {
    const script = `#!/bin/sh\n# <UDF name="who" label="Who?" />\n# <UDF name="how" label="How?" default="well" />\necho "$who is $how, $stray."\n`;
    const { id: scriptId } = await create({ script });
    const { id } = await createInstance(cloud, { script_id: scriptId, script_data: { who: "Ada", stray: "not asked for" } });
    const seen = await deployed(id);
    expect(seen.script.exit_code).toBe(0);
    expect(seen.boot_log).toContain("Ada is well, .");
    await instanceIn(cloud, id, "running");
    const [event] = await until(async () => {
      const found = await eventsOf(cloud, "instance", id, { action: "script_deploy" });
      return found.length > 0 && found;
    });
    expect(event).toMatchObject({ status: "finished", secondary_entity: { id: scriptId, type: "script" } });
    expect((await cloud.api.get(`${scripts}/${scriptId}`)).body).toMatchObject({ deployments_total: 1, deployments_active: 1 });
    await removeInstance(cloud, id);
    expect((await cloud.api.get(`${scripts}/${scriptId}`)).body).toMatchObject({ deployments_total: 1, deployments_active: 0 });
  });

  it("count for the shipped ones too", async () => {
    const before = (await cloud.api.get(`${scripts}/3`)).body.deployments_total;
    const { id } = await createInstance(cloud, { script_id: 3, booted: false });
    expect((await cloud.api.get(`${scripts}/3`)).body).toMatchObject({ deployments_total: before + 1, deployments_active: 1 });
    await removeInstance(cloud, id);
  });

  it("are judged at create: unknown, deleted, other images, answers missing or not among the choices", async () => {
    const script = `#!/bin/sh\n# <UDF name="a" label="A" />\n# <UDF name="b" label="B" oneof="x,y" />\n# <UDF name="c" label="C" manyof="1,2,3" />\n# <UDF name="h" label="H" header="yes" />\n`;
    const { id: asks } = await create({ script });
    const { id: picky } = await create({ images: ["cloud/debian13"] });
    const { id: gone } = await create();
    await cloud.api.del(`${scripts}/${gone}`);
    const attempt = async (more: object) => {
      const base = { region: "us-east", type: "g6-nanode-1", image: "cloud/debian12", root_pass: "Curtain-7-Call" };
      const { status, body } = await cloud.api.post("/v4/cloud/instances", { ...base, ...more });
      return status === 400 ? fieldsOf(body) : status;
    };
    expect(await attempt({ script_id: asks })).toEqual(["script_data.a", "script_data.b", "script_data.c"]);
    expect(await attempt({ script_id: asks, script_data: { a: "1", b: "z", c: "1,4" } })).toEqual(["script_data.b", "script_data.c"]);
    expect(await attempt({ script_id: asks, script_data: { a: "1", b: "x,y", c: "1" } })).toEqual(["script_data.b"]);
    expect(await attempt({ script_id: picky })).toEqual(["script_id"]);
    expect(await attempt({ script_id: gone })).toEqual(["script_id"]);
    expect(await attempt({ script_id: 99_999 })).toEqual(["script_id"]);
  });

  it("are what they were at create, even when they are revised or deleted before a machine is made anew, also after a restart", async () => {
    const { id: scriptId } = await create({ script: says("first edition") });
    const { id } = await createInstance(cloud, { script_id: scriptId });
    const said = join(cloud.state, "machines", String(id), "root", "said");
    await deployed(id);
    const before = await cloud.api.get(`/_backlot/instances/${id}`);
    await cloud.api.put(`${scripts}/${scriptId}`, { script: says("second edition") });
    await cloud.api.del(`${scripts}/${scriptId}`);
    expect((await cloud.api.get(`${scripts}/${scriptId}`)).status).toBe(404);
    await cloud.close({ machines: "keep", keepState: true });
    cloud = await startCloud({ allowHostScripts: true, state: cloud.state });
    await instanceIn(cloud, id, "running");
    const after = await cloud.api.get(`/_backlot/instances/${id}`);
    expect(after.body.pid).toBe(before.body.pid);
    expect(existsSync(said)).toBe(true);
    expect(after.body.boot_log).toContain("first edition");
    expect(after.body.boot_log).not.toContain("second edition");
    // Lost with its disk, it is made anew from what the row says, not from what the script says now.
    await cloud.api.post(`/_backlot/instances/${id}/kill`);
    await rm(join(cloud.state, "machines", String(id)), { recursive: true });
    expect(await until(() => existsSync(said) && readFileSync(said, "utf8"), { what: "the new disk" })).toBe("first edition\n");
    await deployed(id);
    await removeInstance(cloud, id);
  });

  it("do not run on this host unless that was allowed: the event and the log say why", async () => {
    careful = await startCloud();
    const made = await careful.api.post(scripts, { label: "Host code", images: ["any/all"], script: says("ran on the host") });
    const { id } = await createInstance(careful, { script_id: made.body.id });
    await instanceIn(careful, id, "running");
    expect(await deployed(id, careful)).toMatchObject({ running: true, script: { exit_code: 126 } });
    expect(existsSync(join(careful.state, "machines", String(id), "root", "said"))).toBe(false);
    const [event] = await until(async () => {
      const found = await eventsOf(careful, "instance", id, { action: "script_deploy" });
      return found.length > 0 && found;
    });
    expect(event.status).toBe("failed");
    expect(event.message).toContain("--allow-host-scripts");
    await removeInstance(careful, id);
  });
});
