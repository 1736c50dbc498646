import { describe, expect, it } from "vitest";
import { type Asker, reactionTo } from "#backlot/dns/respond.js";
import { type ReadyZone, readyZone } from "#backlot/dns/zone.js";
import type { RecordData, Zone } from "#backlot/kernel/names.js";
import { dataOf, question, type Reply, read } from "../../support/dns.js";

type Row = [name: string, data: RecordData, ttl?: number];

const zone = (apex: string, rows: Row[], more: Partial<Zone> = {}): Zone => ({
  apex,
  ttl: 3600,
  soa: { server: "ns1.backlot.test", email: "host.master@example.test", serial: 7, refresh: 1, retry: 2, expire: 3, minimum: 30 },
  records: rows.map(([name, data, ttl = 300]) => ({ name: name === "" ? apex : `${name}.${apex}`, ttl, data })),
  transferTo: [],
  ...more,
});

const a = (address: string): RecordData => ({ type: "A", address });
const host = (type: "NS" | "CNAME" | "PTR", name: string): RecordData => ({ type, host: name });

const zones = new Map<string, ReadyZone | null>(
  [
    zone("example.test", [
      ["", host("NS", "ns1.backlot.test")],
      ["", { type: "MX", preference: 10, host: "mail.example.test" }],
      ["", { type: "MX", preference: 20, host: "mail.elsewhere.invalid" }],
      ["", { type: "CAA", critical: false, tag: "issue", value: "ca.test" }],
      ["", { type: "TXT", text: "one" }],
      ["", { type: "TXT", text: "x".repeat(700) }],
      ["www", a("192.0.2.1"), 300],
      ["www", a("192.0.2.2"), 60],
      ["www", a("192.0.2.1")],
      ["www", { type: "AAAA", address: "2001:db8::1" }],
      ["mail", a("192.0.2.9")],
      ["null", { type: "MX", preference: 0, host: "" }],
      ["alias", host("CNAME", "Second.example.test")],
      ["second", host("CNAME", "www.example.test")],
      ["across", host("CNAME", "www.other.test")],
      ["away", host("CNAME", "www.elsewhere.invalid")],
      ["dangling", host("CNAME", "nothing.example.test")],
      ["loop1", host("CNAME", "loop2.example.test")],
      ["loop2", host("CNAME", "loop1.example.test")],
      ["_sip._tcp", { type: "SRV", priority: 1, weight: 2, port: 5060, host: "www.example.test" }],
      // RFC 4592, section 2.2.1
      ["*.wild", { type: "TXT", text: "this is a wildcard" }],
      ["*.wild", { type: "MX", preference: 10, host: "host1.wild.example.test" }],
      ["sub.*.wild", { type: "TXT", text: "this is not a wildcard" }],
      ["host1.wild", a("192.0.2.3")],
      ["_ssh._tcp.host1.wild", { type: "SRV", priority: 0, weight: 0, port: 22, host: "host1.wild.example.test" }],
      ["*.cw", host("CNAME", "www.example.test")],
      ["deep.empty.name", a("192.0.2.4")],
      ["child", host("NS", "ns.child.example.test")],
      ["child", host("NS", "ns.elsewhere.invalid")],
      ["ns.child", a("192.0.2.53")],
      ...Array.from({ length: 40 }, (_, at): Row => ["many", a(`198.51.100.${at}`)]),
    ]),
    zone("other.test", [["www", a("203.0.113.7")]]),
    zone("inner.example.test", [["www", a("203.0.113.8")]]),
  ].map((each) => [each.apex, readyZone(each)]),
);
zones.set("broken.test", null);

const here: Asker = { address: "127.0.0.1", transport: "tcp", recursion: false };
const react = (bytes: Buffer, asker: Partial<Asker> = {}) => reactionTo(zones, bytes, { ...here, ...asker });
const raw = (bytes: Buffer, asker: Partial<Asker> = {}): Buffer => {
  const reaction = react(bytes, asker);
  if (!reaction || !("messages" in reaction)) throw new Error(JSON.stringify(reaction));
  const [message] = reaction.messages;
  if (!message) throw new Error("nothing");
  return message;
};
const ask = (name: string, type: string, asking = {}, asker: Partial<Asker> = {}): Reply => read(raw(question(name, type, asking), asker));
const brief = ({ rcode, flag_aa, answers, authorities, additionals }: Reply) => ({
  rcode,
  aa: flag_aa,
  answers: answers.map((each) => `${each.name} ${each.type}`),
  authorities: authorities.map((each) => `${each.name} ${each.type}`),
  additionals: additionals.map((each) => `${each.name} ${each.type}`),
});

describe("records", () => {
  it("a set has each record once and one TTL, the smallest (RFC 2181 section 5)", () => {
    const { answers } = ask("www.example.test", "A");
    expect(dataOf(answers)).toEqual(["192.0.2.1", "192.0.2.2"]);
    expect(answers.map(({ ttl }) => ttl)).toEqual([60, 60]);
    expect(dataOf(ask("www.example.test", "AAAA").answers)).toEqual(["2001:db8::1"]);
  });

  it("MX comes with the addresses of hosts that are ours", () => {
    const reply = ask("example.test", "MX");
    expect(dataOf(reply.answers)).toEqual([
      { preference: 10, exchange: "mail.example.test" },
      { preference: 20, exchange: "mail.elsewhere.invalid" },
    ]);
    expect(brief(reply).additionals).toEqual(["mail.example.test A"]);
    expect(dataOf(ask("null.example.test", "MX").answers)).toEqual([{ preference: 0, exchange: "." }]);
  });

  it("TXT: several of one name, long ones in strings of 255", () => {
    const texts = dataOf(ask("example.test", "TXT").answers) as Buffer[][];
    expect(texts.map((strings) => strings.map((each) => each.length))).toEqual([[3], [255, 255, 190]]);
  });

  it("SRV, CAA, NS and SOA", () => {
    expect(brief(ask("_sip._tcp.example.test", "SRV")).additionals).toEqual(["www.example.test A", "www.example.test A", "www.example.test AAAA"]);
    expect(dataOf(ask("_sip._tcp.example.test", "SRV").answers)).toEqual([{ priority: 1, weight: 2, port: 5060, target: "www.example.test" }]);
    expect(ask("example.test", "CAA").answers[0]?.data).toMatchObject({ tag: "issue", value: "ca.test", flags: 0 });
    expect(dataOf(ask("example.test", "NS").answers)).toEqual(["ns1.backlot.test"]);
    expect(ask("example.test", "SOA").answers[0]).toMatchObject({
      ttl: 3600,
      data: { mname: "ns1.backlot.test", rname: "host\\.master.example.test", serial: 7, refresh: 1, retry: 2, expire: 3, minimum: 30 },
    });
  });

  it("ANY is answered with one set (RFC 8482)", () => {
    const { answers } = ask("www.example.test", "ANY");
    expect(new Set(answers.map(({ type }) => type)).size).toBe(1);
    expect(answers.length).toBeGreaterThan(0);
  });

  it("the longest zone answers", () => {
    expect(dataOf(ask("www.inner.example.test", "A").answers)).toEqual(["203.0.113.8"]);
  });
});

describe("what is not there (RFC 2308)", () => {
  const soa = (reply: Reply) => reply.authorities.map(({ name, type, ttl }) => ({ name, type, ttl }));
  const negative = [{ name: "example.test", type: "SOA", ttl: 30 }];

  it("no such name is NXDOMAIN, no such record is an empty answer; both with the SOA and its short TTL", () => {
    const nothing = ask("nothing.example.test", "A");
    expect([nothing.rcode, nothing.flag_aa, nothing.answers, soa(nothing)]).toEqual(["NXDOMAIN", true, [], negative]);
    const empty = ask("mail.example.test", "AAAA");
    expect([empty.rcode, empty.flag_aa, empty.answers, soa(empty)]).toEqual(["NOERROR", true, [], negative]);
  });

  it("a name that only has names below it exists", () => {
    expect(ask("empty.name.example.test", "A").rcode).toBe("NOERROR");
    expect(ask("name.example.test", "A").rcode).toBe("NOERROR");
    expect(ask("other.name.example.test", "A").rcode).toBe("NXDOMAIN");
  });

  it("what is in no zone is refused, and a zone without content fails", () => {
    expect(brief(ask("www.elsewhere.invalid", "A"))).toEqual({ rcode: "REFUSED", aa: false, answers: [], authorities: [], additionals: [] });
    expect(ask("test", "A").rcode).toBe("REFUSED");
    expect(ask(".", "NS").rcode).toBe("REFUSED");
    expect(ask("notexample.test", "A").rcode).toBe("REFUSED");
    expect(ask("www.broken.test", "A").rcode).toBe("SERVFAIL");
  });
});

describe("aliases", () => {
  it("are followed inside the zone, the question's own case kept, and across the account's zones", () => {
    expect(brief(ask("alias.example.test", "A")).answers).toEqual([
      "alias.example.test CNAME",
      "second.example.test CNAME",
      "www.example.test A",
      "www.example.test A",
    ]);
    expect(dataOf(ask("across.example.test", "A").answers)).toEqual(["www.other.test", "203.0.113.7"]);
  });

  it("lead out without being followed, and asked for themselves they are the answer", () => {
    expect(brief(ask("away.example.test", "A"))).toMatchObject({ rcode: "NOERROR", answers: ["away.example.test CNAME"] });
    expect(dataOf(ask("alias.example.test", "CNAME").answers)).toEqual(["Second.example.test"]);
  });

  it("to nothing are NXDOMAIN (RFC 6604), in a circle they end", () => {
    expect(brief(ask("dangling.example.test", "A"))).toMatchObject({
      rcode: "NXDOMAIN",
      answers: ["dangling.example.test CNAME"],
      authorities: ["example.test SOA"],
    });
    expect(brief(ask("loop1.example.test", "A")).answers).toEqual(["loop1.example.test CNAME", "loop2.example.test CNAME"]);
  });
});

describe("wildcards (the examples of RFC 4592 section 2.2.1)", () => {
  it.each([
    ["host3.wild", "MX", ["host3.wild.example.test MX"], "NOERROR"],
    ["host3.wild", "A", [], "NOERROR"],
    ["foo.bar.wild", "TXT", ["foo.bar.wild.example.test TXT"], "NOERROR"],
    ["host1.wild", "MX", [], "NOERROR"],
    ["sub.*.wild", "MX", [], "NOERROR"],
    ["_telnet._tcp.host1.wild", "SRV", [], "NXDOMAIN"],
    ["host.sub.*.wild", "A", [], "NXDOMAIN"],
    ["ghost.*.wild", "MX", [], "NXDOMAIN"],
    ["*.wild", "TXT", ["*.wild.example.test TXT"], "NOERROR"],
    ["any.cw", "A", ["any.cw.example.test CNAME", "www.example.test A", "www.example.test A"], "NOERROR"],
  ])("%s %s", (name, type, answers, rcode) => {
    expect(brief(ask(`${name}.example.test`, type))).toMatchObject({ rcode, answers });
  });
});

describe("delegation", () => {
  it("is a referral with glue, not an answer of ours", () => {
    for (const name of ["child.example.test", "www.child.example.test", "ns.child.example.test"]) {
      expect(brief(ask(name, "A"))).toEqual({
        rcode: "NOERROR",
        aa: false,
        answers: [],
        authorities: ["child.example.test NS", "child.example.test NS"],
        additionals: ["ns.child.example.test A"],
      });
    }
  });
});

describe("the message", () => {
  it("carries id, question and its letters' case back, and sets what RFC 1035 section 4.1.1 asks", () => {
    const bytes = question("wWw.eXamPle.tEst", "A", { flags: 0x0110 });
    const answer = raw(bytes);
    expect(answer.subarray(12, 34)).toEqual(bytes.subarray(12, 34));
    const reply = read(answer);
    expect(reply.answers[0]?.name).toBe("wWw.eXamPle.tEst");
    expect([reply.flag_qr, reply.flag_aa, reply.flag_rd, reply.flag_ra, reply.flag_cd, reply.flag_tc]).toEqual([
      true,
      true,
      true,
      false,
      true,
      false,
    ]);
    // Owners are pointers into the question (0xc00c): the address needs 16 bytes.
    expect(answer.length).toBe(bytes.length + 2 * 16);
  });

  it("over UDP keeps to 512 bytes, or to what EDNS says but never above 1232, and says when something is left out", () => {
    const udp = { transport: "udp" as const };
    const plain = raw(question("many.example.test", "A"), udp);
    expect([plain.length <= 512, read(plain).flag_tc, read(plain).answers.length]).toEqual([true, true, 0]);
    const room = raw(question("many.example.test", "A", { edns: 1000 }), udp);
    expect([read(room).flag_tc, read(room).answers.length]).toEqual([false, 40]);
    expect(read(raw(question("example.test", "TXT", { edns: 700 }), udp)).flag_tc).toBe(true);
    expect(read(raw(question("example.test", "TXT", { edns: 4096 }), udp)).answers).toHaveLength(2);
    expect(read(raw(question("many.example.test", "A"))).answers).toHaveLength(40);
  });

  it("addresses beside an answer are left out before the answer is", () => {
    const rows: Row[] = Array.from(
      { length: 16 },
      (_, at) =>
        [
          ["", { type: "MX", preference: at, host: `m${at}.big.test` } satisfies RecordData],
          [`m${at}`, a(`192.0.2.${at}`)],
        ] as Row[],
    ).flat();
    const only = new Map([["big.test", readyZone(zone("big.test", rows))]]);
    const reaction = reactionTo(only, question("big.test", "MX"), { ...here, transport: "udp" });
    if (!reaction || !("messages" in reaction) || !reaction.messages[0]) throw new Error("no answer");
    const reply = read(reaction.messages[0]);
    expect([reply.flag_tc, reply.answers.length, reply.additionals.length]).toEqual([false, 16, 0]);
  });

  it("EDNS is answered with EDNS, an unknown version with BADVERS, two of it with FORMERR", () => {
    const opt = (reply: Reply) => reply.additionals.filter(({ type }) => type === "OPT");
    expect(opt(ask("www.example.test", "A", { edns: 1400 }))).toMatchObject([{ udpPayloadSize: 1232, ednsVersion: 0, extendedRcode: 0 }]);
    expect(opt(ask("www.example.test", "A"))).toEqual([]);
    const newer = question("www.example.test", "A", { edns: 1400 });
    newer[newer.length - 5] = 1; // of the OPT record's 11 bytes the seventh: the version
    const bad = read(raw(newer));
    expect([bad.rcode, opt(bad)[0]?.extendedRcode, bad.answers]).toEqual(["NOERROR", 1, []]);
    const one = question("www.example.test", "A", { edns: 1400 });
    const twice = Buffer.concat([one, one.subarray(one.length - 11)]);
    twice.writeUInt16BE(2, 10);
    expect(read(raw(twice)).rcode).toBe("FORMERR");
  });

  it("other classes, kinds of message and transfers for strangers get a code", () => {
    const chaos = question("www.example.test", "A");
    chaos.writeUInt16BE(3, chaos.length - 2);
    expect(read(raw(chaos)).rcode).toBe("REFUSED");
    const notify = question("example.test", "SOA");
    notify.writeUInt16BE(4 << 11, 2);
    expect(raw(notify).readUInt16BE(2)).toBe(0x8000 | (4 << 11) | 4);
    expect(ask("example.test", "AXFR").rcode).toBe("REFUSED");
    expect(ask("nothing.invalid", "AXFR").rcode).toBe("REFUSED");
  });

  it("foreign names are passed on only for who may have that and asks for it", () => {
    const wanted = question("www.elsewhere.invalid", "A", { flags: 0x0100 });
    expect(react(wanted, { recursion: true })).toHaveProperty("forward");
    expect(read(raw(wanted)).rcode).toBe("REFUSED");
    expect(read(raw(question("www.elsewhere.invalid", "A"), { recursion: true })).rcode).toBe("REFUSED");
    expect(read(raw(question("www.example.test", "A"), { recursion: true })).flag_ra).toBe(true);
  });

  it("answers and rubbish get no answer, or one code", () => {
    const answer = question("www.example.test", "A");
    answer.writeUInt16BE(0x8000, 2);
    expect(react(answer)).toBeUndefined();
    expect(react(Buffer.alloc(11))).toBeUndefined();
    expect(react(Buffer.alloc(0))).toBeUndefined();
    const formErr = (bytes: Buffer) => expect(raw(bytes).readUInt16BE(2) & 0x800f).toBe(0x8001);
    formErr(Buffer.from("000100000000000000000000", "hex"));
    const good = question("www.example.test", "A");
    for (let end = 12; end < good.length; end += 1) formErr(good.subarray(0, end));
    const pointer = Buffer.concat([good.subarray(0, 12), Buffer.from([0xc0, 0x0c, 0, 1, 0, 1])]);
    formErr(pointer);
    // A label of 100 bytes, and a name of 260 in labels that are short enough (RFC 1035 section 2.3.4).
    const tail = Buffer.from([0, 0, 1, 0, 1]);
    formErr(Buffer.concat([good.subarray(0, 12), Buffer.from([100]), Buffer.alloc(100, 97), tail]));
    formErr(Buffer.concat([good.subarray(0, 12), ...Array.from({ length: 26 }, () => Buffer.from("\x09abcdefghi")), tail]));
    const two = Buffer.concat([good, good.subarray(12)]);
    two.writeUInt16BE(2, 4);
    formErr(two);
  });

  it("a dot inside a label is not a dot between labels", () => {
    const bytes = Buffer.concat([Buffer.from("000100000001000000000000", "hex"), Buffer.from("\x0bwww.example\x04test\0\0\x01\0\x01", "latin1")]);
    expect(read(raw(bytes)).rcode).toBe("REFUSED");
    const inside = Buffer.concat([
      Buffer.from("000100000001000000000000", "hex"),
      Buffer.from("\x04\xff.\\a\x07example\x04test\0\0\x01\0\x01", "latin1"),
    ]);
    expect(raw(inside).subarray(12, inside.length)).toEqual(inside.subarray(12));
    expect(read(raw(inside)).rcode).toBe("NXDOMAIN");
  });

  it("20,000 damaged packets do not break it (seeded)", () => {
    let state = 20_261_121;
    const random = (below: number): number => {
      state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
      return Math.floor((state / 2 ** 32) * below);
    };
    const names = ["www.example.test", "alias.example.test", "x.wild.example.test", "child.example.test", "example.test", "www.elsewhere.invalid"];
    const types = ["A", "AAAA", "MX", "TXT", "SOA", "ANY", "AXFR", "CAA"];
    for (let round = 0; round < 20_000; round += 1) {
      const from = question(names[random(names.length)] ?? "", types[random(types.length)] ?? "A", random(2) ? { edns: random(5000) } : {});
      const bytes = random(10) === 0 ? Buffer.from(Array.from({ length: random(80) }, () => random(256))) : Buffer.from(from);
      for (let change = random(6); change > 0 && bytes.length > 0; change -= 1) bytes[random(bytes.length)] = random(256);
      const cut = random(4) === 0 ? bytes.subarray(0, random(bytes.length + 1)) : bytes;
      const reaction = react(cut, { transport: random(2) ? "udp" : "tcp", recursion: random(2) === 0 });
      if (!reaction || !("messages" in reaction)) continue;
      for (const message of reaction.messages) {
        expect(message.readUInt16BE(0)).toBe(cut.readUInt16BE(0));
        expect(message.readUInt8(2) & 0x80).toBe(0x80);
      }
    }
  });
});
