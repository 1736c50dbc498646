import { Validator } from "@seriousme/openapi-schema-validator";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { routes, shapes } from "#backlot/resources/index.js";
import { type Json, send, startCloud, type TestCloud } from "../support/cloud.js";
import { makeClient, tokensOf } from "../support/oauth.js";
import { accountRecords } from "./account-records.js";
import { configPath, createBalancer, createConfig, createInstance, createNode, instanceIn, nodePath, unheldAddress } from "./world.js";

let cloud: TestCloud;
let document: Json;
beforeAll(async () => {
  cloud = await startCloud();
  document = (await send(cloud.url, "GET", "/v4/openapi.json", {})).body;
});
afterAll(() => cloud.close());

const wire = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

describe("/v4/openapi.json", () => {
  it("is OpenAPI 3.1, says an independent validator", async () => {
    const validator = new Validator();
    const result = await validator.validate(structuredClone(document));
    expect(result.errors).toBeUndefined();
    expect(result.valid).toBe(true);
    expect(validator.version).toBe("3.1");
  });

  it("the validator would say so if it were not", async () => {
    const broken = structuredClone(document);
    delete broken.info;
    expect((await new Validator().validate(broken)).valid).toBe(false);
  });

  it("holds every route that is served, and every route it holds is served", async () => {
    const held = Object.entries(document.paths as Json).flatMap(([path, item]) =>
      Object.keys(item as Json).map((verb) => `${verb.toUpperCase()} ${path}`),
    );
    const served = routes.map((route) => `${route.method} ${route.path.replace(/[:*](\w+)/g, "{$1}")}`);
    expect(held.sort()).toEqual(served.sort());
    for (const entry of held) {
      const [method = "", path = ""] = entry.split(" ");
      const { status, headers } = await send(cloud.url, "OPTIONS", path.replace(/\{\w+\}/g, "1"), {});
      expect(status, entry).toBe(200);
      expect(headers.allow?.split(", "), entry).toContain(method);
    }
  });

  it("every operation has a name of its own, and says whether it needs a token", async () => {
    const operations = Object.values(document.paths as Json).flatMap((item) => Object.values(item as Json)) as Json[];
    const names = operations.map((operation) => operation.operationId);
    expect(new Set(names).size).toBe(names.length);
    for (const [path, item] of Object.entries(document.paths as Json)) {
      for (const [verb, operation] of Object.entries(item as Json) as Array<[string, Json]>) {
        const { status } = await send(cloud.url, verb.toUpperCase(), path.replace(/\{\w+\}/g, "999"), {});
        const open = operation.security?.some((need: object) => Object.keys(need).length === 0) === true;
        expect(status === 401, `${verb} ${path}`).toBe(!open);
      }
    }
  });
});

describe("what is shown has exactly the members of its field table", () => {
  /** One live record of each shape. */
  const records = async (): Promise<Record<string, Json>> => {
    const balancer = await createBalancer(cloud);
    const config = await createConfig(cloud, balancer.id);
    const node = await createNode(cloud, config, `${unheldAddress(cloud)}:80`);
    const instance = await createInstance(cloud, { booted: false, backups_enabled: true });
    await instanceIn(cloud, instance.id, "offline");
    const zone = (await cloud.api.post("/v4/domains", { domain: "stage.example.com", type: "master", soa_email: "props@example.com" })).body;
    const client = await makeClient(cloud);
    await tokensOf(cloud, client, { username: "backlot", password: cloud.token });
    const key = { label: "mine", ssh_key: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBacklotBacklotBacklotBacklotBacklotBackl0t" };
    const get = async (path: string) => (await cloud.api.get(path)).body;
    const first = async (path: string) => (await get(`${path}?page_size=1`)).data[0];
    return {
      Balancer: await get(`/v4/balancers/${balancer.id}`),
      Config: await get(configPath(config)),
      Node: await get(nodePath(node)),
      Instance: await get(`/v4/cloud/instances/${instance.id}`),
      Backup: (await cloud.api.post(`/v4/cloud/instances/${instance.id}/backups`, { label: "shape" })).body,
      Backups: await get(`/v4/cloud/instances/${instance.id}/backups`),
      Disk: await first(`/v4/cloud/instances/${instance.id}/disks`),
      InstanceConfig: await first(`/v4/cloud/instances/${instance.id}/configs`),
      Address: await get(`/v4/networking/ips/${instance.ipv4[0]}`),
      InstanceAddresses: await get(`/v4/cloud/instances/${instance.id}/ips`),
      Domain: await get(`/v4/domains/${zone.id}`),
      Record: (await cloud.api.post(`/v4/domains/${zone.id}/records`, { type: "A", name: "www", target: "192.0.2.1" })).body,
      Event: await first("/v4/account/events"),
      User: await first("/v4/account/users"),
      Login: await first("/v4/account/logins"),
      Profile: await get("/v4/profile"),
      SshKey: (await cloud.api.post("/v4/profile/sshkeys", key)).body,
      Token: await first("/v4/profile/tokens"),
      OauthClient: await get(`/v4/account/oauth-clients/${client.id}`),
      App: await first("/v4/profile/apps"),
      RegionAvailability: await first("/v4/regions/availability"),
      AccountAvailability: await first("/v4/account/availability"),
      MaintenancePolicy: await first("/v4/maintenance/policies"),
      Region: await first("/v4/regions"),
      Image: await first("/v4/images"),
      Type: await first("/v4/cloud/types"),
      Kernel: await first("/v4/cloud/kernels"),
      Script: await first("/v4/cloud/scripts"),
      ...(await accountRecords(cloud)),
      Volume: (await cloud.api.post("/v4/volumes", { label: "shape", region: "us-east" })).body,
    };
  };

  it("record, table and document agree, name by name", async () => {
    const live = await records();
    expect(Object.keys(live).sort()).toEqual(Object.keys(shapes).sort());
    for (const [name, table] of Object.entries(shapes)) {
      const told = Object.entries(table)
        .filter(([, entry]) => entry.setter !== "secret" || entry.options.redacted)
        .map(([member]) => wire(member))
        .sort();
      expect(Object.keys(live[name]).sort(), name).toEqual(told);
      expect(Object.keys(document.components.schemas[name].properties).sort(), name).toEqual(told);
    }
  });

  it("every entry of a catalogue has the same members", async () => {
    for (const path of ["/v4/regions", "/v4/images", "/v4/cloud/types", "/v4/cloud/kernels", "/v4/cloud/scripts"]) {
      const { data } = (await cloud.api.get(`${path}?page_size=500`)).body;
      expect(new Set(data.map((entry: object) => Object.keys(entry).sort().join())).size, path).toBe(1);
    }
  });

  it("what may be filtered on is what the tables say, list by list", async () => {
    const lists = {
      Balancer: "/v4/balancers",
      Instance: "/v4/cloud/instances",
      Address: "/v4/networking/ips",
      Event: "/v4/account/events",
      User: "/v4/account/users",
      Login: "/v4/account/logins",
      SshKey: "/v4/profile/sshkeys",
      Token: "/v4/profile/tokens",
      OauthClient: "/v4/account/oauth-clients",
      App: "/v4/profile/apps",
      Region: "/v4/regions",
      Image: "/v4/images",
      Type: "/v4/cloud/types",
      Kernel: "/v4/cloud/kernels",
      Script: "/v4/cloud/scripts",
      Price: "/v4/balancers/types",
      Invoice: "/v4/account/invoices",
      Payment: "/v4/account/payments",
      PaymentMethod: "/v4/account/payment-methods",
      Notification: "/v4/account/notifications",
      Tag: "/v4/tags",
    };
    for (const [name, path] of Object.entries(lists)) {
      for (const [member, entry] of Object.entries(shapes[name] ?? {})) {
        const { status } = await cloud.api.get(path, { "X-Filter": JSON.stringify({ [wire(member)]: "x" }) });
        expect(status, `${name}.${member}`).toBe(entry.options.filter ? 200 : 400);
      }
    }
  });
});
