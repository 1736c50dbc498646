import { contains, parseCidr, parseIpv4 } from "../../kernel/addresses.js";
import type { Problem } from "../../kernel/fault.js";
import { addressRow } from "../addresses/address.js";
import type { Cloud, Reader } from "../cloud.js";
import type { NodeRow } from "./node.js";

export interface NodeWanted {
  label: string;
  address: string;
  weight?: number | null | undefined;
  mode?: NodeRow["mode"] | null | undefined;
}

/** Splits `address:port`; undefined when it is not of that form. */
export const parseNodeAddress = (text: string): { host: string; port: number } | undefined => {
  const match = /^([0-9.]{7,15}):([1-9]\d{0,4})$/.exec(text);
  const host = match?.[1];
  const port = Number(match?.[2]);
  return host !== undefined && parseIpv4(host) !== undefined && port <= 65535 ? { host, port } : undefined;
};

/**
 * Contract 8.4: private addresses only, in the balancer's region. An address that no instance has is taken, as in the public API:
 * health decides.
 */
const addressProblem = (tx: Reader, cloud: Pick<Cloud, "settings">, region: string | null, address: string): string | undefined => {
  const parsed = parseNodeAddress(address);
  if (!parsed) return "Must be a private IPv4 and a port, such as 192.168.128.2:80.";
  const pool = parseCidr(cloud.settings.privatePool);
  if (!pool || !contains(pool, parsed.host)) return `Must be private: it must begin with 192.168 and lie in ${cloud.settings.privatePool}.`;
  const holder = addressRow(tx, parsed.host);
  if (holder && region !== null && holder.region !== region)
    return `Belongs to an instance in ${holder.region}; the balancer is in ${region}, and the regions must be equal.`;
  return undefined;
};

/** `region` is the balancer's, null when that was refused; `siblings` are the other nodes of the config; `at` is put before field names, such as `nodes[0].`. */
export const nodeProblems = (
  tx: Reader,
  cloud: Pick<Cloud, "settings">,
  region: string | null,
  siblings: ReadonlyArray<{ label?: string | undefined }>,
  wanted: { label?: string | undefined; address?: string | undefined },
  at = "",
): Problem[] => {
  const problems: Problem[] = [];
  if (wanted.label !== undefined && siblings.some((row) => row.label === wanted.label)) {
    problems.push({ reason: "Another node of this config has it; it must be unique.", field: `${at}label` });
  }
  const reason = wanted.address === undefined ? undefined : addressProblem(tx, cloud, region, wanted.address);
  if (reason !== undefined) problems.push({ reason, field: `${at}address` });
  return problems;
};
