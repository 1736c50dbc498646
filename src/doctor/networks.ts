import { formatCidr, overlaps, parseCidr, type Range, slice } from "../kernel/addresses.js";
import type { EngineFacts } from "../runtime/docker/facts.js";
import { type Finding, good, note, problem, quoted } from "./finding.js";

const privateBlock: Range = { base: 0xc0a80000, prefix: 16, size: 2 ** 16 };
const publicBlock: Range = { base: 0xc6120000, prefix: 16, size: 2 ** 16 };
const pieces = 16;
/** Fewer free pieces than that are soon none. */
const fewPieces = 3;

const rangesOf = (taken: ReadonlyArray<{ cidr: string }>): Range[] => taken.flatMap(({ cidr }) => parseCidr(cidr) ?? []);

/** Pieces /20 of a block that nothing overlaps, by CIDR. */
const freePieces = (block: Range, taken: readonly Range[]): string[] =>
  Array.from({ length: pieces }, (_, index) => slice(block, 20, index))
    .filter((piece) => !taken.some((range) => overlaps(range, piece)))
    .map(formatCidr);

/** The command that makes room: `clean` when nobody owns it any more, the network's removal when it is no Backlot's, else another pool. */
const roomFor = (cidr: string, { networks, occupied }: Pick<EngineFacts, "networks" | "occupied">, ownerless: ReadonlySet<string>): string => {
  const network = networks.find((one) => one.cidr === cidr);
  if (network?.owner !== undefined && ownerless.has(network.owner)) return "backlot clean";
  const [free] = freePieces(privateBlock, rangesOf(occupied)).reverse();
  if (network && network.owner === undefined && free === undefined) return `docker network rm ${quoted(network.name)}`;
  return free === undefined ? "backlot clean" : `backlot start --private-pool ${free}`;
};

/**
 * Whether the pools that addresses come from are nobody else's. Pure.
 * @param ownerless owner ids of Backlots that are no more
 */
export const networkFindings = (
  privatePool: string,
  facts: Pick<EngineFacts, "networks" | "occupied">,
  ownerless: ReadonlySet<string>,
  owner: string,
): Finding[] => {
  const pool = parseCidr(privatePool);
  const findings: Finding[] = [];
  for (const other of facts.occupied) {
    const range = parseCidr(other.cidr);
    if (!pool || !range || !overlaps(pool, range)) continue;
    const whole = range.base <= pool.base && range.size >= pool.size;
    const text = `${other.cidr} of the private pool ${privatePool} belongs to ${other.owner}; ${whole ? "no region" : "a region whose range it is"} can have machines there.`;
    const level = whole || !/Backlot with owner/.test(other.owner) ? problem : note;
    findings.push(level("networks", text, roomFor(other.cidr, facts, ownerless)));
  }
  const free = freePieces(publicBlock, rangesOf(facts.occupied)).length;
  const has = facts.networks.some((network) => network.owner === owner && network.cidr.startsWith("198.18."));
  if (free === 0 && !has)
    findings.push(problem("networks", `All of ${formatCidr(publicBlock)} is taken: there is no room for public addresses.`, "backlot clean"));
  else if (free < fewPieces) findings.push(note("networks", `${free} of ${pieces} ranges for public addresses are free.`, "backlot clean"));
  if (findings.length === 0)
    findings.push(good("networks", `The private pool ${privatePool} is free, and ${free} of ${pieces} ranges for public addresses.`));
  return findings;
};
