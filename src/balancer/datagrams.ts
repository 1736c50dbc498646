import { createSocket, type RemoteInfo, type Socket } from "node:dgram";
import { plainAddress } from "../kernel/addresses.js";
import type { Beat } from "./beat.js";
import type { Manner, Tally } from "./door.js";
import type { Gate } from "./gate.js";
import type { Meter } from "./meter.js";
import { familyOf, type NodeDatagrams, openDatagrams } from "./node-datagrams.js";
import type { ListenerSpec, NodeSpec } from "./plane.js";
import type { Roster } from "./roster.js";

interface DatagramOptions {
  address: string;
  port: number;
  roster: Roster;
  manner: Manner;
  beat: Beat;
  tally: Tally;
  gate: Gate;
}

/** What passes between one client and one node. The node sees a port of its own for it, so that its answers find the way back. */
interface Session {
  client: RemoteInfo;
  node: NodeSpec;
  upstream: NodeDatagrams;
  meter: Meter;
  seenMs: number;
}

/** One listening UDP socket: datagrams to nodes and their answers back, by a table of sessions. */
export class DatagramDoor {
  stickiness: ListenerSpec["stickiness"] = "session";
  /** New sessions a second per client address over the balancer; 0: no bound. */
  sessThrottle = 0;
  readonly #socket: Socket;
  /** By client and node. */
  readonly #sessions = new Map<string, Session>();
  /** The session a client had last, for stickiness `session`. */
  readonly #latest = new Map<string, Session>();
  readonly #stopBeat: () => void;
  #closed: Promise<void> | undefined;

  private constructor(readonly options: DatagramOptions) {
    this.#socket = createSocket(familyOf(options.address), (bytes, client) => this.#receive(bytes, client));
    this.#stopBeat = options.beat.add((nowMs) => {
      for (const session of this.#sessions.values()) if (nowMs - session.seenMs >= options.manner.limits.udpSessionMs) this.#end(session);
    });
  }

  /** @throws the socket's error. */
  static async open(options: DatagramOptions): Promise<DatagramDoor> {
    const door = new DatagramDoor(options);
    await new Promise<void>((resolve, reject) => {
      door.#socket.once("error", reject);
      door.#socket.bind({ address: options.address, port: options.port, exclusive: true }, () => {
        door.#socket.removeListener("error", reject);
        door.#socket.on("error", () => undefined);
        resolve();
      });
    }).catch((error) => {
      door.#stopBeat();
      throw error;
    });
    return door;
  }

  get port(): number {
    return this.#socket.address().port;
  }

  #receive(bytes: Buffer, client: RemoteInfo) {
    const { tally, roster } = this.options;
    tally.bytesIn += bytes.length;
    const address = plainAddress(client.address);
    const name = `${address} ${client.port}`;
    const nowMs = performance.now();
    const latest = this.stickiness === "session" ? this.#latest.get(name) : undefined;
    if (latest && roster.keeps(latest.node.id)) return this.#forward(latest, bytes, nowMs);
    const choice = roster.choose({ address, cookie: undefined }, new Set(), nowMs);
    const session = choice && (this.#sessions.get(`${name} ${choice.node.id}`) ?? this.#begin(name, address, client, choice.node, nowMs));
    if (session) this.#forward(session, bytes, nowMs);
  }

  /** `undefined` when the client or the balancer has as many as it may have: the datagram is lost, as datagrams are. */
  #begin(name: string, address: string, client: RemoteInfo, node: NodeSpec, nowMs: number): Session | undefined {
    const { gate, manner, roster, tally } = this.options;
    if (gate.open >= manner.maxConnections || !gate.admits(`udp ${address}`, this.sessThrottle, nowMs)) return undefined;
    const heard = (answer: Buffer): void => {
      session.seenMs = performance.now();
      session.meter.bytesOut += answer.length;
      tally.bytesOut += answer.length;
      this.#socket.send(answer, client.port, client.address, () => undefined);
    };
    const upstream = openDatagrams(node.endpoint, heard, () => this.#end(session));
    const session: Session = { client, node, upstream, meter: roster.enter(node.id), seenMs: nowMs };
    gate.open++;
    tally.connections++;
    session.meter.requests++;
    this.#sessions.set(`${name} ${node.id}`, session);
    this.#latest.set(name, session);
    return session;
  }

  #forward(session: Session, bytes: Buffer, nowMs: number): void {
    session.seenMs = nowMs;
    session.meter.bytesIn += bytes.length;
    this.options.tally.requests++;
    session.upstream.send(bytes, () => {
      session.meter.errors++;
    });
  }

  #end(session: Session): void {
    const name = `${plainAddress(session.client.address)} ${session.client.port}`;
    if (!this.#sessions.delete(`${name} ${session.node.id}`)) return;
    if (this.#latest.get(name) === session) this.#latest.delete(name);
    this.options.gate.open--;
    this.options.roster.leave(session.node.id);
    session.upstream.close();
  }

  /** Resolves when the port is free. There is nothing to drain: a datagram is on its way or gone. */
  close(): Promise<void> {
    this.#closed ??= new Promise<void>((resolve) => {
      this.#stopBeat();
      for (const session of this.#sessions.values()) this.#end(session);
      this.#socket.close(() => resolve());
    });
    return this.#closed;
  }
}
