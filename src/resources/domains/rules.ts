import { isIP } from "node:net";
import type { Problem } from "../../kernel/fault.js";
import type { UpdateBody } from "../../kernel/field.js";
import { bareName, isWithin, serverPlace } from "../../kernel/names.js";
import type { Reader } from "../cloud.js";
import { recordsOf } from "../records/record.js";
import { type DomainRow, domainNamed } from "./domain.js";
import type { domainFields } from "./fields.js";

export type DomainWanted = UpdateBody<typeof domainFields>;

/** The names that Backlot itself gives (instances, balancers, addresses) end in this. */
export const ownDomain = "backlot.test";

/** Contract 12: both lists together, as text. */
const longestAddresses = 1_000;
const mostLabelBytes = 63;

export const nameProblems = (tx: Reader, name: string | undefined, except: number | null): Problem[] => {
  if (name === undefined) return [];
  const bare = bareName(name);
  const holder = domainNamed(tx, name);
  if (holder && holder.id !== except) return [{ reason: "There is a domain of this name already; it must be unique.", field: "domain" }];
  if (isWithin(bare, ownDomain)) return [{ reason: `Names under ${ownDomain} are given by Backlot itself.`, field: "domain" }];
  if (bare.split(".").some((label) => label.length > mostLabelBytes)) {
    return [{ reason: `Each part between dots may have ${mostLabelBytes} characters.`, field: "domain" }];
  }
  return [];
};

const addressProblems = (wanted: Pick<DomainWanted, "masterIps" | "axfrIps">): Problem[] => [
  ...(wanted.masterIps ?? []).flatMap((place, index) => {
    const host = serverPlace(place)?.host;
    return host === undefined || isIP(host) === 0
      ? [{ reason: "Must be an IP address; a port may follow a colon.", field: `masterIps[${index}]` }]
      : [];
  }),
  ...(wanted.axfrIps ?? []).flatMap((address, index) =>
    isIP(address) === 0 ? [{ reason: "Must be an IP address.", field: `axfrIps[${index}]` }] : [],
  ),
];

/**
 * All that is wrong with what a domain is to become (contract 12): `wanted` over `row`, which is undefined for a new one.
 * What is missing is asked of the whole, so that an update cannot take away what its kind needs.
 */
export const domainProblems = (tx: Reader, wanted: DomainWanted, row: DomainRow | undefined): Problem[] => {
  const { type, soaEmail = "", masterIps = [], axfrIps = [] } = { ...row, ...wanted };
  const problems = [...nameProblems(tx, wanted.domain, row?.id ?? null), ...addressProblems(wanted)];
  if (type === "master" && soaEmail === "") problems.push({ reason: "A master needs one.", field: "soaEmail" });
  if (type === "slave" && masterIps.length === 0)
    problems.push({ reason: "A slave needs at least one address to be fetched from.", field: "masterIps" });
  if ([...masterIps, ...axfrIps].join(";").length > longestAddresses) {
    problems.push({ reason: `The two lists of addresses may have ${longestAddresses} characters together.`, field: "axfrIps" });
  }
  if (row?.type === "master" && wanted.type === "slave" && recordsOf(tx, row.id).length > 0) {
    problems.push({ reason: "The domain has records of its own; a slave has none. Delete them first.", field: "type" });
  }
  return problems;
};
