import { isIP, isIPv4, isIPv6 } from "node:net";
import type { Problem } from "../../kernel/fault.js";
import type { CreateBody } from "../../kernel/field.js";
import { bareName, isHostName, isOwnerName, isWithin } from "../../kernel/names.js";
import type { Reader } from "../cloud.js";
import { type DomainRow, ttlStep } from "../domains/domain.js";
import type { recordFields } from "./fields.js";
import { type RecordRow, type RecordType, recordsOf } from "./record.js";

export type RecordWanted = Partial<CreateBody<typeof recordFields>>;

/** A record's own half of a row, ready to be written. */
export type RecordContent = Omit<RecordRow, "id" | "domainId" | "createdMs" | "updatedMs">;

/** Contract 12.1. */
export const mostRecords = 12_000;
/** What a TXT can carry so that a message of 65,535 bytes still holds it, with the lengths between its strings of 255. */
const longestText = 64_000;

const remoteAddress = "[remote_addr]";
const hostTypes: readonly RecordType[] = ["NS", "MX", "CNAME", "SRV", "PTR"];

const underscored = (word: string | null | undefined): string | null => (word ? (word.startsWith("_") ? word : `_${word}`) : null);

/** `www.example.test`, `www` and `@` are all names of the domain; kept is what stands before it (contract 12.1 "without the domain"). */
export const relativeName = (name: string, domain: string): string => {
  const trimmed = name.endsWith(".") ? name.slice(0, -1) : name;
  if (trimmed === "@" || trimmed === "" || bareName(trimmed) === bareName(domain)) return "";
  return isWithin(bareName(trimmed), bareName(domain)) ? trimmed.slice(0, -domain.length - 1) : trimmed;
};

/** The whole name of a record, bare of a last dot. */
export const absoluteName = (name: string, domain: string): string => (name === "" ? domain : `${name}.${domain}`);

/** A host name without any dot, and `@`, are meant inside the domain (contract 12.1, CNAME). */
const hostTarget = (target: string, domain: string): string => {
  if (target === "@") return domain;
  return target !== "" && !target.includes(".") && isHostName(target) ? `${target}.${domain}` : target;
};

const targetOf = (type: RecordType, given: string, domain: string, caller: string): string => {
  if (type === "TXT") return given;
  const target = given.trim();
  if ((type === "A" || type === "AAAA") && target === remoteAddress) return caller;
  if (type === "AAAA") return target.toLowerCase();
  return hostTypes.includes(type) ? hostTarget(target, domain) : target;
};

/**
 * What a record becomes: `wanted` over `row`, in the form it is kept and read back. Members that its type does not have keep their neutral value.
 * @param caller the address that asks, for `[remote_addr]`
 */
export const recordContent = (domain: string, wanted: RecordWanted, row: RecordRow | undefined, caller: string): RecordContent => {
  const type = row?.type ?? wanted.type ?? "A";
  const isSrv = type === "SRV";
  const service = isSrv ? underscored(wanted.service ?? row?.service) : null;
  const protocol = isSrv ? underscored(wanted.protocol ?? row?.protocol) : null;
  const given = wanted.name ?? row?.name ?? "";
  return {
    type,
    name: isSrv ? [service, protocol].filter((part) => part !== null).join(".") : relativeName(given, domain),
    target: wanted.target === undefined && row ? row.target : targetOf(type, wanted.target ?? "", domain, caller),
    priority: isSrv || type === "MX" ? (wanted.priority ?? row?.priority ?? 0) : 0,
    weight: isSrv ? (wanted.weight ?? row?.weight ?? 0) : 0,
    port: isSrv ? (wanted.port ?? row?.port ?? 0) : 0,
    service,
    protocol,
    ttlSec: ttlStep(wanted.ttlSec ?? row?.ttlSec ?? 0),
    tag: type === "CAA" ? (wanted.tag ?? row?.tag ?? null) : null,
  };
};

const problem = (field: string, reason: string): Problem[] => [{ reason, field }];

const hostProblems = ({ type, target, priority }: RecordContent): Problem[] => {
  // A null MX (RFC 7505): no mail is taken here.
  if (type === "MX" && target === "") return priority === 0 ? [] : problem("priority", "Without a host (no mail is taken) it must be 0.");
  if (target === "") return problem("target", "A value is required.");
  if (isIP(target) !== 0) return problem("target", "Must be a host name, not an address.");
  return isHostName(target) ? [] : problem("target", "Invalid hostname.");
};

const authority = /^(?!\*)[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?$/i;
const isAuthority = (target: string): boolean => {
  const [name = "", ...parameters] = target.split(";").map((part) => part.trim());
  return (name === "" || authority.test(name)) && parameters.every((part) => part === "" || /^[a-z0-9-]+\s*=\s*[!-:<-~]*$/i.test(part));
};

/** RFC 8659: `;` alone forbids everybody. */
const caaProblems = ({ tag, target }: RecordContent): Problem[] => {
  if (tag === null) return problem("tag", "A value is required.");
  if (target === "") return problem("target", "A value is required.");
  if (tag === "iodef") {
    return /^(mailto:|https?:\/\/)[!-~]+$/i.test(target) || /^[^\s@:/]+@[a-z0-9_.-]+$/i.test(target)
      ? []
      : problem("target", "Must be a mail address or a web address.");
  }
  return isAuthority(target) ? [] : problem("target", "Must be the domain of a certificate authority, without a leading asterisk.");
};

const textProblems = ({ target }: RecordContent): Problem[] => {
  if (target === "") return problem("target", "A value is required.");
  if (/[^\x20-\x7e]/.test(target)) return problem("target", "Must be printable ASCII.");
  return target.length > longestText ? problem("target", `Longer than ${longestText} characters: no DNS message has room for it.`) : [];
};

const targetProblems = (content: RecordContent): Problem[] => {
  const { type, target } = content;
  if (type === "A") return isIPv4(target) ? [] : problem("target", target === "" ? "A value is required." : "Must be an IPv4 address.");
  if (type === "AAAA")
    return isIPv6(target) && !target.includes("%") ? [] : problem("target", target === "" ? "A value is required." : "Must be an IPv6 address.");
  if (type === "TXT") return textProblems(content);
  return type === "CAA" ? caaProblems(content) : hostProblems(content);
};

const ownerProblems = ({ type, name, service, protocol }: RecordContent, domain: string): Problem[] => {
  if (type === "SRV") {
    return [
      ...(service === null ? problem("service", "A value is required.") : []),
      ...(protocol === null ? problem("protocol", "A value is required.") : []),
    ];
  }
  if (name === "") return type === "CNAME" || type === "PTR" ? problem("name", `A ${type} needs one: the domain itself cannot be one.`) : [];
  if (!isOwnerName(name)) return problem("name", "Has invalid characters: it may hold letters, digits, dashes, underscores and dots.");
  if (absoluteName(name, domain).length > 253) return problem("name", "Too long: all in all it may have 253 characters.");
  return type === "NS" && name.startsWith("*") ? problem("name", "A wildcard cannot be delegated.") : [];
};

export const isNullMx = ({ type, target }: Pick<RecordContent, "type" | "target">): boolean => type === "MX" && target === "";

/** RFC 7505 section 3: who takes no mail names no other MX. */
const nullMxProblems = (content: RecordContent, same: readonly RecordRow[]): Problem[] => {
  const others = content.type === "MX" ? same.filter((other) => other.type === "MX") : [];
  if (isNullMx(content) && others.length > 0)
    return problem("target", "Without a host no mail is taken, and then it must be the only MX of its name.");
  if (others.some(isNullMx)) return problem("target", "An MX without a host stands there, which says that no mail is taken; remove it first.");
  return [];
};

/** RFC 1034 section 3.6.2: beside a CNAME nothing else stands. */
const conflictProblems = (content: RecordContent, others: readonly RecordRow[]): Problem[] => {
  const same = others.filter((other) => other.name.toLowerCase() === content.name.toLowerCase());
  if (content.type === "CNAME" && same.length > 0) return problem("name", "Record conflict: a CNAME must be unique, and other records stand there.");
  if (same.some((other) => other.type === "CNAME")) return problem("name", "Record conflict: a CNAME stands there, and it must be unique.");
  return nullMxProblems(content, same);
};

/** What is wrong with a record by itself. */
export const contentProblems = (content: RecordContent, domain: string): Problem[] => [...ownerProblems(content, domain), ...targetProblems(content)];

/** All that is wrong with a record (contract 12.1), except what `flagged` names already. */
export const recordProblems = (
  tx: Reader,
  domain: DomainRow,
  content: RecordContent,
  row: RecordRow | undefined,
  flagged: ReadonlySet<string> = new Set(),
): Problem[] => {
  if (domain.type === "slave") return [{ reason: "A slave's records are fetched from its masters; they cannot be changed here." }];
  const all = recordsOf(tx, domain.id);
  const own = contentProblems(content, domain.domain);
  const isNamed = !flagged.has("name") && !own.some(({ field }) => field === "name");
  const others = isNamed ? all.filter((other) => other.id !== row?.id) : [];
  return [
    ...own,
    ...conflictProblems(content, others),
    ...(!row && all.length >= mostRecords ? [{ reason: `A domain can have ${mostRecords} records.` }] : []),
  ];
};
