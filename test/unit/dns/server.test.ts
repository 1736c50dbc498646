import { createSocket, Socket } from "node:dgram";
import { Resolver } from "node:dns/promises";
import { connect, createServer } from "node:net";
import { encode } from "dns-packet";
import { afterEach, describe, expect, it, vi } from "vitest";
import { type NameServer, type NameServerOptions, openNameServer } from "#backlot/dns/server.js";
import { fetchZone } from "#backlot/dns/transfer.js";
import type { Zone, ZoneRecord } from "#backlot/kernel/names.js";
import { askName, dataOf, framed, type NamePlace, question, read, sendTcp, sendUdp, transferOf } from "../../support/dns.js";
import { until } from "../../support/until.js";

const closers: Array<() => Promise<unknown> | unknown> = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

const open = async (more: Partial<NameServerOptions> = {}): Promise<NameServer & { problems: string[] }> => {
  const problems: string[] = [];
  const server = await openNameServer({
    host: "127.0.0.1",
    port: 0,
    forward: false,
    guestPools: [],
    upstreams: () => [],
    onProblem: (reason) => problems.push(reason),
    ...more,
  });
  closers.push(() => server.close());
  return Object.assign(server, { problems });
};

const zone = (apex: string, records: ZoneRecord[] = [], more: Partial<Zone> = {}): Zone => ({
  apex,
  ttl: 300,
  soa: { server: "ns1.backlot.test", email: "a@example.test", serial: 1, refresh: 1, retry: 1, expire: 1, minimum: 1 },
  records,
  transferTo: [],
  ...more,
});
/** The name server's own failure: a zone that cannot be made. */
const broken = (): never => {
  throw new Error("no such zone can be made");
};
const www = (address: string): ZoneRecord => ({ name: "www.example.test", ttl: 60, data: { type: "A", address } });

/** Another resolver, that knows one name; it counts what it is asked. */
const stub = async (address: string): Promise<NamePlace & { asked: string[] }> => {
  const asked: string[] = [];
  const answer = (bytes: Buffer): Buffer => {
    const query = read(bytes);
    asked.push(query.questions?.[0]?.name ?? "");
    return encode({
      type: "response",
      id: query.id,
      flags: 0x0180,
      questions: query.questions,
      answers: [{ type: "A", name: query.questions?.[0]?.name ?? "", ttl: 5, data: address }],
    });
  };
  const tcp = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.on("data", (bytes) => socket.end(framed(answer(bytes.subarray(2)))));
  });
  const port = await new Promise<number>((resolve) => tcp.listen(0, "127.0.0.1", () => resolve((tcp.address() as { port: number }).port)));
  const udp = createSocket("udp4");
  udp.on("message", (bytes, from) => {
    // A forged answer first: it must not be believed.
    const forged = answer(bytes);
    forged[forged.length - 1] = 66;
    forged.writeUInt16BE((forged.readUInt16BE(0) + 1) % 65_536, 0);
    udp.send(forged, from.port, from.address);
    udp.send(answer(bytes), from.port, from.address);
  });
  await new Promise<void>((resolve) => udp.bind(port, "127.0.0.1", resolve));
  closers.push(() => {
    tcp.close();
    udp.close();
  });
  return { address: "127.0.0.1", port, asked };
};

describe("the sockets", () => {
  it("take no harm from a datagram whose sender left its port out", async () => {
    const bind = vi.spyOn(Socket.prototype, "bind");
    const server = await open();
    const [socket] = bind.mock.contexts as Socket[];
    bind.mockRestore();
    server.put("example.test", () => zone("example.test", [www("192.0.2.1")]));
    const sender = { address: "127.0.0.1", family: "IPv4", port: 0, size: 0 };
    expect(() => socket?.emit("message", question("www.example.test", "A"), sender)).not.toThrow();
  });

  it("answer SERVFAIL where the server itself fails, tell it once, and go on", async () => {
    const server = await open();
    server.put("broken.test", broken);
    server.put("example.test", () => zone("example.test", [www("192.0.2.1")]));
    const asked = question("www.broken.test", "A");
    for (const answer of [await sendUdp(server, asked), ...(await sendTcp(server, [framed(asked)], 1))]) {
      expect(read(answer)).toMatchObject({ rcode: "SERVFAIL", id: read(asked).id });
    }
    expect(dataOf((await askName(server, "www.example.test", "A")).answers)).toEqual(["192.0.2.1"]);
    expect(server.problems).toEqual(["The name server could not answer a query: no such zone can be made."]);
  });

  it("answer although there is no way to the resolver that a query is passed on to", async () => {
    // Nothing may be sent to a broadcast address: connecting fails at once, as it does to any address when this machine is offline.
    const server = await open({ forward: true, upstreams: () => [{ host: "255.255.255.255", port: 53 }] });
    expect((await askName(server, "elsewhere.invalid", "A", { flags: 0x0100 })).rcode).toBe("SERVFAIL");
  });

  it("answer for a zone with a record that grew beyond all messages when it was read", async () => {
    const server = await open();
    const caa: ZoneRecord = { name: "example.test", ttl: 60, data: { type: "CAA", critical: false, tag: "issue", value: "\ufffd".repeat(40_000) } };
    server.put("example.test", () => zone("example.test", [caa, www("192.0.2.1")]));
    expect((await askName(server, "www.example.test", "A")).rcode).toBe("NOERROR");
  });

  it("answer a real resolver over UDP and TCP", async () => {
    const server = await open();
    server.put("example.test", () => zone("example.test", [www("192.0.2.1")]));
    const resolver = new Resolver();
    resolver.setServers([`127.0.0.1:${server.port}`]);
    expect(await resolver.resolve4("www.example.test")).toEqual(["192.0.2.1"]);
    await expect(resolver.resolve4("no.example.test")).rejects.toMatchObject({ code: "ENOTFOUND" });
    await expect(resolver.resolve6("www.example.test")).rejects.toMatchObject({ code: "ENODATA" });
    await expect(resolver.resolve4("www.example.org")).rejects.toMatchObject({ code: "EREFUSED" });
    expect(dataOf((await askName(server, "www.example.test", "A", { tcp: true })).answers)).toEqual(["192.0.2.1"]);
  });

  it("an answer too long for UDP comes over TCP, as a resolver does it by itself", async () => {
    const server = await open();
    const records = Array.from({ length: 200 }, (_, at): ZoneRecord => www(`198.51.100.${at}`));
    server.put("example.test", () => zone("example.test", records));
    const resolver = new Resolver();
    resolver.setServers([`127.0.0.1:${server.port}`]);
    expect(await resolver.resolve4("www.example.test")).toHaveLength(200);
    expect((await askName(server, "www.example.test", "A")).flag_tc).toBe(true);
  });

  it("TCP: several questions at once, in pieces, and rubbish between", async () => {
    const server = await open();
    server.put("example.test", () => zone("example.test", [www("192.0.2.1")]));
    const questions = Array.from({ length: 20 }, () => question("www.example.test", "A"));
    const stream = Buffer.concat([...questions.map(framed), framed(Buffer.from("rubbish")), framed(Buffer.alloc(0))]);
    const pieces = [stream.subarray(0, 1), stream.subarray(1, 30), stream.subarray(30)];
    const answers = (await sendTcp(server, pieces, 20)).map(read);
    expect(answers.map(({ id }) => id)).toEqual(questions.map((bytes) => bytes.readUInt16BE(0)));
  });

  it("UDP: what is no query gets no answer, and the next one does", async () => {
    const server = await open();
    server.put("example.test", () => zone("example.test", [www("192.0.2.1")]));
    const socket = createSocket("udp4");
    closers.push(() => socket.close());
    for (const rubbish of [Buffer.alloc(0), Buffer.from("x"), Buffer.alloc(65_000, 0xff)]) socket.send(rubbish, server.port, "127.0.0.1");
    expect(read(await sendUdp(server, question("www.example.test", "A"))).answers).toHaveLength(1);
  });

  it("closing hangs up on open connections and frees the port for both", async () => {
    const server = await open();
    const socket = connect(server.port, "127.0.0.1");
    const ended = new Promise((resolve) => socket.once("close", resolve));
    await new Promise((resolve) => socket.once("connect", resolve));
    await server.close();
    await ended;
    const again = await open({ port: server.port });
    expect([again.port, again.problems]).toEqual([server.port, []]);
  });

  it("a taken port does not fail the start: another is taken, and that is said", async () => {
    const first = await open();
    const second = await open({ port: first.port });
    expect(second.port).not.toBe(first.port);
    expect(second.problems).toEqual([expect.stringMatching(new RegExp(`Port ${first.port} .* is taken.*port ${second.port}.*--dns-port`))]);
    const socket = createSocket("udp4");
    await new Promise<void>((resolve) => socket.bind(0, "127.0.0.1", resolve));
    closers.push(() => socket.close());
    const third = await open({ port: socket.address().port });
    expect(third.problems).toHaveLength(1);
    await expect(open({ host: "192.0.2.77" })).rejects.toMatchObject({ code: "EADDRNOTAVAIL" });
  });
});

describe("zones", () => {
  it("are made with the first question after a change, once", async () => {
    const server = await open();
    let made = 0;
    const make = () => {
      made += 1;
      return zone("example.test", [www(`192.0.2.${made}`)]);
    };
    server.put("Example.TEST.", make);
    server.put("example.test", make);
    expect(made).toBe(0);
    for (const _ of [1, 2, 3]) expect(dataOf((await askName(server, "www.example.test", "A")).answers)).toEqual(["192.0.2.1"]);
    server.put("example.test", make);
    expect(dataOf((await askName(server, "www.example.test", "A")).answers)).toEqual(["192.0.2.2"]);
    server.put("example.test", () => undefined);
    expect((await askName(server, "www.example.test", "A")).rcode).toBe("SERVFAIL");
    server.put("example.test", undefined);
    expect((await askName(server, "www.example.test", "A")).rcode).toBe("REFUSED");
  });

  it("12,000 records of one zone, and of one name, are ready in a moment and transferred whole", async () => {
    const server = await open();
    const records = Array.from(
      { length: 12_000 },
      (_, at): ZoneRecord => ({
        name: `h${at % 6000}.example.test`,
        ttl: 60,
        data: { type: "A", address: `198.18.${at >> 8}.${at & 255}` },
      }),
    );
    const same = Array.from({ length: 12_000 }, (_, at): ZoneRecord => www(`198.19.${at >> 8}.${at & 255}`));
    server.put("example.test", () => zone("example.test", records, { transferTo: ["127.0.0.1"] }));
    server.put("same.test", () =>
      zone(
        "same.test",
        same.map((each) => ({ ...each, name: "same.test" })),
      ),
    );
    expect((await askName(server, "same.test", "A", { tcp: true })).rcode).toBe("NOERROR");
    const fetched = await fetchZone("example.test", { host: "127.0.0.1", port: server.port, withinMs: 10_000 });
    expect(fetched.records).toHaveLength(12_000);
    expect(new Set(fetched.records.map(({ name, data }) => `${name} ${JSON.stringify(data)}`)).size).toBe(12_000);
  });
});

describe("transfers", () => {
  const all: ZoneRecord[] = [
    { name: "example.test", ttl: 300, data: { type: "NS", host: "ns1.backlot.test" } },
    { name: "example.test", ttl: 60, data: { type: "MX", preference: 5, host: "mail.example.test" } },
    { name: "null.example.test", ttl: 60, data: { type: "MX", preference: 0, host: "" } },
    { name: "example.test", ttl: 60, data: { type: "TXT", text: "t".repeat(300) } },
    { name: "example.test", ttl: 60, data: { type: "CAA", critical: true, tag: "issue", value: "ca.test" } },
    { name: "_sip._tcp.example.test", ttl: 60, data: { type: "SRV", priority: 1, weight: 2, port: 3, host: "www.example.test" } },
    { name: "www.example.test", ttl: 60, data: { type: "A", address: "192.0.2.1" } },
    { name: "www.example.test", ttl: 60, data: { type: "AAAA", address: "2001:db8::1" } },
    { name: "*.example.test", ttl: 60, data: { type: "CNAME", host: "www.example.test" } },
    { name: "p.example.test", ttl: 60, data: { type: "PTR", host: "www.example.test" } },
  ];

  it("go to whom the domain names, begin and end with the SOA, and come back as they were", async () => {
    const server = await open();
    server.put("example.test", () => zone("example.test", all, { transferTo: ["127.0.0.1"] }));
    const { answers } = await transferOf(server, "example.test");
    expect([answers[0]?.type, answers.at(-1)?.type, answers.length]).toEqual(["SOA", "SOA", all.length + 2]);
    const fetched = await fetchZone("EXAMPLE.test", { host: "localhost", port: server.port, withinMs: 5_000 });
    expect(fetched.soa).toEqual(zone("example.test").soa);
    const byText = (records: readonly ZoneRecord[]) => records.map((each) => JSON.stringify(each)).sort();
    expect(byText(fetched.records)).toEqual(byText(all));
    // Over UDP a transfer is refused, whoever asks.
    expect((await askName(server, "example.test", "AXFR")).rcode).toBe("REFUSED");
    server.put("example.test", () => zone("example.test", all, { transferTo: ["192.0.2.1"] }));
    expect((await transferOf(server, "example.test")).rcode).toBe("REFUSED");
  });

  const nobody = async (): Promise<number> => {
    const server = createServer();
    const port = await new Promise<number>((resolve) => server.listen(0, "127.0.0.1", () => resolve((server.address() as { port: number }).port)));
    await new Promise((resolve) => server.close(resolve));
    return port;
  };
  const talker = async (say: (socket: import("node:net").Socket, query: Buffer) => void): Promise<number> => {
    const server = createServer((socket) => {
      socket.on("error", () => undefined);
      socket.once("data", (bytes) => say(socket, bytes.subarray(2)));
    });
    closers.push(() => server.close());
    return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve((server.address() as { port: number }).port)));
  };
  const reason = (port: number, more = {}) =>
    fetchZone("example.test", { host: "127.0.0.1", port, withinMs: 2_000, ...more }).then(
      () => "it came",
      (error: Error) => error.message,
    );
  const soa = (id: number, name: string) => ({
    type: "response" as const,
    id,
    answers: [{ type: "SOA" as const, name, ttl: 1, data: { mname: "n.test", rname: "a.test", serial: 1 } }],
  });

  it("say why they failed", async () => {
    const server = await open();
    expect(await reason(server.port)).toMatch(/example\.test could not be fetched from 127\.0\.0\.1 \(port \d+\): it refuses the transfer/);
    expect(await reason(await nobody())).toMatch(/nothing listens there/);
    expect(await reason(53, { host: "no-such-host.invalid" })).toMatch(/cannot be resolved/);
    expect(await reason(await talker((socket) => socket.end()))).toMatch(/hung up before the end/);
    expect(await reason(await talker(() => undefined), { withinMs: 50 })).toMatch(/longer than/);
    expect(await reason(await talker((socket) => socket.write(framed(Buffer.from("no message at all")))))).toMatch(/malformed|something else/);
    expect(await reason(await talker((socket, query) => socket.write(framed(encode(soa(query.readUInt16BE(0) ^ 1, "example.test"))))))).toMatch(
      /something else/,
    );
    expect(await reason(await talker((socket, query) => socket.end(framed(encode(soa(query.readUInt16BE(0), "example.test"))))))).toMatch(
      /before the end/,
    );
    expect(await reason(await talker((socket, query) => socket.end(framed(encode(soa(query.readUInt16BE(0), "other.test"))))))).toMatch(
      /answered for other/,
    );
    expect(await reason(await talker((socket, query) => socket.write(framed(query.fill(0x81, 2, 3)))))).toMatch(/empty/);
  });
});

describe("names beyond ours", () => {
  it("are looked up for guests' addresses and for nobody else", async () => {
    const upstream = await stub("203.0.113.5");
    const server = await open({ upstreams: () => [{ host: "127.0.0.1", port: upstream.port }], guestPools: ["127.0.0.0/8"] });
    expect((await askName(server, "www.example.org", "A", { flags: 0x0100 })).rcode).toBe("REFUSED");
    expect(upstream.asked).toEqual([]);
  });

  it("are looked up for this machine when that is asked for, over the transport of the question, ids and all", async () => {
    const upstream = await stub("203.0.113.5");
    const server = await open({
      upstreams: () => [
        { host: "127.0.0.1", port: 1 },
        { host: "127.0.0.1", port: upstream.port },
      ],
      forward: true,
    });
    for (const tcp of [false, true]) {
      const reply = await askName(server, "WWW.example.org", "A", { tcp, flags: 0x0100 });
      expect([reply.rcode, dataOf(reply.answers), reply.flag_aa]).toEqual(["NOERROR", ["203.0.113.5"], false]);
    }
    expect(server.counts()).toMatchObject({ forwarded: 2 });
    // Without the wish for recursion nobody else is asked.
    expect((await askName(server, "www.example.org", "A")).rcode).toBe("REFUSED");
    expect(upstream.asked.length).toBe(3); // one forged and one right answer over UDP, one over TCP
  });

  it("fail when nobody answers, and when the only resolver would be ourselves", async () => {
    const alone = await open({ upstreams: () => [], forward: true });
    expect((await askName(alone, "www.example.org", "A", { flags: 0x0100 })).rcode).toBe("SERVFAIL");
    const places: Array<{ host: string; port: number }> = [];
    const self = await open({ upstreams: () => places, forward: true });
    places.push({ host: "127.0.0.1", port: self.port });
    expect((await askName(self, "www.example.org", "A", { flags: 0x0100 })).rcode).toBe("SERVFAIL");
    expect(self.counts().queries).toBe(1);
  });

  it("what cannot be opened for guests is said, and what is no address of this machine is none", async () => {
    const server = await open();
    expect(await server.serveGuests(["192.0.2.77"])).toEqual([]);
    expect(server.guests()).toEqual({ addresses: [], problem: null });
  });
});

it("a flood of questions is answered to the last", async () => {
  const server = await open();
  server.put("example.test", () => zone("example.test", [www("192.0.2.1")]));
  const socket = createSocket("udp4");
  closers.push(() => socket.close());
  let answered = 0;
  socket.on("message", () => {
    answered += 1;
  });
  const one = question("www.example.test", "A");
  for (let batch = 0; batch < 20; batch += 1) {
    for (let at = 0; at < 50; at += 1) socket.send(one, server.port, "127.0.0.1");
    await until(() => answered >= (batch + 1) * 50, { what: "50 answers" });
  }
  expect(answered).toBe(1000);
});
