import { Resolver } from "node:dns/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Json, startCloud, type TestCloud } from "../support/cloud.js";
import { askName, dataOf, type NamePlace, transferOf } from "../support/dns.js";
import { until } from "../support/until.js";
import {
  createBalancer,
  createConfig,
  createInstance,
  createNode,
  dial,
  eventsOf,
  fieldsOf,
  httpServer,
  instanceIn,
  listening,
  nodesStatus,
} from "./world.js";

let cloud: TestCloud;
let place: NamePlace;
let resolver: Resolver;
const placeOf = (running: TestCloud["running"]): NamePlace => {
  if (!running.dns) throw new Error("no name server");
  return running.dns;
};
beforeAll(async () => {
  cloud = await startCloud();
  place = placeOf(cloud.running);
  resolver = new Resolver();
  resolver.setServers([`${place.address}:${place.port}`]);
});
afterAll(() => cloud.close());

const post = async (path: string, body: object): Promise<Json> => {
  const answer = await cloud.api.post(path, body);
  expect(answer.status, JSON.stringify(answer.body)).toBe(200);
  return answer.body;
};
const domainNamed = (domain: string, more: object = {}): Promise<Json> =>
  post("/v4/domains", { type: "master", domain, soa_email: "a@b.test", ...more });
const add = (domain: Json, body: object): Promise<Json> => post(`/v4/domains/${domain.id}/records`, body);
const serialOf = async (name: string): Promise<number> => (await askName(place, name, "SOA")).answers[0]?.data.serial;
const code = (asking: Promise<unknown>): Promise<string> =>
  asking.then(
    () => "answered",
    (error: NodeJS.ErrnoException) => error.code ?? "",
  );

describe("a domain's names", () => {
  it("every type resolves the moment the API has answered", async () => {
    const domain = await domainNamed("types.example", { ttl_sec: 300 });
    await add(domain, { type: "A", name: "www", target: "192.0.2.1" });
    expect(await resolver.resolve4("www.types.example", { ttl: true })).toEqual([{ address: "192.0.2.1", ttl: 300 }]);
    await add(domain, { type: "A", name: "www", target: "192.0.2.2", ttl_sec: 30 });
    expect(await resolver.resolve4("www.types.example")).toEqual(["192.0.2.1", "192.0.2.2"]);
    await add(domain, { type: "AAAA", name: "www", target: "2001:db8::1" });
    expect(await resolver.resolve6("www.types.example")).toEqual(["2001:db8::1"]);
    await add(domain, { type: "CNAME", name: "alias", target: "www" });
    expect(await resolver.resolve6("Alias.types.example")).toEqual(["2001:db8::1"]);
    await add(domain, { type: "MX", target: "mail.elsewhere.example", priority: 7 });
    expect(await resolver.resolveMx("types.example")).toEqual([{ exchange: "mail.elsewhere.example", priority: 7 }]);
    await add(domain, { type: "TXT", target: "first" });
    await add(domain, { type: "TXT", target: "s".repeat(300) });
    expect((await resolver.resolveTxt("types.example")).map((strings) => strings.map((each) => each.length))).toEqual([[5], [255, 45]]);
    await add(domain, { type: "SRV", service: "sip", protocol: "tcp", target: "www", port: 5060, priority: 1, weight: 2 });
    expect(await resolver.resolveSrv("_sip._tcp.types.example")).toEqual([{ name: "www.types.example", port: 5060, priority: 1, weight: 2 }]);
    await add(domain, { type: "CAA", tag: "iodef", target: "security@types.example" });
    expect(await resolver.resolveCaa("types.example")).toEqual([{ critical: 0, iodef: "mailto:security@types.example" }]);
    await add(domain, { type: "NS", target: "ns.elsewhere.example" });
    expect((await resolver.resolveNs("types.example")).sort()).toEqual(["ns.elsewhere.example", "ns1.backlot.test"]);
    await add(domain, { type: "PTR", name: "p", target: "www" });
    expect(await resolver.resolvePtr("p.types.example")).toEqual(["www.types.example"]);
    await add(domain, { type: "A", name: "*", target: "192.0.2.9" });
    expect(await resolver.resolve4("what.ever.types.example")).toEqual(["192.0.2.9"]);
    await add(domain, { type: "NS", name: "child", target: "ns.child" });
    expect(await code(resolver.resolve4("www.child.types.example"))).not.toBe("answered");
  });

  it("changes and deletions show at once, and so does the difference between no name and no record", async () => {
    const domain = await domainNamed("moves.example");
    expect(await code(resolver.resolve4("www.moves.example"))).toBe("ENOTFOUND");
    const record = await add(domain, { type: "A", name: "www", target: "192.0.2.1" });
    expect(await code(resolver.resolve6("www.moves.example"))).toBe("ENODATA");
    await cloud.api.put(`/v4/domains/${domain.id}/records/${record.id}`, { target: "192.0.2.2", name: "web" });
    expect(await resolver.resolve4("web.moves.example")).toEqual(["192.0.2.2"]);
    expect(await code(resolver.resolve4("www.moves.example"))).toBe("ENOTFOUND");
    await cloud.api.del(`/v4/domains/${domain.id}/records/${record.id}`);
    expect(await code(resolver.resolve4("web.moves.example"))).toBe("ENOTFOUND");
    await cloud.api.put(`/v4/domains/${domain.id}`, { domain: "moved.example" });
    expect(await code(resolver.resolveSoa("moves.example"))).toBe("EREFUSED");
    expect((await resolver.resolveSoa("moved.example")).nsname).toBe("ns1.backlot.test");
    await cloud.api.del(`/v4/domains/${domain.id}`);
    expect(await code(resolver.resolveSoa("moved.example"))).toBe("EREFUSED");
  });

  it.each(["disabled", "edit_mode"])("a domain that is %s is refused until it is active again", async (status) => {
    const domain = await domainNamed(`${status.replace("_", "-")}.example`);
    await cloud.api.put(`/v4/domains/${domain.id}`, { status });
    expect(await code(resolver.resolveSoa(domain.domain))).toBe("EREFUSED");
    expect((await cloud.api.put(`/v4/domains/${domain.id}`, { status: "active" })).body.status).toBe("active");
    expect(await code(resolver.resolveSoa(domain.domain))).toBe("answered");
  });

  it("the SOA says what the domain does, and its serial grows with every change", async () => {
    const domain = await domainNamed("serial.example", { soa_email: "jane.doe@serial.example", refresh_sec: 30, retry_sec: 120, expire_sec: 300 });
    expect(await resolver.resolveSoa("serial.example")).toMatchObject({
      hostmaster: "jane\\.doe.serial.example",
      refresh: 30,
      retry: 120,
      expire: 300,
    });
    const serials = [await serialOf("serial.example")];
    const next = async (change: Promise<unknown>) => {
      await change;
      serials.push(await serialOf("serial.example"));
    };
    await next(add(domain, { type: "A", target: "192.0.2.1" }));
    const { data } = (await cloud.api.get(`/v4/domains/${domain.id}/records`)).body;
    await next(cloud.api.put(`/v4/domains/${domain.id}/records/${data[0].id}`, { target: "192.0.2.2" }));
    await next(cloud.api.put(`/v4/domains/${domain.id}`, { description: "other" }));
    await next(cloud.api.del(`/v4/domains/${domain.id}/records/${data[0].id}`));
    expect(serials).toEqual([...new Set(serials)].sort((a, b) => a - b));
    expect(Math.abs((serials[0] ?? 0) - Date.now() / 1000)).toBeLessThan(60);
  });
});

describe("names of our own", () => {
  it("a balancer and an instance resolve by label and by the name the API shows, and their addresses back", async () => {
    const balancer = await createBalancer(cloud, { label: "Front-End" });
    expect(await resolver.resolve4(balancer.hostname)).toEqual([balancer.ipv4]);
    expect(await resolver.resolve4("front-end.balancers.backlot.test")).toEqual([balancer.ipv4]);
    expect(await resolver.reverse(balancer.ipv4)).toEqual([balancer.hostname]);
    const instance = await createInstance(cloud, { label: "Named.web-1", booted: false });
    const [address] = instance.ipv4;
    // Where it really is: on processes the address that is shown stands for one on the loopback.
    const { host } = await dial(cloud, address, 80);
    expect(await resolver.resolve4("named.web-1.instances.backlot.test")).toEqual([host]);
    const name = (await cloud.api.get(`/v4/networking/ips/${address}`)).body.rdns;
    expect(await resolver.resolve4(name)).toEqual([host]);
    expect(await resolver.reverse(address)).toEqual([name]);
    expect(await resolver.reverse(host)).toEqual([name]);
    expect(await resolver.resolve4("ns1.backlot.test")).toEqual(["127.0.0.1"]);
    await cloud.api.put(`/v4/balancers/${balancer.id}`, { label: "Renamed" });
    expect(await code(resolver.resolve4("front-end.balancers.backlot.test"))).toBe("ENOTFOUND");
    await cloud.api.del(`/v4/balancers/${balancer.id}`);
    expect(await code(resolver.reverse(balancer.ipv4))).toBe("ENOTFOUND");
    expect((await askName(place, "1.1.168.192.in-addr.arpa", "PTR")).rcode).toBe("REFUSED");
  });

  it("a chosen reverse name must lead back (contract 10.2), and is answered", async () => {
    const instance = await createInstance(cloud, { booted: false });
    const [address] = instance.ipv4;
    const domain = await domainNamed("reverse.example");
    const set = (rdns: string | null) => cloud.api.put(`/v4/networking/ips/${address}`, { rdns });
    expect(fieldsOf((await set("www.reverse.example")).body)).toEqual(["rdns"]);
    await add(domain, { type: "A", name: "www", target: address });
    expect((await set("www.reverse.example")).status).toBe(200);
    expect(await resolver.reverse(address)).toEqual(["www.reverse.example"]);
    await set(null);
    expect(await resolver.reverse(address)).toEqual([`${address.replaceAll(".", "-")}.ip.backlot.test`]);
  });

  it("a domain of the account's may be a reverse zone, and goes before ours", async () => {
    const balancer = await createBalancer(cloud);
    const parts = balancer.ipv4.split(".");
    const domain = await domainNamed(`${parts[2]}.${parts[1]}.${parts[0]}.in-addr.arpa`);
    await add(domain, { type: "PTR", name: parts[3], target: "mine.example.test" });
    expect(await resolver.reverse(balancer.ipv4)).toEqual(["mine.example.test"]);
    await cloud.api.del(`/v4/domains/${domain.id}`);
    expect(await resolver.reverse(balancer.ipv4)).toEqual([balancer.hostname]);
  });

  it("curl's way: a name of a domain leads to the balancer, and the balancer to the instance", async () => {
    const instance = await instanceIn(cloud, (await createInstance(cloud, { private_ip: true })).id, "running");
    const address = instance.ipv4.find((each: string) => each.startsWith("192.168."));
    await httpServer(await dial(cloud, address, 8089), "from behind the name");
    const balancer = await createBalancer(cloud);
    const config = await createConfig(cloud, balancer.id, { port: 20_089, protocol: "http", check: "connection" });
    await createNode(cloud, config, `${address}:8089`);
    await nodesStatus(cloud, config, 1, 0);
    const { listener } = await listening(cloud, config);
    const domain = await domainNamed("site.example");
    await add(domain, { type: "A", name: "www", target: balancer.ipv4 });
    await add(domain, { type: "A", name: "direct", target: address });
    const [through] = await resolver.resolve4("www.site.example");
    expect(await (await fetch(`http://${through}:${listener.port}/`)).text()).toBe("from behind the name");
    const [direct] = await resolver.resolve4("direct.site.example");
    expect(await (await fetch(`http://${direct}:8089/`)).text()).toBe("from behind the name");
  });
});

describe("whole zones", () => {
  const fill = async (domain: Json): Promise<void> => {
    await add(domain, { type: "A", name: "www", target: "192.0.2.1", ttl_sec: 300 });
    await add(domain, { type: "CNAME", name: "alias", target: "www" });
    await add(domain, { type: "MX", target: "mail", priority: 5 });
    await add(domain, { type: "TXT", name: "t", target: 'with "quotes", \\ and ; marks' });
    await add(domain, { type: "TXT", name: "long", target: "l".repeat(600) });
    await add(domain, { type: "SRV", service: "sip", protocol: "tcp", target: "www", port: 5060, priority: 1, weight: 2 });
    await add(domain, { type: "CAA", tag: "issue", target: "ca.example" });
    await add(domain, { type: "AAAA", name: "*", target: "2001:db8::1" });
    await add(domain, { type: "NS", name: "child", target: "ns.elsewhere.example" });
  };
  const recordsOf = async (domain: Json): Promise<Json[]> => {
    const { data } = (await cloud.api.get(`/v4/domains/${domain.id}/records`)).body;
    return data
      .map(({ id: _, created: __, updated: ___, ttl_sec: ____, ...rest }: Json) => JSON.stringify(rest))
      .sort()
      .map((text: string) => JSON.parse(text.replaceAll(domain.domain, "DOMAIN")));
  };

  it("are given to whom the domain names, and to nobody else", async () => {
    const domain = await domainNamed("given.example");
    await fill(domain);
    expect((await transferOf(place, "given.example")).rcode).toBe("REFUSED");
    await cloud.api.put(`/v4/domains/${domain.id}`, { axfr_ips: ["127.0.0.1"] });
    expect((await transferOf(place, "given.example")).answers).toHaveLength(9 + 3);
  });

  it("are imported from a name server: another domain of the same records", async () => {
    const other = await startCloud();
    try {
      const source = await other.api.post("/v4/domains", {
        type: "master",
        domain: "import.example",
        soa_email: "j.d@b.test",
        axfr_ips: ["127.0.0.1"],
        refresh_sec: 300,
      });
      for (const record of [
        { type: "A", name: "www", target: "192.0.2.1", ttl_sec: 300 },
        { type: "MX", target: "mail.elsewhere.example", priority: 5 },
        { type: "TXT", target: "x".repeat(300) },
        { type: "SRV", service: "sip", protocol: "tcp", target: "www", port: 5060 },
        { type: "CAA", tag: "iodef", target: "mailto:a@b.test" },
        { type: "NS", target: "ns.elsewhere.example" },
      ]) {
        expect((await other.api.post(`/v4/domains/${source.body.id}/records`, record)).status).toBe(200);
      }
      const { address, port } = placeOf(other.running);
      const made = await post("/v4/domains/import", { domain: "import.example", remote_nameserver: `${address}:${port}` });
      expect(made).toMatchObject({ type: "master", domain: "import.example", soa_email: "j.d@b.test", refresh_sec: 300, status: "active" });
      const theirs = (await other.api.get(`/v4/domains/${source.body.id}/records`)).body.data;
      const wanted = theirs
        .filter(({ type }: Json) => type !== "NS")
        .map(({ id: _, created: __, updated: ___, ttl_sec: ____, ...rest }: Json) => rest);
      const ours = (await cloud.api.get(`/v4/domains/${made.id}/records`)).body.data.map(
        ({ id: _, created: __, updated: ___, ttl_sec: ____, ...rest }: Json) => rest,
      );
      const sorted = (rows: Json[]) => rows.map((row) => JSON.stringify(row)).sort();
      expect(sorted(ours)).toEqual(sorted(wanted));
      expect(await resolver.resolve4("www.import.example")).toEqual(["192.0.2.1"]);
      expect(await eventsOf(cloud, "domain", made.id)).toMatchObject([{ action: "domain_import", message: "5 records." }]);
    } finally {
      await other.close();
    }
  });

  it.each([
    [{ domain: "x.example" }, ["remote_nameserver"], /required/],
    [{ domain: "x.example", remote_nameserver: "127.0.0.1:1" }, ["remote_nameserver"], /nothing listens/],
    [{ domain: "x.example", remote_nameserver: "no-such-host.invalid" }, ["remote_nameserver"], /cannot be resolved/],
    [{ domain: "x.example", remote_nameserver: "a b" }, ["remote_nameserver"], /address or a host name/],
    [{ domain: "x.example", remote_nameserver: "127.0.0.1", zone_file: "@ A 192.0.2.1" }, ["zone_file"], /not both/],
    [{ domain: "bad", remote_nameserver: "a b" }, ["domain", "remote_nameserver"], /valid/],
    [{ domain: "x.example", zone_file: "nothing at all" }, ["zone_file"], /no record/],
    [{ domain: "x.example", zone_file: "$INCLUDE /etc/passwd\n@ IN A 192.0.2.1" }, ["zone_file"], /INCLUDE/],
  ])("%j cannot be imported: %j", async (body, fields, reason) => {
    const { status, body: answer } = await cloud.api.post("/v4/domains/import", body);
    expect([status, fieldsOf(answer)]).toEqual([400, fields]);
    expect(answer.errors[0].reason).toMatch(reason);
  });

  it("a server that refuses says so in the answer, and no domain is made", async () => {
    const domain = await domainNamed("closed.example");
    await cloud.api.del(`/v4/domains/${domain.id}`);
    const { status, body } = await cloud.api.post("/v4/domains/import", { domain: "closed.example", remote_nameserver: `127.0.0.1:${place.port}` });
    expect([status, body.errors[0].field]).toEqual([400, "remote_nameserver"]);
    expect(body.errors[0].reason).toMatch(/closed\.example could not be fetched .*refuses/);
    expect((await cloud.api.get("/v4/domains", { "X-Filter": '{"domain":"closed.example"}' })).body.results).toBe(0);
  });

  it("come as a zone file and go back in", async () => {
    const domain = await domainNamed("file.example", { ttl_sec: 300 });
    await fill(domain);
    const { body } = await cloud.api.get(`/v4/domains/${domain.id}/zone-file`);
    const text = body.zone_file.join("\n");
    expect(text).toMatch(/^file\.example\.\tIN\tSOA\tns1\.backlot\.test\. a\.b\.test\. \d+ 14400 14400 1209600 30$/m);
    expect(text).toContain('t.file.example.\t300\tIN\tTXT\t"with \\"quotes\\", \\\\ and ; marks"');
    const again = await post("/v4/domains/import", { domain: "copied.example", zone_file: text.replaceAll("file.example", "copied.example") });
    expect(await recordsOf(again)).toEqual(await recordsOf(domain));
  });

  it("a zone file as people write it is read, and what was left out is said", async () => {
    const text = `$TTL 1h
@   IN SOA ns1 hostmaster (
        2024010101 ; serial
        2h 15m 1w 1h )
    IN NS ns1
@   IN MX 10 mail
www 300 IN A 192.0.2.1
    IN A 192.0.2.2
ftp IN CNAME www
_sip._tcp SRV 1 2 5060 www
txt IN TXT "one " "two"
key IN DNSKEY 257 3 8 AwEAAaz/
bad IN A 999.1.1.1
`;
    const domain = await post("/v4/domains/import", { domain: "people.example", zone_file: text });
    expect(domain).toMatchObject({ soa_email: "hostmaster@people.example", refresh_sec: 7200, retry_sec: 3600, expire_sec: 604_800 });
    expect((await resolver.resolve4("ftp.people.example")).sort()).toEqual(["192.0.2.1", "192.0.2.2"]);
    expect(await resolver.resolveMx("people.example")).toEqual([{ exchange: "mail.people.example", priority: 10 }]);
    expect(await resolver.resolveTxt("txt.people.example")).toEqual([["one two"]]);
    expect(await resolver.resolveSrv("_sip._tcp.people.example")).toMatchObject([{ name: "www.people.example", port: 5060 }]);
    const [event] = await eventsOf(cloud, "domain", domain.id);
    expect(event.message).toMatch(/6 records\. Left out: .*DNSKEY.*bad\.people\.example A/);
  });
});

describe("a slave", () => {
  it("is fetched from its master, follows it, and says what is wrong when it cannot", async () => {
    const master = await startCloud();
    const { port } = placeOf(master.running);
    const source = (await master.api.post("/v4/domains", { type: "master", domain: "slave.example", soa_email: "a@b.test", axfr_ips: [] })).body;
    await master.api.post(`/v4/domains/${source.id}/records`, { type: "A", name: "www", target: "192.0.2.1" });
    const slave = await domainNamed("slave.example", {
      type: "slave",
      master_ips: [`127.0.0.1:${port}`],
      refresh_sec: 30,
      retry_sec: 30,
      soa_email: "",
    });
    const shown = async (): Promise<Json> => (await cloud.api.get(`/v4/domains/${slave.id}`)).body;
    await until(async () => (await shown()).status === "has_errors", { what: "the refusal in the record" });
    expect((await shown()).errors).toMatch(/slave\.example could not be fetched from 127\.0\.0\.1 \(port \d+\): it refuses/);
    expect(await code(resolver.resolve4("www.slave.example"))).toBe("ESERVFAIL");
    await master.api.put(`/v4/domains/${source.id}`, { axfr_ips: ["127.0.0.1"] });
    await until(async () => (await shown()).status === "active", { what: "the fetched zone" });
    expect((await shown()).errors).toBe("");
    expect(await resolver.resolve4("www.slave.example")).toEqual(["192.0.2.1"]);
    const serial = async (at: NamePlace) => (await askName(at, "slave.example", "SOA")).answers[0]?.data.serial;
    expect(await serial(place)).toBe(await serial(placeOf(master.running)));
    await master.api.post(`/v4/domains/${source.id}/records`, { type: "A", name: "new", target: "192.0.2.2" });
    await until(async () => (await code(resolver.resolve4("new.slave.example"))) === "answered", { what: "the refreshed zone" });
    await master.close();
    await until(async () => (await shown()).status === "has_errors", { what: "the lost master in the record" });
    expect((await shown()).errors).toMatch(/nothing listens there/);
    expect(await resolver.resolve4("www.slave.example")).toEqual(["192.0.2.1"]);
    await cloud.api.del(`/v4/domains/${slave.id}`);
    expect(await code(resolver.resolve4("www.slave.example"))).toBe("EREFUSED");
  });
});

describe("the name server", () => {
  it("is shown in health, at /_backlot/dns and in the capabilities", async () => {
    expect((await cloud.api.get("/_backlot/health")).body.dns).toEqual(place);
    expect((await cloud.api.get("/_backlot/dns")).body).toMatchObject({ ...place, guests: { addresses: [], problem: null } });
    const { rows } = (await cloud.api.get("/_backlot/capabilities")).body;
    const names = rows.filter(({ subject }: Json) => subject.startsWith("names"));
    expect(names.map(({ subject, real }: Json) => [subject, real])).toContainEqual(["names: instances use Backlot's name server", false]);
  });

  it("refuses foreign names, and looks them up when that is asked for", async () => {
    expect(await code(resolver.resolve4("www.foreign.invalid"))).toBe("EREFUSED");
    const forwarding = await startCloud({ dnsForward: true, dnsUpstream: `127.0.0.1:${place.port}` });
    try {
      const asked = placeOf(forwarding.running);
      const domain = await domainNamed("upstream.example");
      await add(domain, { type: "A", target: "192.0.2.33" });
      expect(dataOf((await askName(asked, "upstream.example", "A", { flags: 0x0100 })).answers)).toEqual(["192.0.2.33"]);
    } finally {
      await forwarding.close();
    }
  });

  it("may be off", async () => {
    const without = await startCloud({ dnsPort: "off" });
    try {
      expect(without.running.dns).toBeNull();
      expect((await without.api.get("/_backlot/health")).body.dns).toBeNull();
      expect((await without.api.get("/_backlot/dns")).status).toBe(404);
      const { body } = await without.api.post("/v4/domains", { type: "master", domain: "off.example", soa_email: "a@b.test" });
      expect(body.status).toBe("active");
    } finally {
      await without.close();
    }
  });

  it("after a restart answers the same, and the serials never go back", async () => {
    const first = await startCloud();
    const domain = (await first.api.post("/v4/domains", { type: "master", domain: "kept.example", soa_email: "a@b.test" })).body;
    for (let at = 0; at < 30; at += 1) await first.api.post(`/v4/domains/${domain.id}/records`, { type: "A", name: `h${at}`, target: "192.0.2.1" });
    const before = (await askName(placeOf(first.running), "kept.example", "SOA")).answers[0]?.data.serial;
    await first.close({ keepState: true });
    const again = await startCloud({ state: first.state });
    try {
      const at = placeOf(again.running);
      expect((await askName(at, "kept.example", "SOA")).answers[0]?.data.serial).toBe(before);
      expect(dataOf((await askName(at, "h29.kept.example", "A")).answers)).toEqual(["192.0.2.1"]);
      await again.api.post(`/v4/domains/${domain.id}/records`, { type: "A", name: "more", target: "192.0.2.1" });
      expect((await askName(at, "kept.example", "SOA")).answers[0]?.data.serial).toBeGreaterThan(before);
    } finally {
      await again.close();
    }
  });
});
