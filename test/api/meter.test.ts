import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Json, startCloud, type TestCloud } from "../support/cloud.js";
import { until } from "../support/until.js";
import { createBalancer, createConfig, createInstance, createNode, fieldsOf, instanceIn, removeInstance } from "./world.js";

let cloud: TestCloud;
beforeAll(async () => {
  // Five simulated minutes are half a second.
  cloud = await startCloud({ speed: 600 });
});
afterAll(() => cloud.close());

const path = (instance: Json, rest = "") => `/v4/cloud/instances/${instance.id}${rest}`;

describe("statistics and transfer on a runtime that counts no network (contract 9.8)", () => {
  it("are unavailable while young, then measured, and empty where nothing is counted", async () => {
    const instance = await createInstance(cloud, { booted: false });
    const young = await cloud.api.get(path(instance, "/stats"));
    expect([young.status, young.body]).toEqual([400, { errors: [{ reason: "Stats are unavailable at this time." }] }]);
    await until(async () => (await cloud.api.post(path(instance, "/boot"), {})).status === 200);
    const { title, data } = await until(
      async () => {
        const { status, body } = await cloud.api.get(path(instance, "/stats"));
        return status === 200 && body;
      },
      { what: "a first point" },
    );
    expect(title).toBe(`Backlot - ${instance.label} (instance${instance.id}) - day (0.01 min avg)`);
    expect(data).toMatchObject({ netv4: { in: [], out: [], private_in: [], private_out: [] }, netv6: { in: [] } });
    const [atMs, percent] = data.cpu[0];
    expect(Math.abs(Date.now() - atMs)).toBeLessThan(60_000);
    expect(percent).toBeGreaterThanOrEqual(0);
    expect([data.io.io.length, data.io.swap.length]).toEqual([data.cpu.length, data.cpu.length]);

    const now = new Date();
    const month = `${now.getUTCFullYear()}/${now.getUTCMonth() + 1}`;
    expect((await cloud.api.get(path(instance, `/stats/${month}`))).body.data.cpu.length).toBeGreaterThan(0);
    expect((await cloud.api.get(path(instance, "/stats/2019/1"))).status).toBe(400);
    expect((await cloud.api.get(path(instance, `/transfer/${month}`))).body).toEqual({ bytes_in: 0, bytes_out: 0, bytes_total: 0 });
    const { used, quota, billable } = (await cloud.api.get(path(instance, "/transfer"))).body;
    expect([used, billable]).toEqual([0, 0]);
    expect(quota).toBeGreaterThan(0);
    expect(quota).toBeLessThanOrEqual(instance.specs.transfer);
    for (const [when, field] of [
      ["1999/1", "year"],
      ["2026/13", "month"],
    ]) {
      const { status, body } = await cloud.api.get(path(instance, `/transfer/${when}`));
      expect([status, fieldsOf(body)]).toEqual([400, [field]]);
    }
    await removeInstance(cloud, instance.id);
    expect((await cloud.api.get(path(instance, "/stats"))).status).toBe(404);
  });
});

describe("what hangs on an instance", () => {
  it("balancers with a node on it; no firewalls, no interfaces", async () => {
    const instance = await createInstance(cloud, { booted: false, private_ip: true, interfaces: [{ purpose: "public" }] });
    const [mine, other] = [await createBalancer(cloud), await createBalancer(cloud)];
    await createNode(cloud, await createConfig(cloud, mine.id), `${instance.ipv4[1]}:80`);
    await createConfig(cloud, other.id);
    const listed = async (what: string): Promise<Json[]> => (await cloud.api.get(path(instance, `/${what}`))).body.data;
    expect((await listed("balancers")).map(({ id }) => id)).toEqual([mine.id]);
    const vpc = { region: "us-east", type: "g6-nanode-1", interfaces: [{ purpose: "public" }, { purpose: "vpc", subnet_id: 3 }] };
    const refused = await cloud.api.post("/v4/cloud/instances", vpc);
    expect([refused.status, refused.body.errors]).toEqual([
      400,
      [{ reason: "Must be public or vlan; there are no VPCs here.", field: "interfaces[1].purpose" }],
    ]);
    expect([await listed("firewalls"), await listed("interfaces")]).toEqual([[], []]);
    const [config] = await listed("configs");
    expect(config?.interfaces).toEqual([{ purpose: "public" }]);
    expect(await listed(`configs/${config?.id}/interfaces`)).toEqual([{ id: 1, purpose: "public", active: false }]);
    await instanceIn(cloud, instance.id, "offline");
    await removeInstance(cloud, instance.id);
  });
});
