import { connect } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import type Docker from "dockerode";
import { contains, parseCidr, type Range } from "../../kernel/addresses.js";
import type { Disposable } from "../../kernel/closers.js";
import { reasonOf } from "../../kernel/fault.js";
import { type RelayDoor, RelayedSocket, type Via } from "../../kernel/relay.js";
import { exhausted } from "../../kernel/remedy.js";
import { turns } from "../../kernel/turns.js";
import type { RuntimeCapabilities } from "../driver.js";
import { labels, type Owner } from "./labels.js";
import { ensureRelay, relaysOf, removeRelays } from "./relay-container.js";
import { isOnLink, type Standing, standingOf } from "./standing.js";

export type DialMode = "auto" | "direct" | "relay";

/** How this process reaches the private addresses of machines: itself, or by one relay container per region network. */
export interface Relays extends Disposable {
  /** At the start: removes what an earlier run left and this one cannot use. */
  prune(): Promise<void>;
  /** Told of a network that stands, with the address of a machine that runs on it: decides how it is reached, and has it reached so. Never rejects. */
  settle(region: string, subnet: string, address: string | undefined): Promise<void>;
  /** Absent: it is dialled itself. */
  via(address: string): Via | undefined;
  /** Gives a network up: its relay goes. */
  release(region: string): Promise<void>;
  /** As `RuntimeDriver.unreached`. */
  unreached(): Array<{ region: string; reason: string }>;
  watch(moved: () => void): Disposable;
  rows(): RuntimeCapabilities["rows"];
}

interface RelaysOptions {
  docker: Docker;
  owner: Owner;
  mode: DialMode;
  privatePool: string;
  /** Tag of a guest image that we built. */
  image(): Promise<string>;
  onProblem(reason: string): void;
}

/** How long a machine that runs may take to answer before its address counts as out of reach, in ms. Its kernel answers, whatever it runs. */
const answerMs = 1_000;
const answerTries = 2;
/** How long a relay may take from its start to its first answer, in ms. */
const relayReadyMs = 10_000;
const againMs = [0, 200, 1_000, 5_000] as const;

/** What may be between a relay that runs and us, with the remedy. */
const unheard = {
  beside: " If DOCKER_HOST is a tunnel to another machine, name that machine there instead, for a relay's port is beside the engine.",
  away: " Let no firewall keep this machine from the ports that the engine publishes there, or run Backlot on that machine.",
  inside: "",
} as const;

/**
 * Whether anything answers at an address: a refusal is an answer. Which port does not matter; 9 is nobody's (discard, RFC 863).
 * @throws Fault `unavailable` when this machine has no descriptor left to ask with
 */
const answers = (address: string): Promise<boolean> =>
  new Promise((resolve, reject) => {
    const socket = connect({ host: address, port: 9 });
    const settle = (answered: boolean) => {
      clearTimeout(timer);
      socket.destroy();
      resolve(answered);
    };
    const timer = setTimeout(() => settle(false), answerMs);
    socket.once("connect", () => settle(true));
    socket.once("error", (error: NodeJS.ErrnoException) => {
      const lack = exhausted(error);
      if (lack) reject(lack);
      settle(error.code === "ECONNREFUSED");
    });
  });

/** A connection that lasts as long as the relay does; undefined when the relay does not answer. */
const lifeline = (door: RelayDoor): Promise<RelayedSocket | undefined> =>
  new Promise((resolve) => {
    const socket = new RelayedSocket("hold", { host: "0.0.0.0", port: 0 }, door);
    socket.setKeepAlive(true, 10_000);
    // A relay that is stopped still has its connections accepted for it.
    const timer = setTimeout(() => socket.destroy(), answerMs);
    socket.on("error", () => {});
    socket.once("close", () => {
      clearTimeout(timer);
      resolve(undefined);
    });
    socket.once("connect", () => {
      clearTimeout(timer);
      resolve(socket);
    });
    socket.resume();
  });

interface Carried {
  subnet: string;
  range: Range;
  isPersisting: boolean;
  via: Via;
  /** False while the first relay is on its way. */
  isTried: boolean;
  line: RelayedSocket | undefined;
}

export const engineRelays = ({ docker, owner, mode, privatePool, image, onProblem }: RelaysOptions): Relays => {
  const carried = new Map<string, Carried>();
  const watchers = new Set<() => void>();
  const inTurn = turns<string>();
  const closing = new AbortController();
  /** undefined: auto, and no machine has run yet to try it with. */
  let way: "direct" | "relay" | undefined = mode === "auto" ? undefined : mode;
  let because = mode === "auto" ? "" : `--dial ${mode}`;
  let standing: Standing | undefined;
  const moved = (): void => {
    for (const watcher of watchers) watcher();
  };

  const decide = async (subnet: string, address: string): Promise<void> => {
    let answered = false;
    // An answer from a network that none of our interfaces is in may be anybody's.
    if (isOnLink(subnet)) for (let tries = 0; tries < answerTries && !answered; tries += 1) answered = await answers(address);
    way = answered ? "direct" : "relay";
    because = answered ? `${address} answered` : `${address} cannot be dialled from here`;
    if (way === "direct") await removeRelays(docker, owner);
  };

  const firstLine = async (door: RelayDoor): Promise<RelayedSocket | undefined> => {
    const deadline = Date.now() + relayReadyMs;
    for (;;) {
      const line = await lifeline(door);
      if (line || Date.now() > deadline || closing.signal.aborted) return line;
      await pause(20);
    }
  };

  /** One try: where the relay is, and its lifeline. @throws Error with the reason */
  const carry = async (region: string, subnet: string): Promise<{ door: RelayDoor; line: RelayedSocket }> => {
    standing ??= await standingOf(docker);
    if (standing.place === "nowhere") throw new Error(standing.reason);
    let line: RelayedSocket | undefined;
    const plan = { owner, region, subnet, image: await image(), standing };
    const door = await ensureRelay(docker, plan, async (found) => {
      line = await lifeline(found);
      return line !== undefined;
    });
    line ??= await firstLine(door);
    if (!line)
      throw new Error(`The relay of ${region} was started at ${door.host} port ${door.port} and does not answer there.${unheard[standing.place]}`);
    return { door, line };
  };

  const lost = (region: string, entry: Carried): void => {
    entry.line = undefined;
    if (carried.get(region) !== entry || closing.signal.aborted) return;
    entry.via = { missing: `the relay of ${region} was lost and is being replaced` };
    onProblem(`The relay of ${region} was lost; another one takes its place.`);
    moved();
    void persist(region, entry);
  };

  /** Has a region's relay carry unless it does; resolves after one try. */
  const keep = (region: string, entry: Carried): Promise<void> =>
    inTurn(region, async () => {
      const isWanted = () => carried.get(region) === entry && !closing.signal.aborted;
      if (entry.line || !isWanted()) return;
      try {
        const { door, line } = await carry(region, entry.subnet).finally(() => {
          entry.isTried = true;
        });
        if (!isWanted()) return void line.destroy();
        if (line.destroyed) return;
        entry.line = line.once("close", () => lost(region, entry));
        entry.via = door;
        moved();
      } catch (error) {
        const missing = `there is no relay in the network of ${region}: ${reasonOf(error)}`;
        if ("missing" in entry.via && entry.via.missing === missing) return;
        entry.via = { missing };
        onProblem(reasonOf(error));
        moved();
      }
    });

  const persist = async (region: string, entry: Carried): Promise<void> => {
    if (entry.isPersisting) return;
    entry.isPersisting = true;
    for (let failures = 0; !entry.line && carried.get(region) === entry && !closing.signal.aborted; failures += 1) {
      await pause(againMs[Math.min(failures, againMs.length - 1)], undefined, { signal: closing.signal, ref: false }).catch(() => {});
      await keep(region, entry);
    }
    entry.isPersisting = false;
  };

  return {
    prune: async () => {
      for (const { State, Labels } of await relaysOf(docker, owner))
        if (mode === "direct" || State !== "running") await removeRelays(docker, owner, Labels[labels.relay]);
    },
    settle: async (region, subnet, address) => {
      try {
        if (way === undefined && address !== undefined)
          await inTurn("the decision", async () => {
            if (way === undefined) await decide(subnet, address);
          });
      } catch (error) {
        onProblem(reasonOf(error));
      }
      if (way !== "relay" || closing.signal.aborted) return;
      let entry = carried.get(region);
      if (entry?.subnet !== subnet) {
        entry?.line?.destroy();
        const range = parseCidr(subnet) ?? { base: 0, prefix: 32, size: 0 };
        const via = { missing: `the relay of ${region} is being started` };
        entry = { subnet, range, via, isTried: false, line: undefined, isPersisting: false };
        carried.set(region, entry);
      }
      if (entry.line || entry.isPersisting) return;
      await keep(region, entry);
      if (!entry.line) void persist(region, entry);
    },
    via: (address) => {
      if (way !== "relay") return undefined;
      for (const { range, via } of carried.values()) if (contains(range, address)) return via;
      const pool = parseCidr(privatePool);
      const missing = pool && contains(pool, address) ? "its region's network does not stand yet" : "public addresses are not relayed";
      return { missing: `there is no relay to ${address}: ${missing}` };
    },
    release: (region) => {
      const entry = carried.get(region);
      carried.delete(region);
      return inTurn(region, async () => {
        entry?.line?.destroy();
        await removeRelays(docker, owner, region);
      });
    },
    unreached: () => [...carried].flatMap(([region, { via, isTried }]) => (isTried && "missing" in via ? [{ region, reason: via.missing }] : [])),
    watch: (watcher) => {
      watchers.add(watcher);
      return {
        close: async () => {
          watchers.delete(watcher);
        },
      };
    },
    rows: () => {
      const subject = "Dialling of private addresses";
      const reachable = {
        subject: "Public addresses",
        real: true,
        note: "Reachable from this machine and from other instances, not from anywhere else.",
      };
      if (way === undefined) return [{ subject, real: true, note: "Itself or by a relay: tried with the first machine that runs." }, reachable];
      if (way === "direct") return [{ subject, real: true, note: `This process dials them itself (${because}).` }, reachable];
      const doors = [...carried].map(([region, { via }]) =>
        "missing" in via ? `${region}: none, ${via.missing}` : `${region}: ${via.host} port ${via.port}`,
      );
      const limits = "A connection that one side breaks off ends for the other.";
      return [
        { subject, real: true, note: `By one relay container a region (${[because, ...doors].join("; ")}). ${limits}` },
        { ...reachable, note: "Reachable from other instances; from here they are not relayed, and reached only where containers can be dialled." },
      ];
    },
    close: async () => {
      closing.abort();
      for (const { line } of carried.values()) line?.destroy();
      const regions = [...carried.keys()];
      carried.clear();
      // What is under way may still make one.
      await Promise.all(regions.map((region) => inTurn(region, async () => {})));
      if (way === "relay") await removeRelays(docker, owner).catch((error) => onProblem(reasonOf(error)));
    },
  };
};
