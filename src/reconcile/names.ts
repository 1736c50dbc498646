import type { NameServer } from "../dns/server.js";
import { gatewayOf, isLoopback, parseCidr } from "../kernel/addresses.js";
import { Closers, type Disposable } from "../kernel/closers.js";
import { bareName, nextSerial, reverseZone, type Zone, type ZoneRecord } from "../kernel/names.js";
import { regionRange } from "../resources/addresses/address.js";
import type { Cloud, FetchedZone } from "../resources/cloud.js";
import type { DomainRow } from "../resources/domains/domain.js";
import { ownDomain } from "../resources/domains/rules.js";
import { recordsOf } from "../resources/records/record.js";
import { zoneOfRows } from "../resources/records/zone.js";
import type { RuntimeDriver } from "../runtime/driver.js";
import type { Row } from "../store/store.js";
import { isSame } from "./known-rows.js";
import { type OwnNames, ownZone, type ReverseKeys, reverseApexes, reverseOf } from "./own-zones.js";
import { repeat } from "./repeat.js";
import { openSecondaries } from "./secondaries.js";

export interface Names extends Disposable {
  /**
   * What a machine behind these gateways is to use: those on which it is answered, then resolvers of this machine, which help it while
   * Backlot is away. Empty when none of the gateways can be served: then it keeps what its runtime gives.
   */
  guestResolvers(gateways: readonly string[]): Promise<string[]>;
  /** For `/_backlot/capabilities`. */
  capabilities(): Array<{ subject: string; real: boolean; note: string }>;
}

interface NamesOptions {
  cloud: Cloud;
  server: NameServer;
  driver: Pick<RuntimeDriver, "dial" | "name">;
  /** Resolvers that names beyond ours are looked up with. */
  upstreams(): ReadonlyArray<{ host: string; port: number }>;
  onFailure(domain: number, error: unknown): void;
}

/** A container's list has room for this many. */
const mostResolvers = 3;
/** How often it is tried to open what guests ask (another program may have left the port meanwhile), in real ms. */
const guestLookMs = 15_000;
/** Kinds of rows that names of ours are made of. */
const namedKinds = ["instance", "address", "balancer", "slice"] as const;

const slaveZone = (row: DomainRow, { soa, records }: FetchedZone): Zone => ({
  apex: row.domain,
  ttl: soa.minimum,
  soa,
  records,
  transferTo: row.axfrIps,
});

const guestRow = (runtime: string, guests: { addresses: string[]; problem: string | null }) => {
  const subject = "names: instances use Backlot's name server";
  if (runtime === "process")
    return { subject, real: false, note: "Machines are processes of this host and use its resolver; `backlot dns` tells it about ours." };
  if (guests.addresses.length > 0) {
    const note = `On port 53 of their networks' gateways (${guests.addresses.join(", ")}); other names are looked up for them with this machine's resolvers.`;
    return { subject, real: true, note };
  }
  const why = guests.problem ?? "no network of theirs is on this machine yet";
  return {
    subject,
    real: false,
    note: `Port 53 of their networks' gateways could not be opened (${why}): it needs root or CAP_NET_BIND_SERVICE and an engine on this machine.`,
  };
};

const balancerRow = (runtime: string) => ({
  subject: "names: a balancer's name inside an instance",
  real: runtime === "process",
  note:
    runtime === "process"
      ? "Machines are processes of this host, and reach what it reaches."
      : "Resolves, but to a loopback address of this machine, which no container reaches; with --balancer-addresses ADDRESS/32 (an address of this machine) it is reached.",
});

/**
 * Hands the name server what the rows say. A zone is made when it is asked for after a change, so the answer to a write and the answers
 * to the next question always agree, and a thousand records written in a row cost one making.
 */
export const openNames = ({ cloud, server, driver, upstreams, onFailure }: NamesOptions): Names => {
  const { store, clock, settings } = cloud;
  const closers = new Closers();
  /** Apex that each domain is served under, and the domain of each record: removed rows no longer say. */
  const apexes = new Map<number, string>();
  /** The same the other way round, so that tens of thousands of domains cost a change of an instance nothing. */
  const served = new Map<string, number>();
  const owners = new Map<number, number>();
  let ownSerial = 0;

  /** On the process runtime the addresses that the API shows stand for loopback addresses, and names lead to where something listens. */
  const real = (address: string): string => driver.dial(address, 1)?.host ?? address;
  const dialled = (record: ZoneRecord): ZoneRecord =>
    record.data.type === "A" ? { ...record, data: { type: "A", address: real(record.data.address) } } : record;

  const makeDomain = (id: number) => (): Zone | undefined => {
    const row = store.get("domain", id);
    if (!row) return undefined;
    if (row.type === "slave") {
      const fetched = secondaries.zone(id);
      return fetched && slaveZone(row, fetched);
    }
    const zone = zoneOfRows(row, recordsOf(store, id));
    return { ...zone, records: zone.records.map(dialled) };
  };

  const putDomain = (id: number): void => {
    const row = store.get("domain", id);
    const apex = row?.status === "active" ? bareName(row.domain) : undefined;
    const before = apexes.get(id);
    if (before !== undefined && before !== apex) {
      server.put(before, undefined);
      apexes.delete(id);
      if (served.get(before) === id) served.delete(before);
      putOwn(); // a reverse zone of ours may have stood behind it
    }
    if (apex === undefined) return;
    apexes.set(id, apex);
    served.set(apex, id);
    server.put(apex, makeDomain(id));
  };

  const ownNames = (): OwnNames => ({
    store,
    pools: [
      settings.publicPool,
      settings.balancerAddresses,
      ...store.list("slice").flatMap((row) => {
        const range = regionRange(cloud, row.region);
        return range === undefined ? [] : [range];
      }),
    ],
    real,
    server: server.address,
  });

  const reverseKeys: ReverseKeys = { shown: (row) => reverseZone(row.address), real: (row) => reverseZone(real(row.address)) };
  let reverse: ReadonlySet<string> = new Set();
  const putOwn = (): void => {
    ownSerial = nextSerial(ownSerial, clock.now());
    const serial = ownSerial;
    server.put(ownDomain, () => ownZone(ownNames(), serial));
    const wanted = reverseApexes(ownNames());
    for (const apex of reverse) if (!wanted.has(apex) && !served.has(apex)) server.put(apex, undefined);
    for (const apex of wanted) if (!served.has(apex)) server.put(apex, () => reverseOf(ownNames(), reverseKeys, apex, serial));
    reverse = wanted;
  };
  /** The rows that names of ours were told of: an observation is news too, and of the same row. */
  const told = new Map(namedKinds.map((kind) => [kind, new Map<number, Row>()]));
  let isDue = false;
  /** Once for all rows of a commit, and before anybody's next question: that comes with a later turn. */
  const followOwn = (): void => {
    if (isDue) return;
    isDue = true;
    queueMicrotask(() => {
      isDue = false;
      putOwn();
    });
  };

  const secondaries = openSecondaries({ cloud, onChange: putDomain, onFailure });
  closers.add(() => secondaries.close());

  const watching = store.watch((kind, id) => {
    if (kind === "domain") putDomain(id);
    if (kind === "record") {
      const domain = store.get("record", id)?.domainId ?? owners.get(id);
      if (domain === undefined) return;
      if (store.get("record", id)) owners.set(id, domain);
      else owners.delete(id);
      putDomain(domain);
    }
    const named = namedKinds.find((each) => each === kind);
    if (named && !isSame(told.get(named) ?? new Map(), id, store.get(named, id))) followOwn();
  });
  closers.add(() => watching.close());

  for (const row of store.list("record")) owners.set(row.id, row.domainId);
  for (const row of store.list("domain")) putDomain(row.id);
  putOwn();

  /** Guests are behind the gateways of the networks that this state has made, or is about to make. */
  const gateways = (): string[] =>
    driver.name === "docker"
      ? [settings.publicPool, ...store.list("slice").map((row) => regionRange(cloud, row.region) ?? "")].flatMap((cidr) => {
          const range = parseCidr(cidr);
          return range ? [gatewayOf(range)] : [];
        })
      : [];
  const look = (): Promise<string[]> => server.serveGuests(gateways());
  const first = look();
  const looking = repeat(
    guestLookMs,
    () => first.then(look),
    () => {},
  );
  closers.add(() => looking.close());

  return {
    guestResolvers: async (wanted) => {
      const open = await look();
      const served = wanted.filter((gateway) => open.includes(gateway));
      if (served.length === 0) return [];
      const others = upstreams().filter(({ host, port }) => port === 53 && !isLoopback(host));
      return [...served, ...others.map(({ host }) => host)].slice(0, mostResolvers);
    },
    capabilities: () => [guestRow(driver.name, server.guests()), balancerRow(driver.name)],
    close: () => closers.close(),
  };
};
