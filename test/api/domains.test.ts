import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Json, startCloud, type TestCloud } from "../support/cloud.js";
import { eventsOf, fieldsOf, selfNaming } from "./world.js";

let cloud: TestCloud;
beforeAll(async () => {
  cloud = await startCloud();
});
afterAll(() => cloud.close());

let names = 0;
const freshName = (): string => {
  names += 1;
  return `d${names}.example`;
};
const post = (body: object) => cloud.api.post("/v4/domains", body);
const made = async (more: object = {}): Promise<Json> => {
  const { status, body } = await post({ type: "master", domain: freshName(), soa_email: "a@b.test", ...more });
  expect(status, JSON.stringify(body)).toBe(200);
  return body;
};
const record = async (domain: Json, body: object): Promise<Json> => {
  const answer = await cloud.api.post(`/v4/domains/${domain.id}/records`, body);
  expect(answer.status, JSON.stringify(answer.body)).toBe(200);
  return answer.body;
};
const path = (domain: Json) => `/v4/domains/${domain.id}`;

describe("a domain (contract 12)", () => {
  it("has its whole record, and an event", async () => {
    const domain = freshName();
    const { body } = await post({ type: "master", domain, soa_email: "admin@example.test", description: "Mine", tags: ["lab"], group: "old" });
    expect(body).toEqual({
      id: expect.any(Number),
      type: "master",
      domain,
      group: "old",
      status: "active",
      description: "Mine",
      soa_email: "admin@example.test",
      retry_sec: 0,
      master_ips: [],
      axfr_ips: [],
      expire_sec: 0,
      refresh_sec: 0,
      ttl_sec: 0,
      tags: ["lab"],
      errors: "",
      created: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$/),
      updated: expect.any(String),
    });
    expect((await cloud.api.get(path(body))).body).toEqual(body);
    const [event] = await eventsOf(cloud, "domain", body.id);
    expect(event).toMatchObject({ action: "domain_create", status: "notification", username: "backlot" });
    expect(event.entity).toEqual({ id: body.id, label: domain, type: "domain", url: `/v4/domains/${body.id}` });
  });

  it.each([
    [{}, ["domain", "type"]],
    [{ type: "primary", domain: "x.test" }, ["type"]],
    [{ type: "master", domain: "x.test" }, ["soa_email"]],
    [{ type: "master", domain: "x.test", soa_email: "nobody" }, ["soa_email"]],
    [{ type: "slave", domain: "x.test" }, ["master_ips"]],
    [{ type: "slave", domain: "x.test", master_ips: [] }, ["master_ips"]],
    [{ type: "slave", domain: "x.test", master_ips: ["10.0.0.1", "ns.example.com", "10.0.0.1:99999"] }, ["master_ips[1]", "master_ips[2]"]],
    [{ type: "master", domain: "x.test", soa_email: "a@b.test", axfr_ips: ["none"] }, ["axfr_ips[0]"]],
    [{ type: "master", domain: "x.test", soa_email: "a@b.test", axfr_ips: Array(100).fill("192.168.100.100") }, ["axfr_ips"]],
    [
      { type: "master", domain: "x.test", soa_email: "a@b.test", ttl_sec: -1, refresh_sec: "1", status: "gone" },
      ["refresh_sec", "status", "ttl_sec"],
    ],
    [{ type: "slave", domain: "not a name", description: "x".repeat(254), tags: ["x"] }, ["description", "domain", "master_ips", "tags[0]"]],
    ...["test", "-", "", "a..test", "x.test.", `${"a".repeat(64)}.test`, "x.123", "x_.te_st", "backlot.test", "Web.Backlot.test", 7].map(
      (domain): [object, string[]] => [{ type: "master", domain, soa_email: "a@b.test" }, ["domain"]],
    ),
  ])("%j is refused on %j", async (body, fields) => {
    const { status, body: answer } = await post(body);
    expect([status, fieldsOf(answer)]).toEqual([400, fields]);
    expect(selfNaming(answer)).toEqual([]);
  });

  it("the name is unique, whatever its case", async () => {
    const { domain } = await made();
    expect(fieldsOf((await post({ type: "master", domain: domain.toUpperCase(), soa_email: "a@b.test" })).body)).toEqual(["domain"]);
    const other = await made();
    expect(fieldsOf((await cloud.api.put(path(other), { domain })).body)).toEqual(["domain"]);
    expect((await cloud.api.put(path(other), { domain: other.domain })).status).toBe(200);
  });

  it.each([
    [0, 0],
    [1, 30],
    [30, 30],
    [31, 120],
    [3601, 7200],
    [500_000, 604_800],
    [2_419_200, 2_419_200],
    [2_147_483_647, 2_419_200],
  ])("times are rounded up to a step: %i -> %i", async (given, kept) => {
    const times = { ttl_sec: given, refresh_sec: given, retry_sec: given, expire_sec: given };
    expect(await made(times)).toMatchObject({ ttl_sec: kept, refresh_sec: kept, retry_sec: kept, expire_sec: kept });
  });

  it("an update keeps what is left out, and cannot take away what its type needs", async () => {
    const before = await made({ description: "Before", axfr_ips: ["192.0.2.1"], ttl_sec: 300 });
    const { body } = await cloud.api.put(path(before), { description: "After" });
    expect(body).toEqual({ ...before, description: "After", updated: expect.any(String) });
    // A client that sends all of it back changes nothing.
    expect((await cloud.api.put(path(before), body)).body).toEqual({ ...body, updated: expect.any(String) });
    expect(fieldsOf((await cloud.api.put(path(before), { soa_email: "" })).body)).toEqual(["soa_email"]);
    expect(fieldsOf((await cloud.api.put(path(before), { type: "slave" })).body)).toEqual(["master_ips"]);
    await record(before, { type: "A", target: "192.0.2.1" });
    expect(fieldsOf((await cloud.api.put(path(before), { type: "slave", master_ips: ["192.0.2.1"] })).body)).toEqual(["type"]);
    expect((await eventsOf(cloud, "domain", before.id, { action: "domain_update" })).length).toBe(2);
  });

  it("is filtered by name, group and tag, and by nothing else", async () => {
    const domain = await made({ group: "filtered", tags: ["filter-me"] });
    for (const filter of [{ domain: domain.domain }, { group: "filtered" }, { tags: "filter-me" }]) {
      const { body } = await cloud.api.get("/v4/domains", { "X-Filter": JSON.stringify(filter) });
      expect(body.data.map(({ id }: Json) => id)).toEqual([domain.id]);
    }
    expect((await cloud.api.get("/v4/domains", { "X-Filter": '{"soa_email":"a@b.test"}' })).status).toBe(400);
  });

  it("deleted takes its records along", async () => {
    const domain = await made();
    const { id } = await record(domain, { type: "A", target: "192.0.2.1" });
    expect((await cloud.api.del(path(domain))).body).toEqual({});
    expect((await cloud.api.get(path(domain))).status).toBe(404);
    expect((await cloud.api.get(`${path(domain)}/records`)).status).toBe(404);
    expect((await cloud.api.get(`${path(domain)}/records/${id}`)).status).toBe(404);
    expect((await eventsOf(cloud, "domain", domain.id, { action: "domain_delete" })).length).toBe(1);
    expect((await post({ type: "master", domain: domain.domain, soa_email: "a@b.test" })).body.id).toBeGreaterThan(domain.id);
  });

  it("cloned has the same settings and records under another name", async () => {
    const source = await made({ ttl_sec: 300, tags: ["cloned"], description: "To clone" });
    await record(source, { type: "CNAME", name: "www", target: "www.elsewhere.example" });
    await record(source, { type: "SRV", service: "sip", protocol: "tcp", target: "s.elsewhere.example", port: 5060 });
    const domain = freshName();
    const { status, body } = await cloud.api.post(`${path(source)}/clone`, { domain });
    expect(status).toBe(200);
    expect(body).toEqual({ ...source, id: expect.any(Number), domain, created: expect.any(String), updated: expect.any(String) });
    const plain = async (of: Json) =>
      (await cloud.api.get(`${path(of)}/records`)).body.data.map(({ id: _, created: __, updated: ___, ...rest }: Json) => rest);
    expect(await plain(body)).toEqual(await plain(source));
    for (const name of [source.domain, "bad", undefined]) {
      expect(fieldsOf((await cloud.api.post(`${path(source)}/clone`, { domain: name })).body)).toEqual(["domain"]);
    }
    expect((await cloud.api.post("/v4/domains/999999/clone", { domain: freshName() })).status).toBe(404);
  });
});

describe("a record (contract 12.1)", () => {
  let domain: Json;
  beforeAll(async () => {
    domain = await made({ domain: "records.example" });
    await record(domain, { type: "CNAME", name: "taken", target: "a.elsewhere.example" });
    await record(domain, { type: "A", name: "host", target: "192.0.2.1" });
  });
  const records = (body: object) => cloud.api.post(`${path(domain)}/records`, body);
  const neutral = { priority: 0, weight: 0, port: 0, service: null, protocol: null, ttl_sec: 0, tag: null };

  it.each([
    [
      { type: "A", name: "a", target: "192.0.2.1", ttl_sec: 301 },
      { name: "a", target: "192.0.2.1", ttl_sec: 3600 },
    ],
    [{ type: "A", target: "[remote_addr]", name: "me" }, { target: "127.0.0.1" }],
    [{ type: "A", name: "*", target: "192.0.2.1" }, { name: "*" }],
    [{ type: "A", name: "@", target: "192.0.2.1" }, { name: "" }],
    [{ type: "A", name: "full.records.example.", target: "192.0.2.1" }, { name: "full" }],
    [{ type: "A", name: "Records.Example", target: "192.0.2.1", priority: 9, port: 9, tag: "issue", service: "x" }, { name: "" }],
    [{ type: "AAAA", name: "a", target: "2001:DB8::1" }, { target: "2001:db8::1" }],
    [{ type: "NS", name: "sub", target: "ns.elsewhere.example" }, {}],
    [{ type: "NS", target: "ns2.elsewhere.example." }, { target: "ns2.elsewhere.example." }],
    [
      { type: "MX", target: "mail", priority: 5 },
      { target: "mail.records.example", priority: 5 },
    ],
    [
      { type: "MX", name: "nomail", target: "" },
      { target: "", priority: 0 },
    ],
    [{ type: "CNAME", name: "alias", target: "@" }, { target: "records.example" }],
    [{ type: "TXT", target: ' v=spf1 "quoted" ~all ' }, { target: ' v=spf1 "quoted" ~all ' }],
    [{ type: "TXT", name: "_dmarc", target: "x".repeat(64_000) }, {}],
    [
      { type: "SRV", service: "sip", protocol: "_tcp", target: "host", priority: 1, weight: 2, port: 3, name: "ignored" },
      { name: "_sip._tcp", service: "_sip", protocol: "_tcp", target: "host.records.example", priority: 1, weight: 2, port: 3 },
    ],
    [{ type: "PTR", name: "7", target: "host.elsewhere.example" }, {}],
    [{ type: "CAA", tag: "issue", target: "ca.example; policy=ev" }, { tag: "issue" }],
    [{ type: "CAA", name: "sub2", tag: "issuewild", target: ";" }, { tag: "issuewild" }],
    [{ type: "CAA", name: "sub2", tag: "iodef", target: "mailto:security@example.test" }, { tag: "iodef" }],
  ])("%j is taken", async (body, shown) => {
    const answer = await record(domain, body);
    expect(answer).toEqual({
      id: expect.any(Number),
      ...neutral,
      type: body.type,
      name: (body as Json).name ?? "",
      target: body.target,
      created: expect.any(String),
      updated: expect.any(String),
      ...shown,
    });
    expect((await cloud.api.get(`${path(domain)}/records/${answer.id}`)).body).toEqual(answer);
  });

  it.each([
    [{}, ["type"]],
    [{ type: "HINFO", target: "x" }, ["type"]],
    [{ type: "A" }, ["target"]],
    [{ type: "A", target: "2001:db8::1" }, ["target"]],
    [{ type: "A", target: "192.0.2.01" }, ["target"]],
    [{ type: "AAAA", target: "192.0.2.1" }, ["target"]],
    [{ type: "AAAA", target: "[remote_addr]" }, ["target"]],
    [{ type: "A", target: "192.0.2.1", name: "a b" }, ["name"]],
    [{ type: "A", target: "192.0.2.1", name: "-a" }, ["name"]],
    [{ type: "A", target: "192.0.2.1", name: "a..b" }, ["name"]],
    [{ type: "A", target: "192.0.2.1", name: "a.*" }, ["name"]],
    [{ type: "A", target: "192.0.2.1", name: "x".repeat(64) }, ["name"]],
    [{ type: "A", target: "192.0.2.1", name: `${"a.".repeat(119)}aa` }, ["name"]],
    [{ type: "A", target: 7, name: 8, ttl_sec: "9" }, ["name", "target", "ttl_sec"]],
    [{ type: "A", target: "nonsense", ttl_sec: -1 }, ["target", "ttl_sec"]],
    [{ type: "CNAME", target: "host" }, ["name"]],
    [{ type: "CNAME", name: "c", target: "not a host" }, ["target"]],
    [{ type: "CNAME", name: "c", target: "192.0.2.1" }, ["target"]],
    [{ type: "CNAME", name: "HOST", target: "x.example" }, ["name"]],
    [{ type: "CNAME", name: "taken", target: "x.example" }, ["name"]],
    [{ type: "A", name: "Taken.records.example", target: "192.0.2.1" }, ["name"]],
    [{ type: "NS", name: "taken", target: "ns.example" }, ["name"]],
    [{ type: "NS", name: "*", target: "ns.example" }, ["name"]],
    [{ type: "NS", name: "s" }, ["target"]],
    [{ type: "MX", name: "free", target: "", priority: 1 }, ["priority"]],
    [{ type: "MX", target: "m.example", priority: 256 }, ["priority"]],
    [{ type: "TXT", target: "" }, ["target"]],
    [{ type: "TXT", target: "grüezi" }, ["target"]],
    [{ type: "TXT", target: "a\nb" }, ["target"]],
    [{ type: "TXT", target: "x".repeat(64_001) }, ["target"]],
    [{ type: "TXT", target: "x".repeat(65_536) }, ["target"]],
    [{ type: "SRV", target: "host" }, ["protocol", "service"]],
    [{ type: "SRV", service: "a b", protocol: "tcp", target: "host", port: 65_536, weight: -1 }, ["port", "service", "weight"]],
    [{ type: "PTR", target: "host.example" }, ["name"]],
    [{ type: "CAA", target: "ca.example" }, ["tag"]],
    [{ type: "CAA", tag: "issue", target: "*.ca.example" }, ["target"]],
    [{ type: "CAA", tag: "iodef", target: "nowhere" }, ["target"]],
    [{ type: "CAA", tag: "other", target: "ca.example" }, ["tag"]],
  ])("%j is refused on %j", async (body, fields) => {
    const { status, body: answer } = await records(body);
    expect([status, fieldsOf(answer)]).toEqual([400, fields]);
    expect(selfNaming(answer)).toEqual([]);
  });

  it("a name that takes no mail (a null MX) has no other MX, whichever comes first", async () => {
    const host = await record(domain, { type: "MX", name: "either", target: "mail.example", priority: 5 });
    const none = { type: "MX", name: "either", target: "" };
    expect(fieldsOf((await records(none)).body)).toEqual(["target"]);
    await cloud.api.del(`${path(domain)}/records/${host.id}`);
    const only = await record(domain, none);
    expect(fieldsOf((await records({ ...none, target: "mail.example", priority: 5 })).body)).toEqual(["target"]);
    expect(fieldsOf((await records(none)).body)).toEqual(["target"]);
    expect((await cloud.api.put(`${path(domain)}/records/${only.id}`, { target: "mail.example" })).status).toBe(200);
  });

  it("is updated in what is given, checked as a whole, and never in its type", async () => {
    const before = await record(domain, { type: "MX", name: "changing", target: "one.example", priority: 3 });
    const at = `${path(domain)}/records/${before.id}`;
    expect((await cloud.api.put(at, { target: "two.example", type: "A" })).body).toEqual({
      ...before,
      target: "two.example",
      updated: expect.any(String),
    });
    expect((await cloud.api.put(at, before)).body).toEqual({ ...before, updated: expect.any(String) });
    expect(fieldsOf((await cloud.api.put(at, { target: "" })).body)).toEqual(["priority"]);
    expect(fieldsOf((await cloud.api.put(at, { name: "taken" })).body)).toEqual(["name"]);
    const srv = await record(domain, { type: "SRV", service: "a", protocol: "udp", target: "x.example" });
    const { body } = await cloud.api.put(`${path(domain)}/records/${srv.id}`, { service: "b" });
    expect([body.name, body.protocol]).toEqual(["_b._udp", "_udp"]);
  });

  it("is told in events that name it", async () => {
    const own = await made();
    const { id } = await record(own, { type: "A", name: "told", target: "192.0.2.1" });
    await cloud.api.put(`${path(own)}/records/${id}`, { target: "192.0.2.2" });
    await cloud.api.del(`${path(own)}/records/${id}`);
    const told = await eventsOf(cloud, "domain", own.id);
    expect(told.slice(0, 3).map(({ action, message }) => [action, message])).toEqual([
      ["domain_record_delete", `told.${own.domain}`],
      ["domain_record_update", `told.${own.domain}`],
      ["domain_record_create", `told.${own.domain}`],
    ]);
  });

  it("belongs to its domain only, and is filtered by type, name, target and tag", async () => {
    const own = await made();
    const { id } = await record(own, { type: "CAA", name: "f", target: "ca.example", tag: "issue" });
    expect((await cloud.api.get(`${path(domain)}/records/${id}`)).status).toBe(404);
    expect((await cloud.api.put(`${path(domain)}/records/${id}`, {})).status).toBe(404);
    expect((await cloud.api.del(`${path(domain)}/records/${id}`)).status).toBe(404);
    for (const filter of [{ type: "CAA" }, { name: "f" }, { target: "ca.example" }, { tag: "issue" }]) {
      const { body } = await cloud.api.get(`${path(own)}/records`, { "X-Filter": JSON.stringify(filter) });
      expect(body.data.map((each: Json) => each.id)).toEqual([id]);
    }
    expect((await cloud.api.get(`${path(own)}/records`, { "X-Filter": '{"ttl_sec":0}' })).status).toBe(400);
  });

  it("cannot be added to a slave", async () => {
    const slave = await made({ type: "slave", master_ips: ["127.0.0.1:1"] });
    const { status, body } = await cloud.api.post(`${path(slave)}/records`, { type: "A", target: "192.0.2.1" });
    expect([status, body.errors.length]).toEqual([400, 1]);
  });
});
