import { createHash, X509Certificate } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { connect } from "node:tls";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { selfSignedCertificate } from "#backlot/kernel/certificate.js";
import { type Json, startCloud, type TestCloud } from "../support/cloud.js";
import { until } from "../support/until.js";
import {
  closeWorld,
  configPath,
  createBalancer,
  createConfig,
  createNode,
  dial,
  events,
  eventsOf,
  fieldsOf,
  httpServer,
  isListening,
  listening,
  nodesStatus,
  placeOfListener,
  unheldAddress,
} from "./world.js";

interface Pair {
  cert: string;
  key: string;
}

let cloud: TestCloud;
let [good, better, expired, blank]: Pair[] = [];
beforeAll(async () => {
  const make = (commonName: string, more: object = {}) =>
    selfSignedCertificate({ commonName, country: "DE", altNames: [commonName], days: 30, ...more });
  [cloud, good, better, expired, blank] = await Promise.all([
    startCloud(),
    make("good.test"),
    make("better.test"),
    make("expired.test", { days: 1, notBeforeMs: Date.parse("2018-01-01T00:00:00Z") }),
    make("blank.test", { blankSubject: true }),
  ]);
});
afterEach(closeWorld);
afterAll(() => cloud.close());

const ssl = (pair: Pair | undefined) => ({ ssl_cert: pair?.cert, ssl_key: pair?.key });

/** A verified GET; `ca` alone is trusted. */
const secureGet = (config: Json, servername: string, ca: string | undefined): Promise<string> =>
  new Promise((resolve, reject) => {
    const socket = connect({ ...placeOfListener(config), servername, ca }, () =>
      socket.write(`GET / HTTP/1.1\r\nHost: ${servername}\r\nConnection: close\r\n\r\n`),
    );
    let text = "";
    socket.on("data", (chunk: Buffer) => {
      text += chunk.toString("latin1");
    });
    socket.on("error", reject);
    socket.on("end", () => resolve(text));
  });

const servedFingerprint = (config: Json): Promise<string> =>
  new Promise((resolve, reject) => {
    const socket = connect({ ...placeOfListener(config), rejectUnauthorized: false }, () => {
      resolve(socket.getPeerCertificate().fingerprint);
      socket.destroy();
    });
    socket.on("error", reject);
  });

/** A config on plain http with one node that answers. */
const front = async (more: object = {}) => {
  const balancer = await createBalancer(cloud);
  const config = await createConfig(cloud, balancer.id, { port: 20_400, check: "connection", check_interval: 2, check_timeout: 1, ...more });
  const address = unheldAddress(cloud);
  await createNode(cloud, config, `${address}:8080`);
  await httpServer(await dial(cloud, address, 8080), (request, response) => void response.end(`over ${request.headers["x-forwarded-proto"]}`));
  await nodesStatus(cloud, config, 1, 0);
  return listening(cloud, config);
};

describe("https (description 4.3 step 6)", () => {
  it("an http config becomes https on another port, with a certificate clients can verify", async () => {
    const config = await front();
    const { status, body } = await cloud.api.put(configPath(config), { protocol: "https", port: 20_443, ...ssl(good) });
    expect(status).toBe(200);
    const fingerprint = new X509Certificate(good?.cert ?? "").fingerprint;
    expect(body).toMatchObject({
      protocol: "https",
      port: 20_443,
      ssl_cert: "<REDACTED>",
      ssl_key: "<REDACTED>",
      ssl_commonname: "good.test",
      ssl_fingerprint: fingerprint,
    });
    expect(fingerprint).toBe(
      createHash("sha1")
        .update(new X509Certificate(good?.cert ?? "").raw)
        .digest("hex")
        .toUpperCase()
        .match(/../g)
        ?.join(":"),
    );
    const open = await until(async () => {
      const { body: now } = await cloud.api.get(configPath(config));
      return now.listener.port === 20_443 && now;
    });
    expect(await secureGet(open, "good.test", good?.cert)).toMatch(/^HTTP\/1\.1 200 [\s\S]*over https$/);
    await expect(secureGet(open, "good.test", better?.cert)).rejects.toThrow();
    await until(async () => !(await isListening(placeOfListener(config))), { what: "the plain port to refuse" });
    expect(await eventsOf(cloud, "balancer", config.balancer_id, { action: "balancer_config_update" })).toHaveLength(1);
  });

  it("a certificate is swapped on the open port, and what is read back changes nothing", async () => {
    const config = await listening(cloud, await front({ protocol: "https", ...ssl(good) }));
    const port = config.listener.port;
    expect(await secureGet(config, "good.test", good?.cert)).toContain("over https");
    expect((await cloud.api.put(configPath(config), ssl(better))).body.ssl_commonname).toBe("better.test");
    await until(() => secureGet(config, "better.test", better?.cert).then((text) => text.includes("over https")));
    const { body } = await cloud.api.get(configPath(config));
    expect(body.listener.port).toBe(port);
    const back = await cloud.api.put(configPath(config), { ...body, label: "sent back whole" });
    expect(back.status).toBe(200);
    expect(back.body).toMatchObject({ label: "sent back whole", ssl_commonname: "better.test", ssl_fingerprint: body.ssl_fingerprint });
    expect(await secureGet(config, "better.test", better?.cert)).toContain("over https");
  });

  it.each([
    ["a blank subject", () => ssl(blank), ["ssl_cert"]],
    ["garbage", () => ({ ssl_cert: "garbage", ssl_key: "garbage" }), ["ssl_cert", "ssl_key"]],
    ["a megabyte of garbage", () => ({ ssl_cert: "A".repeat(1024 * 1024), ssl_key: good?.key }), ["ssl_cert"]],
    ["the key of another", () => ({ ssl_cert: good?.cert, ssl_key: better?.key }), ["ssl_key"]],
    ["only a new certificate", () => ({ ssl_cert: better?.cert }), ["ssl_key"]],
    ["no certificate", () => ({ ssl_cert: null }), ["ssl_cert"]],
    ["an empty key", () => ({ ssl_key: "" }), ["ssl_key"]],
    ["placeholder and nothing", () => ({ ssl_cert: "<REDACTED>", ssl_key: null }), ["ssl_key"]],
  ])("%s is refused, and the old certificate goes on serving", async (_what, sent, fields) => {
    const config = await front({ protocol: "https", ...ssl(good) });
    const before = (await events(cloud)).length;
    const { status, body } = await cloud.api.put(configPath(config), sent());
    expect([status, [...new Set(fieldsOf(body))]]).toEqual([400, fields]);
    expect(JSON.stringify(body)).not.toMatch(/AAAAAAAA|garbage/);
    for (const line of [good, better, blank].flatMap((pair) => `${pair?.cert}${pair?.key}`.split("\n")).filter((text) => /^[^-]{20,}/.test(text))) {
      expect(JSON.stringify(body)).not.toContain(line);
    }
    expect((await events(cloud)).length).toBe(before);
    expect((await cloud.api.get(configPath(config))).body).toMatchObject({ ssl_commonname: "good.test", listener: config.listener });
    expect(await secureGet(config, "good.test", good?.cert)).toContain("over https");
  });

  it("a blank subject is refused at creation too, and nothing listens", async () => {
    const balancer = await createBalancer(cloud);
    const { status, body } = await cloud.api.post(`/v4/balancers/${balancer.id}/configs`, { port: 20_401, protocol: "https", ...ssl(blank) });
    expect([status, fieldsOf(body)]).toEqual([400, ["ssl_cert"]]);
    expect(body.errors[0].reason).toMatch(/subject|country|common/i);
    expect((await cloud.api.get(`/v4/balancers/${balancer.id}/configs`)).body.results).toBe(0);
    expect(await isListening({ host: balancer.ipv4, port: 20_401 })).toBe(false);
  });

  it("an expired certificate is taken, served, and warned of in an event", async () => {
    const config = await front({ protocol: "https", ...ssl(expired) });
    expect(await servedFingerprint(config)).toBe(config.ssl_fingerprint);
    const [warning, ...more] = await eventsOf(cloud, "balancer_config", config.id);
    expect(warning).toMatchObject({
      action: "balancer_certificate_warning",
      status: "notification",
      entity: { id: config.id, type: "balancer_config" },
    });
    expect(warning.message).toMatch(/expired at 2018-01-02/);
    expect(more).toEqual([]);
    await expect(secureGet(config, "expired.test", expired?.cert)).rejects.toThrow(/expired/);
  });

  it("a certificate waits with http until the protocol is switched", async () => {
    const config = await front({ ...ssl(good) });
    expect(config).toMatchObject({ protocol: "http", ssl_cert: "<REDACTED>", ssl_commonname: "good.test" });
    expect((await cloud.api.put(configPath(config), { protocol: "https" })).status).toBe(200);
    await until(() => secureGet(config, "good.test", good?.cert).then((text) => text.includes("over https")));
    const plain = await cloud.api.put(configPath(config), { protocol: "http", ssl_cert: null, ssl_key: null });
    expect(plain.body).toMatchObject({ ssl_cert: null, ssl_key: null, ssl_commonname: "", ssl_fingerprint: "" });
  });

  it("no PEM is ever shown: not in a record, a list, an event or our own endpoints", async () => {
    await front({ protocol: "https", ...ssl(good) });
    const balancers = (await cloud.api.get("/v4/balancers?page_size=500")).body.data;
    const shown = [
      balancers,
      await events(cloud),
      (await cloud.api.get("/_backlot/health")).body,
      (await cloud.api.get("/_backlot/capabilities")).body,
    ];
    for (const { id } of balancers) shown.push((await cloud.api.get(`/v4/balancers/${id}/configs`)).body);
    const keyLine = good?.key.split("\n")[3] ?? "";
    const certLine = good?.cert.split("\n")[3] ?? "";
    expect(keyLine.length).toBe(64);
    for (const text of shown.map((value) => JSON.stringify(value))) {
      expect(text).not.toContain("BEGIN");
      expect(text).not.toContain(keyLine);
      expect(text).not.toContain(certLine);
    }
    // The state must hold them, to serve them after a restart, and only there.
    const holders = readdirSync(cloud.state).filter((name) => {
      try {
        return readFileSync(join(cloud.state, name), "latin1").includes(keyLine);
      } catch {
        return false;
      }
    });
    expect(holders.length).toBeGreaterThan(0);
  });
});
