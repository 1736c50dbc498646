import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { absentCollections } from "#backlot/resources/absent/absent.js";
import { send, startCloud, type TestCloud } from "../support/cloud.js";
import { createBalancer, createInstance } from "./world.js";

let cloud: TestCloud;
beforeAll(async () => {
  cloud = await startCloud();
});
afterAll(() => cloud.close());

describe("what Backlot does not build (contract section 16)", () => {
  it("has empty lists with their envelope, and nothing else", async () => {
    const instance = await createInstance(cloud, { booted: false });
    const balancer = await createBalancer(cloud);
    for (const { path, scope } of absentCollections) {
      const real = path.replace(":instanceId", String(instance.id)).replace(":balancerId", String(balancer.id));
      const { status, body } = await cloud.api.get(`${real}?page=1&page_size=100`);
      expect([path, status, body]).toEqual([path, 200, { data: [], page: 1, pages: 1, results: 0 }]);
      expect((await cloud.api.post(real, {})).status, path).toBeOneOf([400, 405]);
      if (scope !== null) expect((await send(cloud.url, "GET", real, {})).status, path).toBe(401);
    }
    expect((await cloud.api.get("/v4/cloud/instances/999/firewalls")).status).toBe(404);
    expect((await cloud.api.get("/v4/balancers/999/firewalls")).status).toBe(404);
    for (const path of ["/v4/networking/firewalls/1", "/v4/vpcs/1", "/v4/longview/plan", "/v4/networking/firewalls/settings"]) {
      expect((await cloud.api.get(path)).status, path).toBe(404);
    }
    expect((await cloud.api.get(`/v4beta/linode/instances/${instance.id}/firewalls`)).body.results).toBe(0);
  });

  it("says so among the capabilities", async () => {
    const { body } = await cloud.api.get("/_backlot/capabilities");
    expect(body.rows.find((row: { subject: string }) => /firewalls/.test(row.subject))).toMatchObject({ real: false });
  });
});

describe("availability", () => {
  it("is everything, everywhere, in the envelope or (one region) bare", async () => {
    const regions = (await cloud.api.get("/v4/regions")).body.results;
    const types = (await cloud.api.get("/v4/cloud/types")).body.results;
    const filter = JSON.stringify({ "+and": [{ region: "us-east" }, { plan: "g6-nanode-1" }] });
    expect((await cloud.api.get("/v4/regions/availability", { "X-Filter": filter })).body.data).toEqual([
      { region: "us-east", plan: "g6-nanode-1", available: true },
    ]);
    expect((await cloud.api.get("/v4/regions/availability")).body.results).toBe(regions * types);
    const { body } = await send(cloud.url, "GET", "/v4/regions/us-east/availability", {});
    expect(body).toHaveLength(types);
    expect(body[0]).toEqual({ region: "us-east", plan: expect.any(String), available: true });
    expect((await cloud.api.get("/v4/regions/nowhere/availability")).status).toBe(404);
  });

  it("of services names those that Backlot has, in the words of the spelling", async () => {
    const { body } = await cloud.api.get("/v4/account/availability/us-east");
    expect(body).toMatchObject({ region: "us-east", available: expect.arrayContaining(["Instances", "Balancers"]) });
    expect(body.unavailable).toContain("Kubernetes");
    expect((await cloud.api.get("/v4beta/account/availability/us-east")).body.available).toEqual(
      expect.arrayContaining(["Linodes", "NodeBalancers"]),
    );
    expect((await cloud.api.get("/v4/account/availability/nowhere")).status).toBe(404);
  });

  it("policies of maintenance are listed, by their slug in each spelling", async () => {
    const slugs = async (path: string) => (await cloud.api.get(path)).body.data.map((entry: { slug: string }) => entry.slug);
    expect(await slugs("/v4/maintenance/policies")).toEqual(["cloud/migrate", "cloud/power_off_on"]);
    expect(await slugs("/v4beta/maintenance/policies")).toEqual(["linode/migrate", "linode/power_off_on"]);
  });
});
