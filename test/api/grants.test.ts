import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { selfSignedCertificate } from "#backlot/kernel/certificate.js";
import { type Api, apiOf, type Json, startCloud, type TestCloud } from "../support/cloud.js";
import { makeClient, tokensOf } from "../support/oauth.js";
import { until } from "../support/until.js";
import { call, makeUser, password, pathOf, routeTable } from "./identity.js";
import { createBalancer, createConfig, createInstance, events, eventsOf, fieldsOf, freshLabel, instanceIn } from "./world.js";

let cloud: TestCloud;
let username: string;
/** A restricted user with a full-rights token: only grants stand in the way. */
let api: Api;
const grant = async (grants: Json): Promise<Json> => {
  const { status, body } = await cloud.api.put(`/v4/account/users/${username}/grants`, grants);
  if (status !== 200) throw new Error(JSON.stringify(body));
  return body;
};
const nothing = { account_access: null, add_balancers: false, add_domains: false, add_images: false, add_instances: false, add_scripts: false };
const unauthorized = { errors: [{ reason: "Unauthorized" }] };

beforeAll(async () => {
  cloud = await startCloud();
  ({ username } = await makeUser(cloud));
  const { access_token } = await tokensOf(cloud, await makeClient(cloud), { username, password });
  api = apiOf(cloud.url, access_token);
});
afterAll(() => cloud.close());

/** What grants name one by one, and how a fresh one is made; contract 14.5. */
const makers: Record<string, { collection: string; make: () => Promise<Json> }> = {
  balancer: { collection: "/v4/balancers", make: () => createBalancer(cloud) },
  instance: { collection: "/v4/cloud/instances", make: () => createInstance(cloud, { booted: false }) },
  domain: {
    collection: "/v4/domains",
    make: async () => {
      made += 1;
      return (await cloud.api.post("/v4/domains", { type: "master", domain: `granted-${made}.test`, soa_email: "a@granted.test" })).body;
    },
  },
  script: {
    collection: "/v4/cloud/scripts",
    make: async () => {
      made += 1;
      return (await cloud.api.post("/v4/cloud/scripts", { label: `granted-${made}`, images: ["any/all"], script: "#!/bin/sh\n" })).body;
    },
  },
  volume: {
    collection: "/v4/volumes",
    make: async () => {
      made += 1;
      return (await cloud.api.post("/v4/volumes", { label: `granted-${made}`, size: 10, region: "us-east" })).body;
    },
  },
  image: { collection: "/v4/images", make: async () => (await cloud.api.post("/v4/images", { disk_id: await anyDisk(), label: freshLabel() })).body },
};
let made = 0;
/** Of a machine that ran: there is nothing to copy before. */
const anyDisk = async (): Promise<number> => {
  const { id } = await createInstance(cloud);
  await instanceIn(cloud, id, "running");
  return (await cloud.api.get(`/v4/cloud/instances/${id}/disks`)).body.data[0].id;
};
/** Grants name an image by its number alone. */
const numberOf = ({ id }: Json): number => Number(String(id).replace("private/", ""));

const kindOf = (path: string): string | undefined =>
  Object.entries(makers).find(([, { collection }]) => path === collection || path.startsWith(`${collection}/`))?.[0];
/** The first parameter of a path below a collection names the thing. */
const isOn = (path: string, kind: string): boolean => path.slice(makers[kind]?.collection.length).match(/^\/[:*]/) !== null;
const ofThings = routeTable.filter(({ path }) => {
  const kind = kindOf(path);
  return kind !== undefined && isOn(path, kind);
});
/** Deletes of the thing itself come last: everything else is asked while it is there. */
const inOrder = (routes: typeof ofThings) =>
  routes.toSorted(
    (a, b) =>
      Number(a.method === "DELETE" && !a.path.slice(4).includes("/", 20)) - Number(b.method === "DELETE" && !b.path.slice(4).includes("/", 20)),
  );
const firstName = (path: string): string => /[:*](\w+)/.exec(path)?.[1] ?? "";
const served = (kind: string): boolean => routeTable.some(({ path }) => path === makers[kind]?.collection);
const copies = (path: string): boolean => path.endsWith("/clone");

describe.each(Object.keys(makers).filter(served))("a restricted user and each %s route", (kind) => {
  it("without the grant it is 403, with read_only it can be read, with read_write changed", async () => {
    const thing = await makers[kind]?.make();
    const routes = inOrder(ofThings.filter(({ path }) => kindOf(path) === kind));
    expect(routes.length).toBeGreaterThan(2);
    const ask = ({ method, path }: { method: string; path: string }) => call(api, method, pathOf(path, { [firstName(path)]: thing.id }));

    await grant({ global: nothing, [kind]: [{ id: numberOf(thing), permissions: null }] });
    for (const route of routes) {
      const { status, body } = await ask(route);
      expect(status, route.name).toBe(403);
      expect(body).toEqual(unauthorized);
    }
    await grant({ [kind]: [{ id: numberOf(thing), permissions: "read_only" }] });
    for (const route of routes) {
      const { status } = await ask(route);
      if (route.method === "GET") expect([200, 400, 404], route.name).toContain(status);
      else expect(status, route.name).toBe(403);
    }
    await grant({ [kind]: [{ id: numberOf(thing), permissions: "read_write" }] });
    for (const route of routes) {
      const { status } = await ask(route);
      if (copies(route.path)) expect(status, route.name).toBe(403);
      else expect([200, 400, 404], route.name).toContain(status);
    }
  });

  it("lists hold what was granted, and creating needs its own right", async () => {
    const { collection } = makers[kind] ?? { collection: "" };
    const [shown, hidden] = [await makers[kind]?.make(), await makers[kind]?.make()];
    await grant({ global: nothing, [kind]: [{ id: numberOf(shown), permissions: "read_only" }] });
    const ids = (await api.get(`${collection}?page_size=500`)).body.data.map(({ id }: Json) => id);
    expect(ids).toContain(shown.id);
    expect(ids).not.toContain(hidden.id);
    expect((await cloud.api.get(`${collection}?page_size=500`)).body.data.map(({ id }: Json) => id)).toContain(hidden.id);
    const found = await api.get(collection, { "X-Filter": JSON.stringify({ "+or": [{ label: hidden.label ?? "" }] }) });
    if (kind !== "domain") expect(found.body.results).toBe(0);
    expect((await call(api, "POST", collection)).body).toEqual(unauthorized);
    await grant({ global: { [`add_${kind}s`]: true } });
    expect((await call(api, "POST", collection)).status).toBe(400);
  });

  it("what does not exist is not found, not forbidden", async () => {
    await grant({ global: nothing });
    expect((await api.get(`${makers[kind]?.collection}/999999`)).status).toBe(404);
  });
});

describe("every other route of the table", () => {
  const others = routeTable.filter(({ path }) => kindOf(path) === undefined);
  const isTags = (path: string): boolean => path.startsWith("/v4/tags");
  const isAccount = (path: string): boolean => /^\/v4\/(account|tags)(\/|$)/.test(path) && !path.startsWith("/v4/account/events");

  it.each(others.filter(({ path, scope }) => isAccount(path) && !isTags(path) && scope !== null))(
    "$name wants account_access",
    async ({ method, path }) => {
      await grant({ global: nothing });
      expect((await call(api, method, pathOf(path))).body).toEqual(unauthorized);
      await grant({ global: { account_access: "read_only" } });
      const { status } = await call(api, method, pathOf(path));
      if (method === "GET") expect(status).not.toBe(403);
      else expect(status).toBe(403);
      await grant({ global: { account_access: "read_write" } });
      expect((await call(api, method, pathOf(path))).status).toBeLessThan(500);
    },
  );

  it.each(others.filter(({ path }) => isTags(path)))(
    "$name is for unrestricted users: tags show and change what was not granted",
    async ({ method, path }) => {
      const { id } = await createInstance(cloud, { booted: false, tags: ["kept-apart"] });
      await grant({ global: { account_access: "read_write" } });
      const body = { label: "taken-over", instances: [id] };
      expect((await call(api, method, pathOf(path, { label: "kept-apart" }), body)).body).toEqual(unauthorized);
      expect((await cloud.api.get(`/v4/cloud/instances/${id}`)).body.tags).toEqual(["kept-apart"]);
    },
  );

  it.each(others.filter(({ path }) => path.startsWith("/v4/profile")))("$name is one's own and needs no grant", async ({ method, path }) => {
    await grant({ global: nothing });
    expect((await call(api, method, pathOf(path))).status).not.toBe(403);
  });

  it.each(others.filter(({ path, method }) => method === "GET" && !isAccount(path) && !path.startsWith("/v4/profile")))(
    "$name is everybody's to read",
    async ({ method, path }) => {
      await grant({ global: nothing });
      expect([200, 404]).toContain((await call(api, method, pathOf(path))).status);
    },
  );
});

describe("what a restricted user may not see", () => {
  it("has no name for them: a volume tells the label of its instance to those alone who may read that", async () => {
    const instance = await createInstance(cloud, { booted: false });
    const label = freshLabel();
    const { id } = (await cloud.api.post("/v4/volumes", { label, size: 10, cloud_id: instance.id })).body;
    const told = async (): Promise<unknown[]> => {
      const [listed] = (await api.get("/v4/volumes", { "X-Filter": JSON.stringify({ label }) })).body.data;
      return [(await api.get(`/v4/volumes/${id}`)).body.cloud_label, listed.cloud_label];
    };
    await grant({ volume: [{ id, permissions: "read_only" }] });
    expect(await told()).toEqual([null, null]);
    await grant({ volume: [{ id, permissions: "read_only" }], instance: [{ id: instance.id, permissions: "read_only" }] });
    expect(await told()).toEqual([instance.label, instance.label]);
    expect((await cloud.api.get(`/v4/volumes/${id}`)).body.cloud_label).toBe(instance.label);
  });
});

describe("what a restricted user makes", () => {
  it("is theirs to change and to delete, from the same commit on; nobody else's", async () => {
    const other = await makeUser(cloud);
    await grant({ global: { ...nothing, add_balancers: true } });
    const { body, status } = await api.post("/v4/balancers", { label: "of-my-own", region: "us-east" });
    expect(status).toBe(200);
    const shown = (await api.get("/v4/profile/grants")).body;
    expect(shown.balancer).toContainEqual({ id: body.id, label: "of-my-own", permissions: "read_write" });
    expect((await api.get("/v4/balancers")).body.data.map(({ id }: Json) => id)).toContain(body.id);
    expect((await api.post(`/v4/balancers/${body.id}/configs`, { port: 20_443 })).status).toBe(200);
    const theirs = (await cloud.api.get(`/v4/account/users/${other.username}/grants`)).body;
    expect(theirs.balancer).toContainEqual({ id: body.id, label: "of-my-own", permissions: null });
    expect((await api.del(`/v4/balancers/${body.id}`)).status).toBe(200);
  });
});

describe("what hangs on other things", () => {
  it("addresses follow their instance, in lists and one by one, and so do bodies that name it", async () => {
    const [mine, others] = [await createInstance(cloud, { booted: false }), await createInstance(cloud, { booted: false })];
    await grant({ global: nothing, instance: [{ id: mine.id, permissions: "read_only" }] });
    const addresses = (await api.get("/v4/networking/ips?page_size=500")).body.data.map(({ address }: Json) => address);
    expect(addresses).toContain(mine.ipv4[0]);
    expect(addresses).not.toContain(others.ipv4[0]);
    expect((await api.get(`/v4/networking/ips/${mine.ipv4[0]}`)).status).toBe(200);
    expect((await api.get(`/v4/networking/ips/${others.ipv4[0]}`)).body).toEqual(unauthorized);
    expect((await api.put(`/v4/networking/ips/${mine.ipv4[0]}`, { rdns: null })).body).toEqual(unauthorized);
    const wanted = { type: "ipv4", public: false };
    for (const id of [mine.id, others.id]) {
      expect((await api.post("/v4/networking/ips", { ...wanted, cloud_id: id })).body).toEqual(unauthorized);
      expect((await api.post("/v4/networking/ips", { ...wanted, linode_id: id })).body).toEqual(unauthorized);
    }
    const assignments = [{ address: others.ipv4[0], cloud_id: mine.id }];
    await grant({ instance: [{ id: mine.id, permissions: "read_write" }] });
    expect((await api.post("/v4/networking/ips/assign", { region: "us-east", assignments })).body).toEqual(unauthorized);
    expect((await api.post("/v4/networking/ips", { ...wanted, cloud_id: mine.id })).status).toBe(200);
  });

  it("a backup is its instance's: nobody else makes an instance of what is on its disks", async () => {
    const source = await createInstance(cloud, { backups_enabled: true });
    await instanceIn(cloud, source.id, "running");
    const backup = (await cloud.api.post(`/v4/cloud/instances/${source.id}/backups`, { label: "diary" })).body;
    const one = `/v4/cloud/instances/${source.id}/backups/${backup.id}`;
    await until(async () => (await cloud.api.get(one)).body.status === "successful", { what: "a successful backup" });
    const body = { type: "g6-standard-1", region: "us-east", backup_id: backup.id, booted: false };
    await grant({ global: { ...nothing, add_instances: true } });
    expect((await api.post("/v4/cloud/instances", body)).body).toEqual(unauthorized);
    expect((await api.post("/v4beta/linode/instances", body)).body).toEqual(unauthorized);
    expect(fieldsOf((await api.post("/v4/cloud/instances", { ...body, backup_id: 999_999 })).body)).toEqual(["backup_id"]);
    await grant({ instance: [{ id: source.id, permissions: "read_only" }] });
    expect((await api.post("/v4/cloud/instances", body)).status).toBe(200);
  });

  it("events of things that were not granted are hidden", async () => {
    const balancer = await createBalancer(cloud);
    const config = await createConfig(cloud, balancer.id);
    await grant({ global: nothing });
    const ids = async () => (await api.get("/v4/account/events?page_size=500")).body.data.map(({ id }: Json) => id);
    const [about] = await eventsOf(cloud, "balancer", balancer.id, { action: "balancer_config_create" });
    expect(about, JSON.stringify(config)).toBeDefined();
    expect(await ids()).not.toContain(about.id);
    expect((await api.get(`/v4/account/events/${about.id}`)).body).toEqual(unauthorized);
    await grant({ balancer: [{ id: balancer.id, permissions: "read_only" }] });
    expect(await ids()).toContain(about.id);
    expect((await api.get(`/v4/account/events/${about.id}`)).status).toBe(200);
  });

  it("events about a config follow its balancer", async () => {
    const balancer = await createBalancer(cloud);
    const pair = await selfSignedCertificate({ commonName: "old.test", country: "DE", altNames: [], days: 1, notBeforeMs: Date.UTC(2018, 0) });
    const config = await createConfig(cloud, balancer.id, { protocol: "https", port: 20_447, ssl_cert: pair.cert, ssl_key: pair.key });
    const [warning] = await eventsOf(cloud, "balancer_config", config.id, { action: "balancer_certificate_warning" });
    const ids = async () => (await api.get("/v4/account/events?page_size=500")).body.data.map(({ id }: Json) => id);
    await grant({ global: nothing, balancer: [{ id: balancer.id, permissions: null }] });
    expect(await ids()).not.toContain(warning?.id);
    expect((await api.get(`/v4/account/events/${warning?.id}`)).body).toEqual(unauthorized);
    await grant({ balancer: [{ id: balancer.id, permissions: "read_only" }] });
    expect(await ids()).toContain(warning?.id);
    expect((await api.get(`/v4/account/events/${warning?.id}`)).body.entity).toMatchObject({ id: config.id, type: "balancer_config" });
  });

  it("an event that may be seen names no other thing that may not, one by one and in lists", async () => {
    const instance = await createInstance(cloud, { booted: false, label: freshLabel("secret") });
    await instanceIn(cloud, instance.id, "offline");
    const volume = await makers.volume?.make();
    const attached = await cloud.api.post(`/v4/volumes/${volume.id}/attach`, { cloud_id: instance.id });
    expect(attached.status).toBe(200);
    const [event] = await eventsOf(cloud, "volume", volume.id, { action: "volume_attach" });
    expect(event?.secondary_entity).toMatchObject({ id: instance.id, label: instance.label });
    const both = async (id: number): Promise<Json[]> => [
      (await api.get(`/v4/account/events/${id}`)).body,
      (await api.get("/v4/account/events", { "X-Filter": JSON.stringify({ id }) })).body.data[0],
    ];
    await grant({ global: nothing, volume: [{ id: volume.id, permissions: "read_only" }], instance: [{ id: instance.id, permissions: null }] });
    for (const seen of await both(event?.id)) {
      expect(seen).toMatchObject({ action: "volume_attach", entity: { id: volume.id }, secondary_entity: null });
      expect(JSON.stringify(seen)).not.toContain(instance.label);
    }
    await grant({ instance: [{ id: instance.id, permissions: "read_only" }] });
    for (const seen of await both(event?.id)) expect(seen.secondary_entity.label).toBe(instance.label);
    // Of what everybody may read it is named, and what hangs on a thing follows the thing.
    const [created] = await eventsOf(cloud, "instance", instance.id, { action: "instance_create" });
    for (const seen of await both(created?.id)) expect(seen.secondary_entity.id).toBe("cloud/debian12");
    const disk = (await cloud.api.get(`/v4/cloud/instances/${instance.id}/disks`)).body.data[0];
    expect((await cloud.api.put(`/v4/cloud/instances/${instance.id}/disks/${disk.id}`, { label: "renamed" })).status).toBe(200);
    const [renamed] = await events(cloud, { action: "disk_update", "entity.id": instance.id, "entity.type": "instance" });
    for (const seen of await both(renamed?.id)) expect(seen.secondary_entity).toMatchObject({ id: disk.id, type: "disk" });
    await cloud.api.del(`/v4/cloud/instances/${instance.id}`);
    await grant({ instance: [] });
  });

  it("the machinery beneath is for unrestricted users, whatever the token", async () => {
    const { id } = await createInstance(cloud, { booted: false });
    expect((await api.get("/v4/profile")).headers["x-oauth-scopes"]).toBe("*");
    expect((await api.get(`/_backlot/instances/${id}`)).body).toEqual(unauthorized);
    expect((await api.post(`/_backlot/instances/${id}/kill`)).body).toEqual(unauthorized);
    expect((await api.post("/_backlot/stop")).body).toEqual(unauthorized);
    expect((await cloud.api.get("/_backlot/health")).status).toBe(200);
  });
});

describe("grants themselves (contract 14.5)", () => {
  it("are 204 without a body for an unrestricted user, for others and for oneself", async () => {
    for (const path of ["/v4/account/users/backlot/grants", "/v4/profile/grants"]) {
      const answer = await cloud.api.get(path);
      expect(answer.status).toBe(204);
      expect(answer.body).toBeUndefined();
    }
    expect((await cloud.api.put("/v4/account/users/backlot/grants", { global: { add_volumes: true } })).status).toBe(400);
  });

  it("list everything there is, and change only what is named; a null takes a permission back", async () => {
    const balancer = await createBalancer(cloud);
    const { username: fresh } = await makeUser(cloud);
    const path = `/v4/account/users/${fresh}/grants`;
    const before = (await cloud.api.get(path)).body;
    expect(Object.keys(before).sort()).toEqual(["balancer", "domain", "global", "image", "instance", "script", "volume"]);
    expect(before.balancer).toContainEqual({ id: balancer.id, label: balancer.label, permissions: null });
    expect(before.global).toMatchObject({ account_access: null, add_instances: false, cancel_account: false });
    const wanted = { id: balancer.id, permissions: "read_write" };
    const after = (await cloud.api.put(path, { global: { add_volumes: true, account_access: "read_only" }, balancer: [wanted] })).body;
    expect(after.global).toEqual({ ...before.global, add_volumes: true, account_access: "read_only" });
    expect(after.balancer).toContainEqual({ ...wanted, label: balancer.label });
    expect(after.instance).toEqual(before.instance);
    const back = (await cloud.api.put(path, { balancer: [{ id: balancer.id, permissions: null }], global: { account_access: null } })).body;
    expect(back).toEqual({ ...before, global: { ...before.global, add_volumes: true } });
  });

  it("in the public vendor's words too", async () => {
    const balancer = await createBalancer(cloud);
    const { username: fresh } = await makeUser(cloud);
    const path = `/v4beta/account/users/${fresh}/grants`;
    const answer = await cloud.api.put(path, { global: { add_linodes: true }, nodebalancer: [{ id: balancer.id, permissions: "read_only" }] });
    expect(answer.body.global.add_linodes).toBe(true);
    expect(answer.body.nodebalancer).toContainEqual({ id: balancer.id, label: balancer.label, permissions: "read_only" });
    expect(Object.keys(answer.body).sort()).toEqual(["domain", "global", "image", "linode", "nodebalancer", "stackscript", "volume"]);
  });

  it("every fault at once", async () => {
    const body = {
      global: { add_volumes: "yes", account_access: "all" },
      balancer: [
        { id: 999_999, permissions: "read_only" },
        { id: 1, permissions: "own" },
      ],
    };
    const answer = await cloud.api.put(`/v4/account/users/${username}/grants`, body);
    expect(answer.status).toBe(400);
    expect(fieldsOf(answer.body)).toEqual(expect.arrayContaining(["balancer[1].permissions", "global.account_access", "global.add_volumes"]));
    const unknown = await cloud.api.put(`/v4/account/users/${username}/grants`, { balancer: [{ id: 999_999, permissions: "read_only" }] });
    expect(fieldsOf(unknown.body)).toEqual(["balancer[0].id"]);
  });

  it("nobody restricted raises themselves, even with account_access", async () => {
    await grant({ global: { ...nothing, account_access: "read_write" } });
    expect((await api.put(`/v4/account/users/${username}`, { restricted: false })).body).toEqual(unauthorized);
    expect((await api.put(`/v4/account/users/${username}/grants`, { global: { add_volumes: true } })).body).toEqual(unauthorized);
    expect((await api.post("/v4/account/users", { username: "second-me", email: "me@example.com", restricted: false })).body).toEqual(unauthorized);
    expect((await api.put("/v4/account/users/backlot", { password: "Taken-over-by-me-1" })).body).toEqual(unauthorized);
    expect((await api.del("/v4/account/users/backlot")).body).toEqual(unauthorized);
    expect((await api.post("/v4/account/users", { username: "second-me", email: "me@example.com" })).status).toBe(200);
  });
});
