import { randomInt } from "node:crypto";
import { connect } from "node:net";
import { type Answer, decode, encode } from "dns-packet";
import { reasonOf } from "../kernel/fault.js";
import { bareName, type RecordData, type Soa, type ZoneRecord } from "../kernel/names.js";

/** A whole zone as another name server gave it (AXFR). */
export interface TransferredZone {
  soa: Soa;
  /** Without the SOA. */
  records: ZoneRecord[];
  /** Types we have no place for, each once, such as "DNSKEY". */
  skipped: string[];
}

export interface TransferOptions {
  /** IP address or host name. */
  host: string;
  port: number;
  /** For all of it, in ms. */
  withinMs: number;
  signal?: AbortSignal | undefined;
}

/** More would not fit into a domain here either (contract 12.1), with room for what is skipped. */
const mostRecords = 50_000;
const mostBytes = 32 * 1024 * 1024;

const rcodeReasons: Record<string, string> = {
  REFUSED: "it refuses the transfer: this machine's address must be on its list",
  NOTAUTH: "it is not in charge of this domain",
  NXDOMAIN: "it does not know this domain",
  SERVFAIL: "it failed to answer",
  NOTIMP: "it gives no transfers",
};

const bareHost = (host: string): string => (host === "." ? "" : host);

const dataOf = (answer: Answer): RecordData | undefined => {
  switch (answer.type) {
    case "A":
    case "AAAA":
      return { type: answer.type, address: answer.data };
    case "NS":
    case "CNAME":
    case "PTR":
      return { type: answer.type, host: bareHost(answer.data) };
    case "MX":
      return { type: "MX", preference: answer.data.preference ?? 0, host: bareHost(answer.data.exchange) };
    case "TXT": {
      const pieces = Array.isArray(answer.data) ? answer.data : [answer.data];
      return { type: "TXT", text: pieces.map((piece) => (typeof piece === "string" ? piece : piece.toString("latin1"))).join("") };
    }
    case "SRV": {
      const { priority = 0, weight = 0, port, target } = answer.data;
      return { type: "SRV", priority, weight, port, host: bareHost(target) };
    }
    case "CAA":
      return { type: "CAA", critical: answer.data.issuerCritical === true, tag: answer.data.tag, value: answer.data.value };
    default:
      return undefined;
  }
};

/** dns-packet's `rname` has its escaped dots and a plain one where the `@` was (RFC 1035 section 8). */
const mailOf = (rname: string): string => rname.replace(/(?<!\\)\./, "@").replaceAll("\\.", ".");

const decoded = (bytes: Buffer): ReturnType<typeof decode> & { rcode: string } => {
  try {
    return decode(bytes) as ReturnType<typeof decode> & { rcode: string };
  } catch {
    throw new Error("its answer is malformed"); // dns-packet's words ("bad label") help nobody
  }
};

/** Collects a transfer's messages; the second SOA ends it (RFC 5936 section 2.2). */
const collector = (apex: string, id: number) => {
  let soa: Soa | undefined;
  let ended = false;
  const records: ZoneRecord[] = [];
  const skipped = new Set<string>();
  const take = (answer: Answer): void => {
    if (answer.type === "SOA") {
      if (soa) {
        ended = true;
        return;
      }
      if (bareName(answer.name) !== apex) throw new Error(`it answered for ${answer.name}`);
      const { mname, rname, serial = 0, refresh = 0, retry = 0, expire = 0, minimum = 0 } = answer.data;
      soa = { server: mname, email: mailOf(rname), serial, refresh, retry, expire, minimum };
      return;
    }
    if (!soa) throw new Error("its answer does not begin with an SOA record");
    const data = dataOf(answer);
    if (data && "ttl" in answer) records.push({ name: answer.name, ttl: answer.ttl ?? 0, data });
    else skipped.add(answer.type);
    if (records.length > mostRecords) throw new Error(`the zone has more than ${mostRecords} records`);
  };
  return {
    /** Undefined while there is more to come. Throws what is wrong with the message. */
    message: (bytes: Buffer): TransferredZone | undefined => {
      const packet = decoded(bytes);
      if (packet.id !== id || !packet.flag_qr) throw new Error("it answered something else");
      if (packet.rcode !== "NOERROR") throw new Error(rcodeReasons[packet.rcode] ?? `it answered ${packet.rcode}`);
      if ((packet.answers ?? []).length === 0) throw new Error("its answer is empty");
      for (const answer of packet.answers ?? []) {
        if (ended) break;
        take(answer);
      }
      return ended && soa ? { soa, records, skipped: [...skipped] } : undefined;
    },
  };
};

const wordsFor: Record<string, string> = {
  ECONNREFUSED: "nothing listens there",
  ENOTFOUND: "its name cannot be resolved",
  EAI_AGAIN: "its name cannot be resolved",
  EHOSTUNREACH: "it cannot be reached",
  ENETUNREACH: "it cannot be reached",
  ECONNRESET: "it hung up",
};

const askFor = (domain: string, id: number): Buffer => {
  const packet = encode({ type: "query", id, questions: [{ type: "AXFR" as never, name: domain, class: "IN" }] });
  const head = Buffer.alloc(2);
  head.writeUInt16BE(packet.length, 0);
  return Buffer.concat([head, packet]);
};

/**
 * Fetches a whole zone over TCP (RFC 5936).
 * @throws Error with a reason for people: refused, unreachable, too slow, malformed
 */
export const fetchZone = (domain: string, options: TransferOptions): Promise<TransferredZone> =>
  new Promise((resolve, reject) => {
    const where = `${options.host} (port ${options.port})`;
    const id = randomInt(65_536);
    const collect = collector(bareName(domain), id);
    const socket = connect({ host: options.host, port: options.port });
    let waiting = Buffer.alloc(0);
    let received = 0;
    const end = (act: () => void): void => {
      clearTimeout(timer);
      options.signal?.removeEventListener("abort", onAbort);
      socket.destroy();
      act();
    };
    const fail = (reason: string): void => end(() => reject(new Error(`${domain} could not be fetched from ${where}: ${reason}.`)));
    const onAbort = (): void => fail("it was given up");
    const timer = setTimeout(() => fail(`it took longer than ${Math.round(options.withinMs / 1000)} s`), options.withinMs);
    if (options.signal?.aborted) return onAbort();
    options.signal?.addEventListener("abort", onAbort, { once: true });
    socket.on("error", (error: NodeJS.ErrnoException) => fail(wordsFor[error.code ?? ""] ?? reasonOf(error)));
    socket.on("close", () => fail("it hung up before the end"));
    socket.on("connect", () => socket.write(askFor(domain, id)));
    socket.on("data", (chunk) => {
      received += chunk.length;
      if (received > mostBytes) return fail("it sends too much");
      waiting = Buffer.concat([waiting, chunk]);
      try {
        while (waiting.length >= 2 && waiting.length >= 2 + waiting.readUInt16BE(0)) {
          const length = waiting.readUInt16BE(0);
          const zone = collect.message(waiting.subarray(2, 2 + length));
          waiting = waiting.subarray(2 + length);
          if (zone) return end(() => resolve(zone));
        }
      } catch (error) {
        fail(reasonOf(error));
      }
      return undefined;
    });
  });
