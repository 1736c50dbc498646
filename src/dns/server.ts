import { contains, isLoopback, parseCidr, type Range } from "../kernel/addresses.js";
import { Closers, type Disposable } from "../kernel/closers.js";
import { reasonOf } from "../kernel/fault.js";
import { bareName, type Zone } from "../kernel/names.js";
import { answerCache } from "./answer-cache.js";
import { type Door, type OnPacket, openDoor } from "./door.js";
import { openForwarder, type Upstream } from "./forwarder.js";
import { type Asker, reactionTo, refusalOf } from "./respond.js";
import { bareAnswer, rcodes } from "./wire.js";
import { type ReadyZone, readyZone, type Zones } from "./zone.js";

export interface NameServer extends Disposable {
  /** Where it answers this machine. */
  readonly address: string;
  readonly port: number;
  /**
   * Answers for this zone from now on; undefined ends that. `make` is called with the first question, so that a thousand changes cost one
   * making; it gives undefined while there is a zone but nothing to say about it (answered SERVFAIL).
   */
  put(apex: string, make: (() => Zone | undefined) | undefined): void;
  /**
   * Opens port 53 on those of these addresses (gateways of the guests' networks) that are this machine's, and closes it elsewhere.
   * Answers where it is open. Machines behind a gateway may ask for any name. Twice changes nothing.
   */
  serveGuests(gateways: readonly string[]): Promise<string[]>;
  /** Addresses that guests are served on now, and why others are not. */
  guests(): { addresses: string[]; problem: string | null };
  counts(): { queries: number; forwarded: number; zones: number };
}

export interface NameServerOptions {
  host: string;
  port: number;
  /** Names beyond our zones are looked up for this machine too. */
  forward: boolean;
  /** CIDRs that guests ask from: nobody else has names looked up on a gateway's address. */
  guestPools: readonly string[];
  /** Asked for each query that is passed on. */
  upstreams(): readonly Upstream[];
  onProblem(reason: string): void;
}

const guestPort = 53;
/** How often a failure to answer is told, in ms. */
const tellAgainMs = 60_000;
/** The wanted port, or a free one when somebody has it; a start must not fail for a name server. */
const openWanted = async (options: NameServerOptions, onPacket: OnPacket): Promise<Door> => {
  try {
    return await openDoor(options.host, options.port, onPacket);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (options.port === 0 || (code !== "EADDRINUSE" && code !== "EACCES")) throw error;
    const door = await openDoor(options.host, 0, onPacket);
    const why = code === "EACCES" ? "may not be opened by this user" : "is taken";
    options.onProblem(`Port ${options.port} of ${options.host} ${why}, so names are answered on port ${door.port}; --dns-port chooses another.`);
    return door;
  }
};

const openZones = (): Zones & Pick<NameServer, "put"> & { count(): number } => {
  const makers = new Map<string, () => Zone | undefined>();
  const ready = new Map<string, ReadyZone | null>();
  return {
    put: (apex, make) => {
      const key = bareName(apex);
      ready.delete(key);
      if (make) makers.set(key, make);
      else makers.delete(key);
    },
    get: (apex) => {
      const known = ready.get(apex);
      if (known !== undefined) return known;
      const make = makers.get(apex);
      if (!make) return undefined;
      const zone = make();
      const made = zone ? readyZone(zone) : null;
      ready.set(apex, made);
      return made;
    },
    count: () => makers.size,
  };
};

/**
 * Answers for the zones it is handed, over UDP and TCP; whatever else is asked is refused, or passed on for who may have that.
 * @throws the system's error when the address cannot be opened at all
 */
export const openNameServer = async (options: NameServerOptions): Promise<NameServer> => {
  const zones = openZones();
  const cache = answerCache();
  const pools = options.guestPools.flatMap((cidr): Range | Range[] => parseCidr(cidr) ?? []);
  const guestDoors = new Map<string, Door>();
  // This machine's resolver may be us, and we must not ask ourselves.
  const isUs = ({ host, port }: Upstream): boolean => [door, ...guestDoors.values()].some((each) => each.address === host && each.port === port);
  const forwarder = openForwarder(() => options.upstreams().filter((upstream) => !isUs(upstream)));
  const tally = { queries: 0, forwarded: 0 };
  let problem: string | null = null;

  let toldMs = 0;
  /** An error of ours, or of a zone that cannot be made: the asker is told SERVFAIL, and whoever runs this is told, once a minute. */
  const fail = (error: unknown, packet: Buffer, send: (message: Buffer) => void): void => {
    if (packet.length >= 12) {
      const opcode = (packet.readUInt8(2) >> 3) & 0xf;
      send(bareAnswer({ id: packet.readUInt16BE(0), opcode, recursionDesired: (packet.readUInt8(2) & 1) !== 0, rcode: rcodes.servFail }));
    }
    if (performance.now() < toldMs + tellAgainMs && toldMs > 0) return;
    toldMs = performance.now();
    options.onProblem(`The name server could not answer a query: ${reasonOf(error)}.`);
  };

  const answering =
    (react: OnPacket): OnPacket =>
    (packet, from, send) => {
      try {
        react(packet, from, send);
      } catch (error) {
        fail(error, packet, send);
      }
    };

  const receive = (recursionFor: (address: string) => boolean): OnPacket =>
    answering((packet, { address, transport }, send) => {
      tally.queries += 1;
      const asker: Asker = { address, transport, recursion: recursionFor(address) };
      const known = transport === "udp" ? cache.find(packet, asker.recursion) : undefined;
      if (known) return send(known);
      const reaction = reactionTo(zones, packet, asker);
      if (!reaction) return;
      if ("messages" in reaction) {
        const [only] = reaction.messages;
        if (transport === "udp" && only) cache.keep(packet, asker.recursion, only);
        for (const message of reaction.messages) send(message);
        return;
      }
      tally.forwarded += 1;
      const { forward } = reaction;
      forwarder
        .ask(packet, forward.question, transport)
        .then((answer) => send(answer ?? refusalOf(forward, asker, rcodes.servFail)))
        .catch((error: unknown) => fail(error, packet, send));
    });

  const door = await openWanted(
    options,
    receive((address) => options.forward && isLoopback(address)),
  );
  const closers = new Closers();
  closers.add(() => door.close());
  closers.add(async () => void (await Promise.all([...guestDoors.values()].map((each) => each.close()))));
  closers.add(() => forwarder.close());

  let turn: Promise<unknown> = Promise.resolve();
  let isClosing = false;
  const serveGuests = async (wanted: readonly string[]): Promise<string[]> => {
    // What is opened behind a close would stay open.
    const gateways = isClosing ? [] : wanted;
    for (const [address, guestDoor] of guestDoors) {
      if (gateways.includes(address)) continue;
      guestDoors.delete(address);
      await guestDoor.close();
    }
    for (const address of gateways) {
      if (guestDoors.has(address)) continue;
      try {
        const recursion = (from: string): boolean => pools.some((pool) => contains(pool, from));
        guestDoors.set(address, await openDoor(address, guestPort, receive(recursion)));
        problem = null;
      } catch (error) {
        // Not this machine's address: the network is not made yet, or the engine is elsewhere.
        if ((error as NodeJS.ErrnoException).code !== "EADDRNOTAVAIL") problem = reasonOf(error);
      }
    }
    return [...guestDoors.keys()];
  };

  return {
    address: door.address,
    port: door.port,
    put: (apex, make) => {
      cache.clear();
      zones.put(apex, make);
    },
    serveGuests: (gateways) => {
      const mine = turn.then(() => serveGuests(gateways));
      turn = mine.catch(() => {});
      return mine;
    },
    guests: () => ({ addresses: [...guestDoors.keys()], problem }),
    counts: () => ({ ...tally, zones: zones.count() }),
    close: async () => {
      isClosing = true;
      await turn;
      await closers.close();
    },
  };
};
