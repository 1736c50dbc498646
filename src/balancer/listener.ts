import { createSecureContext, type SecureContextOptions } from "node:tls";
import { reasonOf } from "../kernel/fault.js";
import { codeOf } from "../kernel/remedy.js";
import type { Beat } from "./beat.js";
import { DatagramDoor } from "./datagrams.js";
import { Door, type Manner, type Protocol, type Tally } from "./door.js";
import type { Gates } from "./gate.js";
import { portHolder } from "./holder.js";
import { isLack } from "./lack.js";
import type { ListenerCounters, ListenerSpec, ListenerState } from "./plane.js";
import { Roster } from "./roster.js";
import { createService, type Service } from "./service.js";
import { secureOptions } from "./tls.js";

interface ListenerOptions {
  manner: Manner;
  beat: Beat;
  gates: Gates;
  hint(node: number, reason: string): void;
}

/** Where a port goes that needs privileges we lack: 80 -> 8080, 443 -> 8443 (DESIGN section 3, Addresses). */
const offsetPort = (port: number): number | undefined => (port + 8_000 <= 65_535 ? port + 8_000 : undefined);

const openFailure = async (error: unknown, address: string, port: number): Promise<string> => {
  const place = `${address}:${port}`;
  switch (codeOf(error)) {
    case "EADDRINUSE": {
      const holder = await portHolder(address, port);
      return `${place} is taken${holder === undefined ? "" : ` by ${holder}`} (EADDRINUSE). Stop what listens there, choose another port, or start with other --balancer-addresses.`;
    }
    case "EACCES":
      return `${place} needs privileges this process lacks (EACCES). Choose a port above 1023.`;
    case "EADDRNOTAVAIL":
      return `${address} is not an address of this machine (EADDRNOTAVAIL). Add it to an interface or choose another.`;
    default:
      return `${place} cannot be listened on: ${reasonOf(error)}.`;
  }
};

/** One config's listener: a door that may move, a roster that outlives it. */
export class Listener {
  readonly #options: ListenerOptions;
  readonly #roster = new Roster();
  readonly #service: Service;
  readonly #tally: Tally = { connections: 0, requests: 0, handedOver: 0, bytesIn: 0, bytesOut: 0 };
  #door: Door | undefined;
  #datagrams: DatagramDoor | undefined;
  #leaving = new Set<Promise<void>>();
  #checkPassive = false;
  /** What the open door was asked for; its real port may differ. */
  #place: { address: string; port: number } | undefined;
  #pair: string | undefined;

  readonly #hint = (node: number, reason: string): void => {
    if (this.#checkPassive && !isLack(reason)) this.#options.hint(node, reason);
  };

  constructor(options: ListenerOptions) {
    this.#options = options;
    this.#service = createService({ roster: this.#roster, limits: options.manner.limits, hint: this.#hint });
  }

  /** See `BalancerPlane.apply`. A refused change leaves the old door serving; nodes and health are taken over in any case. */
  async apply(spec: ListenerSpec, lastPort: number | undefined): Promise<ListenerState> {
    this.#roster.update(spec);
    this.#checkPassive = spec.checkPassive;
    this.#service.proxyProtocol = spec.protocol === "tcp" ? spec.proxyProtocol : "none";
    if (this.#door) this.#door.connThrottle = spec.connThrottle;
    let tls: SecureContextOptions | undefined;
    if (spec.protocol === "https") {
      if (!spec.tls) return { status: "failed", reason: "There is no certificate. Upload a certificate and its key." };
      tls = secureOptions(spec.tls);
      try {
        createSecureContext(tls);
      } catch (error) {
        return { status: "failed", reason: `The certificate or its key cannot be used: ${reasonOf(error)}.` };
      }
    }
    if (spec.protocol === "udp") return this.#openDatagrams(spec, lastPort);
    const state = await this.#openStreams(spec, spec.protocol, tls, lastPort);
    if (state.status === "open" && this.#datagrams) {
      await this.#datagrams.close();
      this.#datagrams = undefined;
    }
    return state;
  }

  async #openDatagrams(spec: ListenerSpec, lastPort: number | undefined): Promise<ListenerState> {
    const { manner, beat, gates } = this.#options;
    const old = this.#datagrams;
    if (!old || old.options.address !== spec.address || old.options.port !== spec.port) {
      const shared = { roster: this.#roster, manner, beat, gate: gates.of(spec.balancer), tally: this.#tally };
      const open = (port: number) => DatagramDoor.open({ ...shared, address: spec.address, port });
      try {
        this.#datagrams = await open(spec.port === 0 && lastPort !== undefined ? lastPort : spec.port).catch((error) => {
          const offset = codeOf(error) === "EACCES" ? offsetPort(spec.port) : undefined;
          if (offset === undefined) throw error;
          return open(offset);
        });
        // What was asked for, so that the same spec finds it again.
        Object.assign(this.#datagrams.options, { port: spec.port });
      } catch (error) {
        return { status: "failed", reason: await openFailure(error, spec.address, spec.port) };
      }
      await old?.close();
    }
    const door = this.#datagrams as DatagramDoor;
    door.stickiness = spec.stickiness;
    door.sessThrottle = spec.udpSessThrottle;
    if (this.#door) this.#leave(this.#door);
    this.#door = undefined;
    this.#place = undefined;
    return { status: "open", address: spec.address, port: door.port };
  }

  async #openStreams(
    spec: ListenerSpec,
    protocol: Protocol,
    tls: SecureContextOptions | undefined,
    lastPort: number | undefined,
  ): Promise<ListenerState> {
    const door = this.#door;
    if (door && this.#place?.address === spec.address && this.#place.port === spec.port) {
      const pair = JSON.stringify(spec.tls);
      const same = pair === this.#pair; // an unchanged context keeps its session tickets valid
      door.speak(protocol, same && door.protocol === "https" ? undefined : tls);
      this.#pair = protocol === "https" ? pair : this.#pair;
      return { status: "open", address: spec.address, port: door.port };
    }
    return this.#move(spec, protocol, tls, lastPort);
  }

  /** The new door opens before the old one closes, unless they are on the same port and stand in each other's way. */
  async #move(spec: ListenerSpec, protocol: Protocol, tls: SecureContextOptions | undefined, lastPort: number | undefined): Promise<ListenerState> {
    const old = this.#door;
    let opened = await this.#open(spec, protocol, tls, spec.port === 0 && lastPort !== undefined ? lastPort : spec.port);
    if (typeof opened === "string" && old && old.port === spec.port) {
      const back = { ...old.options, port: old.port };
      this.#leave(old);
      opened = await this.#open(spec, protocol, tls, spec.port);
      if (typeof opened === "string") this.#door = await Door.open(back, protocol, tls).catch(() => undefined);
    } else if (typeof opened !== "string" && old) this.#leave(old);
    if (typeof opened === "string") return { status: "failed", reason: opened };
    this.#door = opened;
    opened.connThrottle = spec.connThrottle;
    this.#place = { address: spec.address, port: spec.port };
    this.#pair = JSON.stringify(spec.tls);
    return { status: "open", address: spec.address, port: opened.port };
  }

  async #open(spec: ListenerSpec, protocol: Protocol, tls: SecureContextOptions | undefined, port: number): Promise<Door | string> {
    const { manner, beat, gates } = this.#options;
    const options = {
      address: spec.address,
      service: this.#service,
      roster: this.#roster,
      manner,
      beat,
      gate: gates.of(spec.balancer),
      tally: this.#tally,
      hint: this.#hint,
    };
    try {
      return await Door.open({ ...options, port }, protocol, tls);
    } catch (error) {
      const offset = codeOf(error) === "EACCES" ? offsetPort(port) : undefined;
      if (offset === undefined) return openFailure(error, spec.address, port);
      try {
        return await Door.open({ ...options, port: offset }, protocol, tls);
      } catch (again) {
        return `Port ${port} needs privileges this process lacks, so ${offset} was tried: ${await openFailure(again, spec.address, offset)}`;
      }
    }
  }

  #leave(door: Door): void {
    const left = door.close(this.#options.manner.limits.drainMs);
    this.#leaving.add(left);
    void left.then(() => this.#leaving.delete(left));
  }

  get counters(): ListenerCounters {
    const open = this.#door?.openBytes ?? { bytesIn: 0, bytesOut: 0 };
    const { bytesIn, bytesOut } = this.#tally;
    return { ...this.#tally, bytesIn: bytesIn + open.bytesIn, bytesOut: bytesOut + open.bytesOut, nodes: this.#roster.counters };
  }

  /** Resolves when the port is free and no connection is left. */
  async close(drainMs: number): Promise<void> {
    await Promise.all([this.#door?.close(drainMs), this.#datagrams?.close(), ...this.#leaving]);
    this.#service.close();
  }
}
