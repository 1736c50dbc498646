import { readFileSync } from "node:fs";
import request from "supertest";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startCloud, type TestCloud } from "../support/cloud.js";

let cloud: TestCloud;
beforeAll(async () => {
  cloud = await startCloud();
});
afterAll(() => cloud.close());

const fixture = (name: string) => JSON.parse(readFileSync(new URL(`../../fixtures/catalogue/${name}.json`, import.meta.url), "utf8"));

describe("catalogues, asked without a token", () => {
  it.each([
    ["/v4/regions", "regions"],
    ["/v4/images", "images"],
    ["/v4/cloud/types", "types"],
    ["/v4/cloud/kernels", "kernels"],
  ])("%s is the shipped data, in its order", async (path, name) => {
    const { body } = await request(cloud.url).get(`${path}?page_size=500`).expect(200).expect("content-type", "application/json");
    expect(body.data).toEqual(fixture(name));
    expect(body).toMatchObject({ page: 1, pages: 1, results: fixture(name).length });
  });

  it("kernels are more than 200, so they come in pages of 100", async () => {
    const { body } = await request(cloud.url).get("/v4/cloud/kernels").expect(200);
    expect(body.results).toBeGreaterThan(200);
    expect(body.data).toHaveLength(100);
    expect(body.pages).toBe(Math.ceil(body.results / 100));
    expect(body.page).toBe(1);
  });

  it("types hold the rows of the first days, such as g5-standard-1", async () => {
    const { body } = await request(cloud.url).get("/v4/cloud/types/g5-standard-1").expect(200);
    expect(body).toMatchObject({ id: "g5-standard-1", vcpus: expect.any(Number), memory: expect.any(Number) });
  });

  it("scripts hold the shipped ones with their whole text", async () => {
    const { body } = await request(cloud.url).get("/v4/cloud/scripts").expect(200);
    const text = readFileSync(new URL("../../fixtures/scripts/hello-web.sh", import.meta.url), "utf8");
    expect(body.data.find((entry: { label: string }) => entry.label === "Hello web")).toMatchObject({ id: 1, is_public: true, script: text });
    expect(JSON.stringify(body)).not.toContain("script_file");
  });

  it.each([
    ["/v4/images/cloud/debian12", "cloud/debian12"],
    ["/v4/images/cloud%2Fdebian12", "cloud/debian12"],
    ["/v4/images/cloud%2fdebian12", "cloud/debian12"],
    ["/v4/regions/us-east", "us-east"],
    ["/v4/cloud/types/g6-nanode-1", "g6-nanode-1"],
    ["/v4/cloud/scripts/1", 1],
  ])("%s is one entry", async (path, id) => {
    const { body } = await request(cloud.url).get(path).expect(200).expect("content-type", "application/json");
    expect(body.id).toBe(id);
  });

  it("every kernel of the first page is found by its id, raw and with %2F", async () => {
    const { body } = await request(cloud.url).get("/v4/cloud/kernels?page_size=5").expect(200);
    for (const kernel of body.data) {
      for (const path of [kernel.id, encodeURIComponent(kernel.id)]) {
        const one = await request(cloud.url).get(`/v4/cloud/kernels/${path}`).expect(200);
        expect(one.body).toEqual(kernel);
      }
    }
  });

  it.each([
    "/v4/regions/nowhere",
    "/v4/images/cloud/none",
    "/v4/images/debian12",
    "/v4/cloud/types/g9",
    "/v4/cloud/kernels/x/y/z",
    "/v4/cloud/scripts/99",
    "/v4/cloud/scripts/abc",
    "/v4/cloud/scripts/0",
    "/v4/cloud/scripts/01",
  ])("%s is not found", async (path) => {
    const { body } = await request(cloud.url).get(path).expect(404).expect("content-type", "application/json");
    expect(body).toEqual({ errors: [{ reason: "Not found" }] });
  });
});
