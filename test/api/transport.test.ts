import { connect as connectTls } from "node:tls";
import { gzipSync } from "node:zlib";
import request from "supertest";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Answer, type Json, send, startCloud, type TestCloud } from "../support/cloud.js";
import { createBalancer, events, fieldsOf, freshLabel, placeOf, rawExchange, readRaw, selfNaming } from "./world.js";

let cloud: TestCloud;
beforeAll(async () => {
  cloud = await startCloud();
});
afterAll(() => cloud.close());

const raw = async (bytes: string | Buffer) => readRaw(await rawExchange(placeOf(cloud.url), bytes));
const count = async (): Promise<number> => (await cloud.api.get("/v4/balancers")).body.results;
const host = () => new URL(cloud.url).host;

describe("answers", () => {
  it("are application/json, exactly, with the common headers", async () => {
    const { headers } = await cloud.api.get("/v4/balancers");
    expect(headers["content-type"]).toBe("application/json");
    expect(headers["x-request-id"]).toMatch(/^[0-9a-f-]{36}$/);
    expect(headers["cache-control"]).toContain("no-store");
    expect(headers["x-powered-by"]).toBeUndefined();
    expect(headers["x-oauth-scopes"]).toBe("*");
    expect(headers["x-accepted-oauth-scopes"]).toBe("balancers:read_only");
  });

  it.each([
    "/v4",
    "/v4/",
    "/v4/nothing",
    "/v3/balancers",
    "/v4/Balancers",
    "//v4/balancers",
    "/v4/balancers/1/nodes",
    "/_backlot/nothing",
    "/index.html",
    "/v4/%zz",
  ])("%s is not found", async (path) => {
    const { status, headers, body } = await cloud.api.get(path);
    expect(status).toBe(404);
    expect(headers["content-type"]).toBe("application/json");
    expect(body).toEqual({ errors: [{ reason: "Not found" }] });
  });

  it.each([
    ["DELETE", "/v4/regions", "GET"],
    ["POST", "/v4/cloud/kernels", "GET"],
    ["PUT", "/v4/balancers", "POST"],
    ["PATCH", "/v4/balancers/1", "DELETE"],
    ["GET", "/v4/cloud/instances/1/boot", "POST"],
    ["HEAD", "/v4/cloud/instances/1/boot", "POST"],
    ["TRACE", "/v4/regions", "GET"],
    ["PROPFIND", "/v4/regions", "GET"],
  ])("%s %s is 405 and Allow names %s", async (method, path, allowed) => {
    const { status, headers, body } = await send(cloud.url, method, path, { Authorization: `Bearer ${cloud.token}` });
    expect(status).toBe(405);
    expect(headers.allow?.split(", ")).toContain(allowed);
    expect(headers.allow?.split(", ")).not.toContain(method);
    if (method !== "HEAD") expect(body).toEqual({ errors: [{ reason: "Method Not Allowed" }] });
  });

  it("HEAD has the headers of GET and no body", async () => {
    const got = await cloud.api.get("/v4/regions");
    const { status, headers, body } = await send(cloud.url, "HEAD", "/v4/regions", {});
    expect([status, body]).toEqual([200, undefined]);
    expect(headers["content-type"]).toBe("application/json");
    expect(headers["content-length"]).toBe(got.headers["content-length"]);
  });

  it("OPTIONS tells what is allowed, without a token", async () => {
    const { status, headers } = await send(cloud.url, "OPTIONS", "/v4/balancers", {});
    expect(status).toBe(200);
    expect(headers.allow?.split(", ").sort()).toEqual(["GET", "HEAD", "OPTIONS", "POST"]);
  });

  it("malformed percent-encoding is a 400, not a crash", async () => {
    const { status, headers, body } = await cloud.api.get("/v4/regions/%zz");
    expect(status).toBe(400);
    expect(headers["content-type"]).toBe("application/json");
    expect(body.errors).toHaveLength(1);
  });

  it("an id that is no positive whole number names nothing", async () => {
    for (const id of ["0", "-1", "1.0", "abc", "1e3", "9999999999999999999", "%31x", "1%2F2"]) {
      expect((await cloud.api.get(`/v4/balancers/${id}`)).status, id).toBe(404);
    }
  });
});

describe("the base URL", () => {
  it("says where to go, and every place it names answers without a token", async () => {
    const { status, body } = await send(cloud.url, "GET", "/", {});
    expect(status).toBe(200);
    const places = [body.openapi, body.capabilities, body.health];
    expect(places).toEqual(["/v4/openapi.json", "/_backlot/capabilities", "/_backlot/health"]);
    for (const place of places) expect((await send(cloud.url, "GET", place, {})).status).toBe(200);
  });
});

describe("request bodies", () => {
  const valid = () => ({ label: freshLabel("ok"), region: "us-east" });

  it.each(["text/plain", "application/x-www-form-urlencoded", "application/jsonx", "application/json; charset=latin1", "multipart/form-data"])(
    "%s is 415 and changes nothing",
    async (type) => {
      const before = await count();
      const { status, body } = await cloud.api.post("/v4/balancers", JSON.stringify(valid()), { "Content-Type": type });
      expect(status).toBe(415);
      expect(body.errors).toHaveLength(1);
      expect(await count()).toBe(before);
    },
  );

  it.each(["application/json", "application/json; charset=utf-8", "Application/JSON;charset=UTF-8"])("%s is taken", async (type) => {
    const { status } = await cloud.api.post("/v4/balancers", JSON.stringify(valid()), { "Content-Type": type });
    expect(status).toBe(200);
  });

  it("gzip is taken, up to the same size unpacked", async () => {
    const headers = { "Content-Encoding": "gzip" };
    expect((await cloud.api.post("/v4/balancers", gzipSync(JSON.stringify(valid())), headers)).status).toBe(200);
    const bomb = gzipSync(Buffer.alloc(64 * 1024 * 1024, 32));
    expect((await cloud.api.post("/v4/balancers", bomb, headers)).status).toBe(413);
    expect((await cloud.api.post("/v4/balancers", "not gzip", headers)).status).toBe(400);
    expect((await cloud.api.post("/v4/balancers", "x", { "Content-Encoding": "zstd-x" })).status).toBe(415);
  });

  it("more than 4 MiB is 413 and changes nothing", async () => {
    const before = await count();
    const body = JSON.stringify({ ...valid(), filler: "x".repeat(4 * 1024 * 1024) });
    const answer = await request(cloud.url).post("/v4/balancers").set("Authorization", `Bearer ${cloud.token}`).type("application/json").send(body);
    expect(answer.status).toBe(413);
    expect(answer.headers["content-type"]).toBe("application/json");
    expect(answer.body.errors[0].reason).toMatch(/larger/);
    expect(await count()).toBe(before);
  });

  it.each([
    ["{", /Invalid JSON/],
    ["{'label':'x'}", /Invalid JSON/],
    ["", /required/],
    ["[]", /object/],
    ["null", /object/],
    ["5", /object/],
    ['"text"', /object/],
    ["NaN", /Invalid JSON/],
    [`{"a":${"[".repeat(100)}${"]".repeat(100)}}`, /nested/],
    [`{"a":${"[".repeat(200_000)}`, /nested/],
  ])("%.20s is a 400", async (text, reason) => {
    const before = await count();
    const { status, headers, body } = await cloud.api.post("/v4/balancers", text);
    expect(status).toBe(400);
    expect(headers["content-type"]).toBe("application/json");
    expect(body.errors[0].reason).toMatch(reason);
    expect(await count()).toBe(before);
  });

  it("bytes that are not UTF-8 are a 400", async () => {
    const { status, body } = await cloud.api.post("/v4/balancers", Buffer.from('{"label":"\xff\xfe","region":"us-east"}', "latin1"));
    expect(status).toBe(400);
    expect(body.errors[0].reason).toMatch(/UTF-8/);
  });

  it("unknown and read-only members are ignored, and so is null for an optional one", async () => {
    const label = freshLabel("sent");
    const sent = {
      label,
      region: "us-east",
      id: 999,
      ipv4: "1.2.3.4",
      created: "x",
      nonsense: { a: 1 },
      client_conn_throttle: null,
      tags: null,
      configs: null,
      clientConnThrottle: 7,
    };
    const { status, body } = await cloud.api.post("/v4/balancers", sent);
    expect(status).toBe(200);
    expect(body).toMatchObject({ label, client_conn_throttle: 0, tags: [] });
    expect(body.id).not.toBe(999);
    expect(body.ipv4).not.toBe("1.2.3.4");
    expect(body).not.toHaveProperty("nonsense");
    const { updated: _, ...same } = body;
    const back = await cloud.api.put(`/v4/balancers/${body.id}`, body);
    expect(back.status).toBe(200);
    expect(back.body).toMatchObject(same);
  });

  it("a null for a required member is missing", async () => {
    const { status, body } = await cloud.api.post("/v4/balancers", { label: null, region: "us-east" });
    expect(status).toBe(400);
    expect(fieldsOf(body)).toEqual(["label"]);
  });

  it("__proto__, constructor and prototype members harm nothing", async () => {
    const label = freshLabel("proto");
    const text = `{"label":"${label}","region":"us-east","__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}},"toString":5}`;
    const { status, body } = await cloud.api.post("/v4/balancers", text);
    expect(status).toBe(200);
    expect(body.label).toBe(label);
    expect(({} as Json).polluted).toBeUndefined();
    expect((await cloud.api.get(`/v4/balancers/${body.id}`)).body).toEqual(body);
  });

  it("actions take an empty body, an empty object and unknown members", async () => {
    const { body: instance } = await cloud.api.post("/v4/cloud/instances", { region: "us-east", type: "g6-nanode-1" });
    for (const body of [undefined, {}, { reason: "x", config_id: null }]) {
      const answer = await cloud.api.post(`/v4/cloud/instances/${instance.id}/boot`, body);
      expect(answer.body.errors[0].reason).toMatch(/bootable config/);
    }
  });
});

describe("the query string", () => {
  it("takes page and page_size on single objects, on actions and on creation", async () => {
    const { body } = await cloud.api.get("/v4/balancers?page=1&page_size=100");
    expect((await cloud.api.get(`/v4/balancers/${body.data[0].id}?page=1&page_size=100`)).status).toBe(200);
    expect((await cloud.api.post("/v4/balancers?page=1&page_size=100", { label: freshLabel(), region: "us-east" })).status).toBe(200);
  });

  it("refuses everything else, with a reason of its own for api_key", async () => {
    const { status, body } = await cloud.api.get("/v4/balancers?foo=1&api_key=abc");
    expect(status).toBe(400);
    expect(fieldsOf(body)).toEqual(["api_key", "foo"]);
    expect(body.errors.find((error: Json) => error.field === "api_key").reason).toMatch(/Authorization: Bearer/);
    expect(body.errors.find((error: Json) => error.field === "foo").reason).toMatch(/JSON body/);
    expect(JSON.stringify(body)).not.toContain("abc");
    expect(selfNaming(body)).toEqual([]);
  });

  it("is judged together with the body: all problems at once", async () => {
    const before = await count();
    const { status, body } = await cloud.api.post("/v4/balancers?label=x&page=0", {
      label: "a",
      region: "nowhere",
      client_conn_throttle: 21,
      tags: ["x"],
    });
    expect(status).toBe(400);
    expect(fieldsOf(body)).toEqual(["client_conn_throttle", "label", "label", "page", "region", "tags[0]"]);
    expect(selfNaming(body)).toEqual([]);
    expect(await count()).toBe(before);
  });

  it("is judged together with a body that is no JSON", async () => {
    const { status, body } = await cloud.api.post("/v4/balancers?foo=1", "{");
    expect(status).toBe(400);
    expect(body.errors).toHaveLength(2);
  });
});

describe("bytes", () => {
  it.each(["hello\r\n\r\n", "\x00\x01\x02\x03\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "BREW /pot HTTP/1.1\r\nHost: localhost\r\n\r\n", "GET /\r\n\r\n"])(
    "%j are answered with 400 in JSON",
    async (bytes) => {
      const { status, headers, body } = await raw(bytes);
      expect(status).toBe(400);
      expect(headers.get("content-type")).toBe("application/json");
      expect(body.errors).toHaveLength(1);
    },
  );

  it("a TLS hello on the plain port is answered with 400, which TLS clients cannot read", async () => {
    const error = await new Promise<NodeJS.ErrnoException>((resolve) => {
      const socket = connectTls({ ...placeOf(cloud.url), rejectUnauthorized: false });
      socket.on("error", resolve);
    });
    expect(error.code).toMatch(/ERR_SSL|EPROTO/);
    const hello = Buffer.from("1603010200010001fc0303", "hex");
    expect((await raw(hello)).status).toBe(400);
  });

  it("a head that is too large is 431", async () => {
    const { status, body } = await raw(`GET /v4/regions HTTP/1.1\r\nHost: localhost\r\nX-Filter: ${"a".repeat(40_000)}\r\n\r\n`);
    expect(status).toBe(431);
    expect(body.errors).toHaveLength(1);
  });

  it("CONNECT is refused in JSON", async () => {
    const { status, headers } = await raw(`CONNECT example.com:443 HTTP/1.1\r\nHost: localhost\r\n\r\n`);
    expect(status).toBe(405);
    expect(headers.get("content-type")).toBe("application/json");
  });

  it("an unknown expectation is no reason for an answer without a body", async () => {
    const { status, body } = await raw(`GET /v4/regions HTTP/1.1\r\nHost: localhost\r\nExpect: miracles\r\nConnection: close\r\n\r\n`);
    expect(status).toBe(417);
    expect(body.errors).toHaveLength(1);
  });

  it("an upgrade is not made: the request is answered as it stands", async () => {
    const { status } = await raw(`GET /v4/regions/us-east HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade, close\r\n\r\n`);
    expect(status).toBe(200);
  });
});

const crossOriginNames = ({ headers }: Answer): string[] => Object.keys(headers).filter((name) => name.startsWith("access-control-"));

describe("Host and Origin", () => {
  const get = (head: string) => raw(`GET /v4/regions/us-east HTTP/1.1\r\n${head}Connection: close\r\n\r\n`);

  it.each(["localhost", "localhost:1", "127.0.0.1", "[::1]:80", "my.localhost"])("the host %s is ours", async (name) => {
    expect((await get(`Host: ${name}\r\n`)).status).toBe(200);
  });

  it.each(["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:4747"])("the host %s is not (DNS rebinding)", async (name) => {
    const { status, body } = await get(`Host: ${name}\r\n`);
    expect(status).toBe(403);
    expect(body.errors[0].field).toBe("Host");
  });

  it("two, none or a malformed one are 400 (RFC 9112 section 3.2)", async () => {
    for (const head of ["Host: localhost\r\nHost: localhost\r\n", "", "Host: a b\r\n", "Host: localhost:99999999\r\n", "Host: \r\n"]) {
      const { status, body } = await get(head);
      expect(status, head).toBe(400);
      expect(body.errors[0].field).toBe("Host");
    }
  });

  it("a page of a foreign origin changes nothing, and its browser may not show it what it asked for", async () => {
    const before = (await events(cloud)).length;
    const { body: balancer } = { body: await createBalancer(cloud) };
    for (const origin of ["https://evil.example", "null", "http://localhost.evil.example", "http://203.0.113.7", "http://[2001:db8::1]:4747"]) {
      const headers = { Origin: origin };
      expect(crossOriginNames(await cloud.api.get("/v4/balancers", headers))).toEqual([]);
      expect(crossOriginNames(await send(cloud.url, "OPTIONS", "/v4/balancers", { ...headers, "Access-Control-Request-Method": "POST" }))).toEqual(
        [],
      );
      for (const answer of [
        await cloud.api.post("/v4/balancers", { label: freshLabel(), region: "us-east" }, headers),
        await cloud.api.put(`/v4/balancers/${balancer.id}`, { label: "stolen" }, headers),
        await cloud.api.del(`/v4/balancers/${balancer.id}`, headers),
      ]) {
        expect(answer.status).toBe(403);
        expect(fieldsOf(answer.body)).toEqual(["Origin"]);
      }
    }
    expect((await events(cloud)).length).toBe(before + 1);
    expect((await cloud.api.get(`/v4/balancers/${balancer.id}`)).body.label).toBe(balancer.label);
    expect((await cloud.api.del(`/v4/balancers/${balancer.id}`, { Origin: `http://${host()}` })).status).toBe(200);
  });

  it("with cors on, pages of other origins read and change with a token, the ones with a cookie stay closed, and Host is still judged", async () => {
    const open = await startCloud({ cors: "on" });
    try {
      const headers = { Origin: "https://app.example" };
      const asked = await send(open.url, "OPTIONS", "/v4/balancers", { ...headers, "Access-Control-Request-Method": "POST" });
      expect(asked.headers["access-control-allow-origin"]).toBe("*");
      expect(asked.headers["access-control-allow-methods"]).toContain("DELETE");
      expect(asked.headers["access-control-allow-headers"]).toContain("Authorization");
      const made = await open.api.post("/v4/balancers", { label: freshLabel(), region: "us-east" }, headers);
      expect([made.status, made.headers["access-control-allow-origin"]]).toEqual([200, "*"]);
      // The Fetch standard refuses the star together with credentials; there are none to send.
      expect(made.headers["access-control-allow-credentials"]).toBeUndefined();
      expect((await send(open.url, "POST", "/v4/balancers", headers, {})).status).toBe(401);
      const page = await fetch(`${open.url}/oauth/authorize`, { headers });
      expect([page.headers.get("content-type"), page.headers.get("access-control-allow-origin")]).toEqual(["text/html; charset=utf-8", null]);
      expect((await open.api.get("/v4/balancers", { ...headers, Host: "evil.example" })).status).toBe(403);
    } finally {
      await open.close();
    }
  });
});
