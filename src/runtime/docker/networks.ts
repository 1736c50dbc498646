import { networkInterfaces } from "node:os";
import type Docker from "dockerode";
import { contains, formatCidr, gatewayOf, netmask, overlaps, parseCidr, parseIpv4, type Range } from "../../kernel/addresses.js";
import { Fault } from "../../kernel/fault.js";
import { turns } from "../../kernel/turns.js";
import { asking, engineFault, tolerating } from "./engine.js";
import { labels, networkName, type Owner, ownerLabels } from "./labels.js";

export interface Occupied {
  cidr: string;
  owner: string;
}

type NetworkRow = Pick<Docker.NetworkInspectInfo, "Name" | "Id" | "Labels" | "IPAM">;

export interface Networks {
  /** Makes a network of ours unless it is there: `key` is a region id or "public". Returns its name on the engine. */
  ensure(key: string, subnet: string): Promise<string>;
  /** Those of ours that stand. */
  standing(): Promise<Array<{ key: string; name: string; subnet: string }>>;
  /** Removes our networks that no machine of ours is attached to, running or not; `release` is called before with the key, and takes its relay away. */
  removeIdle(release: (key: string) => Promise<void>): Promise<void>;
  occupied(): Promise<Occupied[]>;
}

/** The last quarter of the last /24 (or less): where the engine picks addresses by itself, so that it never takes one of ours. */
const enginePicks = (subnet: Range): string => {
  const prefix = Math.min(32, Math.max(subnet.prefix + 2, 28));
  const size = 2 ** (32 - prefix);
  return formatCidr({ base: subnet.base + subnet.size - size, prefix, size });
};

export const addressPlan = (cidr: string): { Subnet: string; Gateway: string; IPRange: string } => {
  const subnet = parseCidr(cidr);
  if (!subnet || subnet.prefix > 29) throw new Fault("unavailable", [{ reason: `${cidr} is too small for a network of machines (at least /29).` }]);
  return { Subnet: cidr, Gateway: gatewayOf(subnet), IPRange: enginePicks(subnet) };
};

const subnetsOf = (network: NetworkRow): string[] => (network.IPAM?.Config ?? []).flatMap((config) => (config.Subnet ? [config.Subnet] : []));

const described = (network: NetworkRow): string => {
  const owner = network.Labels?.[labels.owner];
  if (!owner) return `Docker network "${network.Name}" (not Backlot's)`;
  return `Docker network "${network.Name}" of the Backlot with owner id ${owner} (state folder ${network.Labels?.[labels.state] ?? "unknown"})`;
};

/** Networks and interfaces that are not ours, with who they belong to. Bridges of Docker networks are named by their network only. */
export const occupiedBy = (owner: string, networks: readonly NetworkRow[], interfaces: ReadonlyArray<{ name: string; cidr: string }>): Occupied[] => {
  const known = networks.flatMap(subnetsOf).flatMap((cidr) => parseCidr(cidr) ?? []);
  return [
    ...networks
      .filter((network) => network.Labels?.[labels.owner] !== owner)
      .flatMap((network) => subnetsOf(network).map((cidr) => ({ cidr, owner: described(network) }))),
    ...interfaces
      .filter(({ cidr }) => !known.some((range) => contains(range, cidr.split("/")[0] ?? "")))
      .map(({ name, cidr }) => ({ cidr, owner: `network interface ${name} of this machine` })),
  ];
};

export const clash = (cidr: string, occupied: readonly Occupied[]): Occupied | undefined => {
  const wanted = parseCidr(cidr);
  return wanted && occupied.find((other) => overlaps(wanted, parseCidr(other.cidr) ?? { base: -1, prefix: 32, size: 0 }));
};

const hostInterfaces = (): Array<{ name: string; cidr: string }> =>
  Object.entries(networkInterfaces()).flatMap(([name, addresses]) =>
    (addresses ?? [])
      .filter((address) => address.family === "IPv4" && !address.internal)
      .flatMap((address) => {
        const base = parseIpv4(address.address);
        const mask = parseIpv4(address.netmask);
        if (base === undefined || mask === undefined) return [];
        const size = 2 ** 32 - mask;
        const range = { base: base - (base % size), prefix: 32 - Math.log2(size), size };
        return netmask(range) === address.netmask ? [{ name, cidr: formatCidr(range) }] : [];
      }),
  );

export const engineNetworks = (docker: Docker, owner: Owner): Networks => {
  const inTurn = turns<string>();
  const all = (): Promise<NetworkRow[]> => asking("list its networks", () => docker.listNetworks());
  const ours = (): Promise<NetworkRow[]> =>
    asking("list its networks", () => docker.listNetworks({ filters: { label: [`${labels.owner}=${owner.owner}`] } }));

  const refuseClash = (cidr: string, networks: readonly NetworkRow[]) => {
    const other = clash(cidr, occupiedBy(owner.owner, networks, hostInterfaces()));
    if (!other) return;
    const remedy = "Give this Backlot other addresses (--private-pool), or remove what has them.";
    throw new Fault("unavailable", [{ reason: `The range ${cidr} clashes with ${other.cidr} of ${other.owner}. ${remedy}` }]);
  };

  const create = async (name: string, key: string, subnet: string): Promise<void> => {
    const networks = await all();
    const namesake = networks.find((network) => network.Name === name);
    if (namesake?.Labels?.[labels.owner] === owner.owner) {
      const [has] = subnetsOf(namesake);
      if (has === subnet) return;
      // Ours, from before the pool was changed. Used by nobody it goes; else the engine names who holds it.
      await asking(`replace its network ${name} (${has} by ${subnet})`, () => docker.getNetwork(namesake.Id).remove());
    } else if (namesake) {
      throw new Fault("unavailable", [{ reason: `The name ${name} is taken by ${described(namesake)}. Remove or rename that network.` }]);
    }
    refuseClash(subnet, networks);
    const request = {
      Name: name,
      CheckDuplicate: true, // engines before 25 allow two networks of one name otherwise
      Driver: "bridge",
      IPAM: { Driver: "default", Config: [addressPlan(subnet)] },
      Labels: { ...ownerLabels(owner), [labels.network]: key },
    };
    try {
      await docker.createNetwork(request);
    } catch (error) {
      // Another driver of the same owner may have been faster; engines say 409 or 403 to that, as the race went.
      const now = await all();
      if (now.some((network) => network.Name === name && network.Labels?.[labels.owner] === owner.owner)) return;
      refuseClash(subnet, now);
      throw engineFault(`make the network ${name} (${subnet})`, error);
    }
  };

  return {
    ensure: async (key, subnet) => {
      const name = networkName(owner.owner, key);
      const present = (rows: readonly NetworkRow[]) => rows.some((row) => row.Name === name && subnetsOf(row)[0] === subnet);
      if (present(await ours())) return name;
      await inTurn("networks", async () => {
        if (!present(await ours())) await create(name, key, subnet);
      });
      return name;
    },
    standing: async () => (await ours()).map((row) => ({ key: row.Labels?.[labels.network] ?? "", name: row.Name, subnet: subnetsOf(row)[0] ?? "" })),
    removeIdle: (release) =>
      inTurn("networks", async () => {
        for (const network of await ours()) {
          // A network's own record omits machines that are stopped; the list of containers does not.
          const users = await asking("list containers", () => docker.listContainers({ all: true, filters: { network: [network.Name] } }));
          if (users.some(({ Labels }) => Labels[labels.relay] === undefined)) continue;
          await release(network.Labels?.[labels.network] ?? "");
          await tolerating([403, 404, 409], () => docker.getNetwork(network.Id).remove());
        }
      }),
    occupied: async () => occupiedBy(owner.owner, await all(), hostInterfaces()),
  };
};
