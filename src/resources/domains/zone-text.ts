import { parseZone } from "dnsz";
import { bareName, isWithin, type RecordData, type Soa, type Zone, type ZoneRecord } from "../../kernel/names.js";

const quoted = (text: string): string => `"${text.replace(/["\\]/g, (character) => `\\${character}`)}"`;
/** Strings of at most 255 (RFC 1035 section 3.3.14). */
const strings = (text: string): string => (text.match(/.{1,255}/gs) ?? [""]).map(quoted).join(" ");
const dotted = (host: string): string => (host === "" ? "." : `${host}.`);

const dataText = (data: RecordData): string => {
  switch (data.type) {
    case "A":
    case "AAAA":
      return data.address;
    case "NS":
    case "CNAME":
    case "PTR":
      return dotted(data.host);
    case "MX":
      return `${data.preference} ${dotted(data.host)}`;
    case "TXT":
      return strings(data.text);
    case "SRV":
      return `${data.priority} ${data.weight} ${data.port} ${dotted(data.host)}`;
    case "CAA":
      return `${data.critical ? 128 : 0} ${data.tag} ${quoted(data.value)}`;
  }
};

/** RFC 1035 section 8: `jane.doe@example.test` is `jane\.doe.example.test.` */
const mailName = (email: string): string => {
  const at = email.lastIndexOf("@");
  return dotted(at < 0 ? email : `${email.slice(0, at).replaceAll(".", "\\.")}.${email.slice(at + 1)}`);
};

/** A zone as a zone file's lines, every name in full. */
export const zoneLines = ({ apex, ttl, soa, records }: Zone): string[] => [
  `; ${apex} [serial ${soa.serial}]`,
  `$TTL ${ttl}`,
  `${dotted(apex)}\tIN\tSOA\t${dotted(soa.server)} ${mailName(soa.email)} ${soa.serial} ${soa.refresh} ${soa.retry} ${soa.expire} ${soa.minimum}`,
  ...records.map(({ name, ttl: own, data }) => `${dotted(name)}\t${own}\tIN\t${data.type}\t${dataText(data)}`),
];

/** Words of a record's content; a quoted one may hold spaces, and `\"`, `\\` and `\DDD` (RFC 1035 section 5.1). */
const wordsOf = (content: string): string[] =>
  [...content.matchAll(/"((?:[^"\\]|\\.)*)"|(\S+)/gs)].map((match) =>
    (match[1] ?? match[2] ?? "").replace(/\\(\d{3}|.)/gs, (_, escaped: string) =>
      escaped.length === 3 ? String.fromCharCode(Number(escaped) % 256) : escaped,
    ),
  );

const numberIn = (word: string | undefined): number => (/^\d{1,10}$/.test(word ?? "") ? Number(word) : Number.NaN);

/** Undefined for a type there is no place for, or content that is none of its type. */
const dataIn = (type: string, content: string, origin: string): RecordData | undefined => {
  const words = wordsOf(content);
  const [one = "", two = "", three = "", four = ""] = words;
  const host = (word: string): string => (word === "@" ? origin : word === "." ? "" : word.endsWith(".") ? word.slice(0, -1) : `${word}.${origin}`);
  switch (type) {
    case "A":
    case "AAAA":
      return { type, address: one };
    case "NS":
    case "CNAME":
    case "PTR":
      return { type, host: host(one) };
    case "MX":
      return { type, preference: numberIn(one), host: host(two) };
    case "TXT":
      return { type, text: words.join("") };
    case "SRV":
      return { type, priority: numberIn(one), weight: numberIn(two), port: numberIn(three), host: host(four) };
    case "CAA":
      return { type, critical: numberIn(one) >= 128, tag: two.toLowerCase(), value: words.slice(2).join("") };
    default:
      return undefined;
  }
};

/** Undefined when the content is not seven words. */
const soaIn = (content: string): Soa | undefined => {
  const [server = "", mail = "", ...times] = content.trim().split(/\s+/);
  const unit: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86_400, w: 604_800 };
  const seconds = times.map((word) => {
    const match = /^(\d+)([smhdw]?)$/i.exec(word);
    return match ? Number(match[1]) * (unit[(match[2] ?? "").toLowerCase()] ?? 1) : Number.NaN;
  });
  const [serial = 0, refresh = 0, retry = 0, expire = 0, minimum = 0] = seconds;
  if (seconds.length !== 5 || seconds.some(Number.isNaN)) return undefined;
  const email = bareName(mail)
    .replace(/(?<!\\)\./, "@")
    .replaceAll("\\.", ".");
  return { server: bareName(server), email, serial, refresh, retry, expire, minimum };
};

/** What a zone file holds, as far as there is a place for it; `skipped` names the types of the rest. */
export const readZoneText = (
  text: string,
  domain: string,
): { soa: Soa | undefined; records: ZoneRecord[]; skipped: string[]; problem: string | undefined } => {
  const nothing = { soa: undefined, records: [], skipped: [] };
  const directive = /^\$(INCLUDE|GENERATE)\b/im.exec(text)?.[1];
  if (directive) return { ...nothing, problem: `$${directive.toUpperCase()} is not supported; write the records out.` };
  // Names in a file without $ORIGIN are relative to the domain.
  const origins = [...text.matchAll(/^\$ORIGIN\s+(\S+)/gim)].map((match) => bareName(match[1] ?? ""));
  if (origins.length > 1) return { ...nothing, problem: "It has several $ORIGIN lines; one is supported." };
  const parsed = parseZone(origins.length === 0 ? `$ORIGIN ${bareName(domain)}.\n${text}` : text, { defaultTTL: 0 });
  const origin = origins[0] ?? bareName(domain);
  const records: ZoneRecord[] = [];
  const skipped = new Set<string>();
  let soa: Soa | undefined;
  for (const { name, ttl, type, class: network, content } of parsed.records) {
    if (type === "SOA") soa = soaIn(content);
    const data = network === "IN" ? dataIn(type, content, origin) : undefined;
    if (data && isWithin(bareName(name), bareName(domain))) records.push({ name: bareName(name), ttl, data });
    else if (type !== "SOA") skipped.add(type);
  }
  const problem = records.length === 0 && !soa ? "It holds no record that could be read." : undefined;
  return { soa, records, skipped: [...skipped], problem };
};
