import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startCloud, type TestCloud } from "../support/cloud.js";
import { createBalancer, fieldsOf, selfNaming } from "./world.js";

let cloud: TestCloud;
beforeAll(async () => {
  cloud = await startCloud();
  for (const [label, region, tags] of [
    ["alpha", "us-east", ["red", "blue"]],
    ["beta", "us-west", ["blue"]],
    ["Gamma", "us-east", []],
    ["delta", "eu-west", ["green-red"]],
  ]) {
    await createBalancer(cloud, { label, region, tags });
  }
});
afterAll(() => cloud.close());

const kernels = "/v4/cloud/kernels";

describe("pages (description 4.1)", () => {
  it("every entry is on exactly one page, in a stable order", async () => {
    const whole = (await cloud.api.get(`${kernels}?page_size=500`)).body;
    const ids: string[] = [];
    for (let page = 1; page <= Math.ceil(whole.results / 100); page += 1) {
      const { status, body } = await cloud.api.get(`${kernels}?page=${page}`);
      expect(status).toBe(200);
      expect(body).toMatchObject({ page, pages: Math.ceil(whole.results / 100), results: whole.results });
      ids.push(...body.data.map((entry: { id: string }) => entry.id));
    }
    expect(ids).toEqual(whole.data.map((entry: { id: string }) => entry.id));
  });

  it.each([
    [1, 1],
    [7, 7],
    [25, 25],
    [500, 330],
  ])("page_size=%i gives %i kernels", async (size, given) => {
    const { status, body } = await cloud.api.get(`${kernels}?page_size=${size}`);
    expect(status).toBe(200);
    expect(body.data).toHaveLength(given);
    expect(body.pages).toBe(Math.ceil(body.results / size));
  });

  it("a page beyond the last is empty and says which was asked for", async () => {
    const { status, body } = await cloud.api.get(`${kernels}?page=99`);
    expect(status).toBe(200);
    expect(body).toMatchObject({ data: [], page: 99, pages: Math.ceil(body.results / 100) });
  });

  it("an empty list is page 1 of 1", async () => {
    expect((await cloud.api.get("/v4/cloud/instances")).body).toEqual({ data: [], page: 1, pages: 1, results: 0 });
  });

  it.each(["0", "501", "-1", "abc", "1.5", "", "1e2", "99999999999999999999", "%31%00"])("page_size=%s is refused with its bounds", async (value) => {
    const { status, body } = await cloud.api.get(`${kernels}?page_size=${value}`);
    expect(status).toBe(400);
    expect(body).toEqual({ errors: [{ reason: "Must be 1-500", field: "page_size" }] });
  });

  it.each(["0", "-1", "x", "1.5", "", "18446744073709551616"])("page=%s is refused", async (value) => {
    const { status, body } = await cloud.api.get(`${kernels}?page=${value}`);
    expect(status).toBe(400);
    expect(fieldsOf(body)).toEqual(["page"]);
    expect(selfNaming(body)).toEqual([]);
  });

  it("tells every problem at once, the header's too", async () => {
    const { status, body } = await cloud.api.get(`${kernels}?page=0&page_size=0&sort=asc`, { "X-Filter": '{"nope":1}' });
    expect(status).toBe(400);
    expect(fieldsOf(body)).toEqual(["X-Filter", "page", "page_size", "sort"]);
  });

  it("a parameter given twice is refused", async () => {
    const { status, body } = await cloud.api.get(`${kernels}?page=1&page=2`);
    expect(status).toBe(400);
    expect(fieldsOf(body)).toEqual(["page"]);
  });
});

const labels = async (filter: unknown): Promise<string[]> => {
  const { status, body } = await cloud.api.get("/v4/balancers", { "X-Filter": typeof filter === "string" ? filter : JSON.stringify(filter) });
  expect(status, JSON.stringify(body)).toBe(200);
  expect(body.results).toBe(body.data.length);
  return body.data.map((entry: { label: string }) => entry.label);
};

describe("X-Filter (description 4.2, contract 5.2)", () => {
  it.each([
    [{ label: "alpha" }, ["alpha"]],
    [{ region: "us-east", label: "Gamma" }, ["Gamma"]],
    [{}, ["alpha", "beta", "Gamma", "delta"]],
    [{ "+or": [{ label: "alpha" }, { label: "beta" }] }, ["alpha", "beta"]],
    [{ "+and": [{ region: "us-east" }, { label: { "+neq": "alpha" } }] }, ["Gamma"]],
    [{ "+or": [{ "+and": [{ region: "us-east" }, { tags: "red" }] }, { "+and": [{ region: "eu-west" }] }] }, ["alpha", "delta"]],
    [{ region: "us-east", "+or": [{ label: "alpha" }, { label: "beta" }] }, ["alpha"]],
    [{ label: { "+contains": "ELT" } }, ["delta"]],
    [{ label: { "+contains": "a" } }, ["alpha", "beta", "Gamma", "delta"]],
    [{ label: { "+neq": "alpha" } }, ["beta", "Gamma", "delta"]],
    [{ label: { "+gt": "alpha" } }, ["beta", "delta"]],
    [{ label: { "+gte": "alpha" } }, ["alpha", "beta", "delta"]],
    [{ label: { "+lt": "beta" } }, ["alpha", "Gamma"]],
    [{ label: { "+lte": "beta" } }, ["alpha", "beta", "Gamma"]],
    [{ label: { "+gte": "alpha", "+lt": "delta" } }, ["alpha", "beta"]],
    [{ tags: "blue" }, ["alpha", "beta"]],
    [{ tags: { "+contains": "red" } }, ["alpha", "delta"]],
    [{ tags: { "+neq": "blue" } }, ["Gamma", "delta"]],
    [{ label: 5 }, []],
    [{ label: null }, []],
    [{ label: "ALPHA" }, []],
    [{ "+order_by": "label" }, ["Gamma", "alpha", "beta", "delta"]],
    [{ "+order_by": "label", "+order": "desc" }, ["delta", "beta", "alpha", "Gamma"]],
    [{ "+order_by": "region", "+order": "asc" }, ["delta", "alpha", "Gamma", "beta"]],
    [{ region: "us-east", "+order_by": "label", "+order": "desc" }, ["alpha", "Gamma"]],
    [{ "+or": [] }, []],
    [{ "+and": [] }, ["alpha", "beta", "Gamma", "delta"]],
  ])("%j selects %j", async (filter, expected) => {
    expect(await labels(filter)).toEqual(expected);
  });

  it("numbers and booleans of a catalogue compare as such", async () => {
    const types = async (filter: object) => (await cloud.api.get("/v4/cloud/types?page_size=500", { "X-Filter": JSON.stringify(filter) })).body.data;
    const all = await types({});
    for (const [operator, test] of [
      ["+gt", (value: number) => value > 4],
      ["+gte", (value: number) => value >= 4],
      ["+lt", (value: number) => value < 4],
      ["+lte", (value: number) => value <= 4],
      ["+neq", (value: number) => value !== 4],
    ] as const) {
      const expected = all.filter((entry: { vcpus: number }) => test(entry.vcpus));
      expect(expected.length).toBeGreaterThan(0);
      expect(await types({ vcpus: { [operator]: 4 } })).toEqual(expected);
    }
    const images = (await cloud.api.get("/v4/images?page_size=500", { "X-Filter": '{"vendor":"Debian","deprecated":false}' })).body.data;
    expect(images.length).toBeGreaterThan(0);
    for (const image of images) expect(image).toMatchObject({ vendor: "Debian", deprecated: false });
  });

  it("pages are cut after filtering, and results counts what was selected", async () => {
    const { body } = await cloud.api.get("/v4/balancers?page_size=1&page=2", { "X-Filter": '{"region":"us-east"}' });
    expect(body).toMatchObject({ page: 2, pages: 2, results: 2, data: [{ label: "Gamma" }] });
  });

  it.each([
    ["not json", /JSON/],
    ['{"label":', /JSON/],
    ["[]", /object/],
    ["5", /object/],
    ['"label"', /object/],
    ["null", /object/],
    ['{"nope":1}', /Cannot filter on nope/],
    ['{"created":"2018"}', /Cannot filter on created/],
    ['{"client_conn_throttle":1}', /Cannot filter on client_conn_throttle/],
    ['{"constructor":1}', /Cannot filter on constructor/],
    ['{"__proto__":1}', /Cannot filter on __proto__/],
    ['{"clientConnThrottle":1}', /Cannot filter on/],
    ['{"+or":[{"nope":1}]}', /Cannot filter on nope/],
    ['{"label":{"+like":"a"}}', /\+like/],
    ['{"label":{"contains":"a"}}', /contains/],
    ['{"label":{}}', /operator/],
    ['{"label":{"constructor":1}}', /constructor/],
    ['{"+xor":[]}', /\+xor/],
    ['{"+or":{"label":"alpha"}}', /list/],
    ['{"+and":[1]}', /list/],
    ['{"+order_by":"nope"}', /Cannot filter on nope/],
    ['{"+order_by":5}', /name/],
    ['{"+order":"desc"}', /\+order_by/],
    ['{"+order_by":"label","+order":"down"}', /asc or desc/],
    ['{"+order_by":"label","+order":1}', /asc or desc/],
    [`${'{"+and":['.repeat(40)}{}${"]}".repeat(40)}`, /deep/],
  ])("%s is refused on the header", async (filter, reason) => {
    const { status, body } = await cloud.api.get("/v4/balancers", { "X-Filter": filter });
    expect(status).toBe(400);
    expect(body.errors[0].field).toBe("X-Filter");
    expect(body.errors[0].reason).toMatch(reason);
  });

  it("every problem of a filter is told at once", async () => {
    const { body } = await cloud.api.get("/v4/balancers", { "X-Filter": '{"nope":1,"label":{"+like":"a"},"+xor":1}' });
    expect(body.errors).toHaveLength(3);
  });

  it("an empty header selects everything", async () => {
    expect(await labels(" ")).toHaveLength(4);
  });

  it("on events, entity.id needs entity.type", async () => {
    const { status, body } = await cloud.api.get("/v4/account/events", { "X-Filter": '{"entity.id":1}' });
    expect(status).toBe(400);
    expect(fieldsOf(body)).toEqual(["X-Filter"]);
    const both = await cloud.api.get("/v4/account/events", { "X-Filter": '{"entity.id":1,"entity.type":"balancer"}' });
    expect(both.status).toBe(200);
    expect(both.body.data.map((event: { action: string }) => event.action)).toEqual(["balancer_create"]);
  });
});
