import { bareName, type RecordData, type Zone, type ZoneRecord } from "../../kernel/names.js";
import { type DomainRow, soaTimes } from "../domains/domain.js";
import { ownDomain } from "../domains/rules.js";
import type { RecordRow } from "./record.js";
import { absoluteName } from "./rules.js";

/** The name server of every zone here; itself a name of ours. */
export const ownServer = `ns1.${ownDomain}`;

/** How long "no such name" may be remembered: shorter than a TTL, since here names are made and asked for within seconds. */
export const negativeSeconds = 30;

/** What a CAA record says to send reports to is a URL (RFC 8659 section 4.4); people write the mail address alone. */
const reportPlace = (target: string): string => (target.includes(":") ? target : `mailto:${target}`);

const recordData = (row: RecordRow): RecordData => {
  const host = row.target.replace(/\.$/, "");
  switch (row.type) {
    case "A":
    case "AAAA":
      return { type: row.type, address: row.target };
    case "NS":
    case "CNAME":
    case "PTR":
      return { type: row.type, host };
    case "MX":
      return { type: "MX", preference: row.priority, host };
    case "TXT":
      return { type: "TXT", text: row.target };
    case "SRV":
      return { type: "SRV", priority: row.priority, weight: row.weight, port: row.port, host };
    case "CAA":
      return { type: "CAA", critical: false, tag: row.tag ?? "issue", value: row.tag === "iodef" ? reportPlace(row.target) : row.target };
  }
};

/** A master's zone as its rows say. Our name server stands at every apex, beside those the records name. */
export const zoneOfRows = (domain: DomainRow, rows: readonly RecordRow[]): Zone => {
  const { retry, expire, refresh, ttl } = soaTimes(domain);
  const records = rows.map((row): ZoneRecord => ({ name: absoluteName(row.name, domain.domain), ttl: row.ttlSec || ttl, data: recordData(row) }));
  return {
    apex: bareName(domain.domain),
    ttl,
    soa: { server: ownServer, email: domain.soaEmail, serial: domain.serial, refresh, retry, expire, minimum: Math.min(ttl, negativeSeconds) },
    records: [{ name: domain.domain, ttl, data: { type: "NS", host: ownServer } }, ...records],
    transferTo: domain.axfrIps,
  };
};
