import { Fault, invalid, type Problem, reasonOf } from "../../kernel/fault.js";
import { type CreateBody, createSchema } from "../../kernel/field.js";
import { bareName, isWithin, type Soa, serverPlace, type ZoneRecord } from "../../kernel/names.js";
import { route } from "../../kernel/route.js";
import type { Cloud } from "../cloud.js";
import { recordEvent } from "../events/event.js";
import { refuse } from "../instances/rules.js";
import { contentProblems, isNullMx, mostRecords, type RecordContent, type RecordWanted, recordContent, relativeName } from "../records/rules.js";
import { domainEntity, domainView } from "./domain.js";
import { importFields } from "./fields.js";
import { insertDomain } from "./routes.js";
import { nameProblems } from "./rules.js";
import { readZoneText } from "./zone-text.js";

interface Imported {
  soa: Soa | undefined;
  records: readonly ZoneRecord[];
  skipped: readonly string[];
}

type ImportBody = CreateBody<typeof importFields>;

/** The other way round of `recordData`. */
const wantedOf = ({ name, ttl, data }: ZoneRecord): RecordWanted => {
  const common = { type: data.type, name, ttlSec: Math.min(ttl, 2 ** 31 - 1) };
  switch (data.type) {
    case "A":
    case "AAAA":
      return { ...common, target: data.address };
    case "NS":
    case "CNAME":
    case "PTR":
      return { ...common, target: data.host };
    case "MX":
      return { ...common, target: data.host, priority: data.preference };
    case "TXT":
      return { ...common, target: data.text };
    case "SRV":
      return { ...common, target: data.host, priority: data.priority, weight: data.weight, port: data.port };
    case "CAA":
      return { ...common, target: data.value, tag: data.tag as "issue" };
  }
};

const contentOf = (domain: string, record: ZoneRecord): RecordContent => {
  const content = recordContent(domain, wantedOf(record), undefined, "");
  if (content.type !== "SRV") return content;
  const [service = null, protocol = null] = relativeName(record.name, domain).split(".");
  return { ...content, name: relativeName(record.name, domain), service, protocol };
};

/** Which records of a foreign zone become ours, and what was left out, in words. Pure. */
const admitted = (domain: string, { records, skipped }: Imported): { contents: RecordContent[]; leftOut: string[] } => {
  const contents: RecordContent[] = [];
  const refused: string[] = [];
  const aliases = new Set<string>();
  for (const record of records) {
    const owner = bareName(record.name);
    const isApex = owner === bareName(domain);
    // The servers of the domain itself are ours from now on.
    if (record.data.type === "NS" && isApex) continue;
    const content = isWithin(owner, bareName(domain)) ? contentOf(domain, record) : undefined;
    const isBroken = !content || contentProblems(content, domain).length > 0 || (content.type === "CNAME" && aliases.has(owner));
    if (isBroken) refused.push(`${owner} ${record.data.type}`);
    else {
      contents.push(content);
      if (content.type === "CNAME") aliases.add(owner);
    }
  }
  const ownerOf = ({ name }: RecordContent): string => bareName(name === "" ? domain : `${name}.${domain}`);
  const alone = contents.filter((content) => content.type === "CNAME" || !aliases.has(ownerOf(content)));
  const beside = contents.length - alone.length;
  const mailed = new Set(alone.filter((content) => content.type === "MX" && !isNullMx(content)).map(ownerOf));
  const whole = alone.filter((content) => !isNullMx(content) || !mailed.has(ownerOf(content)));
  refused.push(...alone.filter((content) => !whole.includes(content)).map((content) => `${ownerOf(content)} MX`));
  return {
    contents: whole,
    leftOut: [
      ...(skipped.length > 0 ? [`records of type ${skipped.join(", ")}`] : []),
      ...(refused.length > 0 ? [`${refused.length} that break the rules here (${refused.slice(0, 5).join("; ")})`] : []),
      ...(beside > 0 ? [`${beside} beside a CNAME`] : []),
    ],
  };
};

const sourceProblems = (body: Partial<ImportBody>): Problem[] => {
  const given = [body.remoteNameserver, body.zoneFile].filter((source) => source !== undefined && source !== null);
  if (given.length === 0) return [{ reason: "A value is required.", field: "remoteNameserver" }];
  if (given.length > 1) return [{ reason: "Give this or a name server, not both.", field: "zoneFile" }];
  if (body.remoteNameserver && !serverPlace(body.remoteNameserver)) {
    return [{ reason: "Must be an IP address or a host name; a port may follow a colon.", field: "remoteNameserver" }];
  }
  return body.remoteNameserver === "" ? [{ reason: "A value is required.", field: "remoteNameserver" }] : [];
};

const problemsOf = (cloud: Cloud, body: Partial<ImportBody>): Problem[] => [...nameProblems(cloud.store, body.domain, null), ...sourceProblems(body)];

const sourceOf = async (cloud: Cloud, body: ImportBody): Promise<Imported> => {
  if (body.zoneFile) {
    const { problem, ...read } = readZoneText(body.zoneFile, body.domain);
    if (problem !== undefined) throw invalid(problem, "zoneFile");
    return read;
  }
  const place = serverPlace(body.remoteNameserver ?? "");
  if (!place) throw new Fault("invalid", sourceProblems(body));
  try {
    return await cloud.fetchZone(bareName(body.domain), place);
  } catch (error) {
    throw invalid(reasonOf(error), "remoteNameserver");
  }
};

/** Contract 12 "Actions". A mail address is not always in the SOA; who imports can set it afterwards. */
export const importRoutes = [
  route<Cloud, ImportBody>({
    method: "POST",
    path: "/v4/domains/import",
    scope: "domains",
    summary: "Makes a domain of what another name server gives (AXFR), or of a zone file.",
    body: createSchema(importFields),
    answers: "one",
    shows: "Domain",
    rules: ({ cloud, body }) => problemsOf(cloud, body),
    run: async ({ cloud, body, caller }) => {
      refuse(problemsOf(cloud, body));
      const source = await sourceOf(cloud, body);
      const { contents, leftOut } = admitted(body.domain, source);
      if (contents.length > mostRecords) throw invalid(`It has ${contents.length} records, and a domain can have ${mostRecords}.`);
      return cloud.store.commit((tx) => {
        refuse(nameProblems(tx, body.domain, null));
        const { soa } = source;
        const times = soa ? { refreshSec: soa.refresh, retrySec: soa.retry, expireSec: soa.expire } : {};
        const soaEmail = soa?.email.includes("@") ? soa.email : `hostmaster@${bareName(body.domain)}`;
        const row = insertDomain(tx, cloud, { type: "master", domain: body.domain, soaEmail, ...times });
        for (const content of contents) tx.insert("record", { ...content, domainId: row.id, createdMs: row.createdMs, updatedMs: row.createdMs });
        recordEvent(tx, cloud, {
          action: "domain_import",
          entity: domainEntity(row),
          username: caller?.username ?? null,
          message: leftOut.length === 0 ? `${contents.length} records.` : `${contents.length} records. Left out: ${leftOut.join(", ")}.`,
        });
        return domainView(cloud, row);
      });
    },
  }),
];
