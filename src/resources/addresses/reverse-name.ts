import { Fault, type Problem } from "../../kernel/fault.js";
import type { Cloud, Reader, Tx } from "../cloud.js";
import { recordEvent } from "../events/event.js";
import { recordsOf } from "../records/record.js";
import { absoluteName } from "../records/rules.js";
import { type AddressRow, defaultRdns } from "./address.js";

/** Names compare without case and without the root's dot (RFC 4343, RFC 1034 section 3.1). */
const plain = (name: string): string => name.toLowerCase().replace(/\.$/, "");

/** What the account's own domains say: the names they hold, and the names of their A records for one address. */
interface ForwardNames {
  domains: readonly string[];
  names: readonly string[];
}

/** The account's zones as far as they concern one address. */
const forwardNames = (reader: Reader, address: string): ForwardNames => {
  const domains = reader.list("domain");
  const names = domains.flatMap((domain) =>
    recordsOf(reader, domain.id)
      .filter((record) => record.type === "A" && record.target === address)
      .map((record) => absoluteName(record.name, domain.domain)),
  );
  return { domains: domains.filter(({ type }) => type === "master").map(({ domain }) => domain), names };
};

/**
 * Contract 10.2: a reverse name needs a forward record that points back. Inside the account's own domains that is looked up; of any other
 * name nobody here can be asked without leaving this machine, so it is taken (docs/decisions/012-wire.md).
 */
export const reverseProblems = (reader: Reader, row: AddressRow, rdns: string | null | undefined): Problem[] => {
  if (rdns === undefined || rdns === null) return [];
  if (!row.public) return [{ reason: "A private address has no reverse name.", field: "rdns" }];
  const name = plain(rdns);
  if (name === defaultRdns(row.address)) return [];
  const { domains, names } = forwardNames(reader, row.address);
  const isOwn = domains.some((domain) => name === plain(domain) || name.endsWith(`.${plain(domain)}`));
  if (!isOwn || names.some((candidate) => plain(candidate) === name)) return [];
  return [{ reason: `No match found: none of the domain's A records for this name points to ${row.address}.`, field: "rdns" }];
};

/** Sets or (null) resets what an address resolves back to. */
export const setReverseName = (tx: Tx, cloud: Cloud, row: AddressRow, rdns: string | null | undefined, username: string | undefined): AddressRow => {
  const problems = reverseProblems(tx, row, rdns);
  if (problems.length > 0) throw new Fault("invalid", problems);
  if (rdns === undefined) return row;
  const after = tx.update("address", row.id, { rdns });
  recordEvent(tx, cloud, {
    action: "ipaddress_update",
    entity: { kind: "ipaddress", id: row.address, label: row.address },
    username: username ?? null,
  });
  return after;
};
