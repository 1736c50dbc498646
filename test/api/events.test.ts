import { rmSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { kinds } from "#backlot/resources/cloud.js";
import { moveEvent, recordEvent } from "#backlot/resources/events/event.js";
import { migrations, schemaVersion } from "#backlot/resources/migrations.js";
import { tokenHash } from "#backlot/resources/tokens/token.js";
import { openStore } from "#backlot/store/open-store.js";
import { type Json, send, startCloud, type TestCloud, testConfig } from "../support/cloud.js";
import { until } from "../support/until.js";
import {
  configPath,
  createBalancer,
  createConfig,
  createInstance,
  createNode,
  events,
  eventsOf,
  instanceIn,
  nodePath,
  removeInstance,
  unheldAddress,
} from "./world.js";

let cloud: TestCloud;
beforeAll(async () => {
  cloud = await startCloud();
});
afterAll(() => cloud.close());

const newest = async (): Promise<number> => (await events(cloud))[0]?.id ?? 0;

describe("events (contract 15)", () => {
  it("every change has one, and it is there before the answer", async () => {
    const balancer = { body: await createBalancer(cloud) };
    let config: Json;
    let node: Json;
    let instance: Json;
    const steps: Array<[string, () => Promise<unknown>]> = [
      ["balancer_update", () => cloud.api.put(`/v4/balancers/${balancer.body.id}`, { tags: ["new"] })],
      ["balancer_config_create", async () => (config = await createConfig(cloud, balancer.body.id))],
      ["balancer_config_update", () => cloud.api.put(configPath(config), { label: "new" })],
      ["balancer_node_create", async () => (node = await createNode(cloud, config, `${unheldAddress(cloud)}:80`))],
      ["balancer_node_update", () => cloud.api.put(nodePath(node), { weight: 9 })],
      ["balancer_node_delete", () => cloud.api.del(nodePath(node))],
      ["balancer_config_delete", () => cloud.api.del(configPath(config))],
      ["balancer_delete", () => cloud.api.del(`/v4/balancers/${balancer.body.id}`)],
      ["instance_create", async () => (instance = await createInstance(cloud, { booted: false }))],
      ["instance_addip", () => cloud.api.post("/v4/networking/ips", { type: "ipv4", public: false, cloud_id: instance.id })],
      ["instance_update", () => cloud.api.put(`/v4/cloud/instances/${instance.id}`, { tags: ["new"] })],
      ["instance_boot", () => cloud.api.post(`/v4/cloud/instances/${instance.id}/boot`, {})],
      [
        "instance_reboot",
        async () => (await instanceIn(cloud, instance.id, "running")) && cloud.api.post(`/v4/cloud/instances/${instance.id}/reboot`, {}),
      ],
      [
        "instance_shutdown",
        async () => (await instanceIn(cloud, instance.id, "running")) && cloud.api.post(`/v4/cloud/instances/${instance.id}/shutdown`, {}),
      ],
      ["instance_delete", () => cloud.api.del(`/v4/cloud/instances/${instance.id}`)],
    ];
    for (const [action, act] of steps) {
      const before = await newest();
      await act();
      const fresh = (await events(cloud)).filter((event) => event.id > before);
      expect(
        fresh.map((event) => event.action),
        action,
      ).toEqual([action]);
      expect(fresh[0].username).toBe("backlot");
    }
  });

  it("a job's event lives from scheduled to finished, with its times", async () => {
    const made = await createInstance(cloud);
    const [first] = (await eventsOf(cloud, "instance", made.id)).slice(-1);
    expect(first).toEqual({
      id: expect.any(Number),
      action: "instance_create",
      created: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$/),
      duration: first.status === "scheduled" ? null : expect.any(Number),
      entity: { id: made.id, label: made.label, type: "instance", url: `/v4/cloud/instances/${made.id}` },
      secondary_entity: { id: "cloud/debian12", label: expect.any(String), type: "image", url: "/v4/images/cloud/debian12" },
      percent_complete: { scheduled: 0, started: 50, finished: 100 }[first.status as string],
      rate: null,
      read: false,
      seen: false,
      status: expect.stringMatching(/^(scheduled|started|finished)$/),
      time_remaining: first.status === "finished" ? 0 : null,
      username: "backlot",
      message: "",
    });
    await instanceIn(cloud, made.id, "running");
    const seen = new Set<string>();
    await cloud.api.post(`/v4/cloud/instances/${made.id}/reboot`, {});
    const ended = await until(async () => {
      const [event] = await eventsOf(cloud, "instance", made.id, { action: "instance_reboot" });
      seen.add(`${event.status} ${event.percent_complete}`);
      return event.status === "finished" && event;
    });
    expect(["scheduled 0", "started 50", "finished 100"]).toEqual(expect.arrayContaining([...seen]));
    expect(seen.size).toBeGreaterThan(1);
    expect(ended).toMatchObject({ percent_complete: 100, time_remaining: 0 });
    expect(ended.duration).toBeGreaterThan(0);
    expect((await cloud.api.get(`/v4/account/events/${ended.id}`)).body).toEqual(ended);
    await removeInstance(cloud, made.id);
    const url = (await eventsOf(cloud, "instance", made.id, { action: "instance_delete" }))[0].entity.url;
    expect((await cloud.api.get(url)).status).toBe(404);
  });

  it("instant actions are notifications without percent and duration", async () => {
    const balancer = await createBalancer(cloud);
    const [event] = await eventsOf(cloud, "balancer", balancer.id);
    expect(event).toMatchObject({
      status: "notification",
      percent_complete: null,
      duration: null,
      time_remaining: null,
      secondary_entity: null,
      entity: { url: `/v4/balancers/${balancer.id}` },
    });
    expect((await cloud.api.get(event.entity.url)).body).toEqual(balancer);
  });

  it("the filters that clients poll with find the one event", async () => {
    const since = new Date(Math.floor(Date.now() / 1000) * 1000).toISOString().slice(0, 19);
    const before = await newest();
    const made = await createInstance(cloud, { booted: false });
    const filter = {
      action: "instance_create",
      created: { "+gte": since },
      "entity.id": made.id,
      "entity.type": "instance",
      id: { "+gte": before },
      "+order_by": "created",
      "+order": "desc",
    };
    const found = await events(cloud, filter);
    expect(found.map((event) => [event.action, event.entity.id])).toEqual([["instance_create", made.id]]);
    expect(await events(cloud, { ...filter, created: { "+gte": "2999-01-01T00:00:00" } })).toEqual([]);
    expect(await events(cloud, { ...filter, "entity.type": "balancer" })).toEqual([]);
    const pending = await events(cloud, { "entity.id": made.id, "entity.type": "instance", "+order_by": "created", "+order": "desc" });
    expect(pending.every((event) => ["scheduled", "started", "finished", "notification"].includes(event.status))).toBe(true);
    await instanceIn(cloud, made.id, "offline");
    expect(await events(cloud, { status: "finished", "entity.id": made.id, "entity.type": "instance" })).toHaveLength(1);
  });

  it("come newest first, in pages", async () => {
    const { body } = await cloud.api.get("/v4/account/events?page_size=3");
    const ids = body.data.map((event: Json) => event.id);
    expect(ids).toEqual([...ids].sort((a, b) => b - a));
    expect(body.data).toHaveLength(3);
    expect((await cloud.api.get("/v4/account/events/999999")).status).toBe(404);
  });

  it("a refused change has none", async () => {
    const before = await newest();
    await cloud.api.post("/v4/balancers", { label: "x" });
    await cloud.api.del("/v4/balancers/999");
    await cloud.api.post("/v4/cloud/instances", { region: "nowhere" });
    expect(await newest()).toBe(before);
  });
});

describe("a job whose instance is deleted under it", () => {
  it("has ended for good, so that nobody waits for it", async () => {
    const made: Json[] = [];
    for (let round = 0; round < 12; round += 1) {
      const instance = await createInstance(cloud);
      made.push(instance);
      expect((await cloud.api.del(`/v4/cloud/instances/${instance.id}`)).status).toBe(200);
    }
    for (const { id } of made) {
      await until(async () => (await cloud.api.get(`/v4/cloud/instances/${id}`)).status === 404, { what: `instance ${id} gone` });
      const open = (await eventsOf(cloud, "instance", id)).filter(({ status }) => status === "scheduled" || status === "started");
      expect(open).toEqual([]);
    }
  });

  it("is not begun again by a loop that comes too late", async () => {
    const { state } = await testConfig();
    const store = await openStore<Json>({ folder: state, kinds: kinds as never, schemaVersion, migrations, onProblem: () => undefined });
    const ground = { clock: { now: () => 1_000 } } as never;
    const id = await store.commit((tx: Json) => recordEvent(tx, ground, { action: "instance_boot", entity: null, status: "scheduled" }));
    await store.commit((tx: Json) => moveEvent(tx, ground, id, "failed", "The instance was deleted before this was done."));
    for (const late of ["started", "finished"] as const) {
      await store.commit((tx: Json) => moveEvent(tx, ground, id, late));
      expect(store.get("event", id)).toMatchObject({ status: "failed", endedMs: 1_000 });
    }
    await store.close();
    rmSync(state, { recursive: true });
  });
});

/** Rows that no API call makes: written into a state before it is started. */
const prepared = async (write: (tx: Json) => void): Promise<string> => {
  const { state } = await testConfig();
  const store = await openStore<Json>({ folder: state, kinds: kinds as never, schemaVersion, migrations, onProblem: () => undefined });
  await store.commit(write);
  await store.close();
  return state;
};

describe("seen, read and old events (contract 15.1)", () => {
  const dayMs = 24 * 3_600_000;
  const old = (days: number) => ({
    action: "balancer_create",
    createdMs: Date.now() - days * dayMs,
    startedMs: null,
    endedMs: null,
    status: "notification",
    username: null,
    entity: { kind: "balancer", id: 1, label: "old" },
    secondary: null,
    message: "",
    read: false,
  });
  const token = "only-events";
  let other: TestCloud;
  beforeAll(async () => {
    const state = await prepared((tx) => {
      for (const days of [91, 89, 1]) tx.insert("event", old(days));
      tx.insert("token", {
        label: "reader",
        hash: tokenHash(token),
        prefix: token,
        scopes: "events:read_only",
        username: "backlot",
        createdMs: 0,
        expiresMs: null,
        fromStart: false,
      });
    });
    other = await startCloud({ state });
  });
  afterAll(() => other.close());
  const read = async (): Promise<Json[]> => (await other.api.get("/v4/account/events")).body.data;

  it("what is older than 90 days is not shown", async () => {
    expect((await read()).map(({ id }) => id)).toEqual([3, 2]);
    expect((await other.api.get("/v4/account/events/1")).status).toBe(404);
    expect((await other.api.post("/v4/account/events/1/seen")).status).toBe(404);
  });

  it("seen marks an event and all before it; read marks one; both stay", async () => {
    const { id } = await createBalancer(other);
    expect((await other.api.post("/v4/account/events/3/seen")).body).toEqual({});
    expect((await other.api.post("/v4/account/events/2/seen")).body).toEqual({});
    expect((await other.api.post("/v4/account/events/2/read")).body).toEqual({});
    const marks = (event: Json) => [event.id, event.seen, event.read];
    const wanted = [
      [4, false, false],
      [3, true, false],
      [2, true, true],
    ];
    expect((await read()).map(marks)).toEqual(wanted);
    const unread = await events(other, { read: false, action: "balancer_create" });
    expect(unread.map((event) => [event.id, event.entity.id])).toEqual([
      [4, id],
      [3, 1],
    ]);
    const { state } = other;
    await other.close({ keepState: true });
    other = await startCloud({ state });
    expect((await read()).map(marks)).toEqual(wanted);
    expect((await other.api.post("/v4/account/events/999/read")).status).toBe(404);
  });

  it("a token that may only read events may mark them", async () => {
    const answer = await send(other.url, "POST", "/v4/account/events/4/seen", { Authorization: `Bearer ${token}` });
    expect([answer.status, answer.headers["x-accepted-oauth-scopes"]]).toEqual([200, "events:read_only"]);
    expect((await read())[0].seen).toBe(true);
    const refused = await send(other.url, "GET", "/v4/account", { Authorization: `Bearer ${token}` });
    expect([refused.status, refused.headers["x-accepted-oauth-scopes"]]).toEqual([401, "account:read_only"]);
  });

  it("entity.id needs entity.type beside it, and what is no field is refused", async () => {
    for (const filter of [{ "entity.id": 1 }, { seen: true }, { percent_complete: 100 }]) {
      const { status, body } = await other.api.get("/v4/account/events", { "X-Filter": JSON.stringify(filter) });
      expect([status, body.errors[0].field]).toEqual([400, "X-Filter"]);
    }
  });
});
