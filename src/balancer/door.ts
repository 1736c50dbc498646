import { createServer, type Server, type Socket } from "node:net";
import { createServer as createTlsServer, type SecureContextOptions, type Server as TlsServer } from "node:tls";
import { plainAddress } from "../kernel/addresses.js";
import { sayLast } from "../kernel/last-words.js";
import { rawRefusal } from "./answer.js";
import type { Beat } from "./beat.js";
import { Lane } from "./fast/lane.js";
import { createFront, type Front } from "./front.js";
import type { Gate } from "./gate.js";
import type { Refusal } from "./headers.js";
import type { Limits } from "./limits.js";
import type { ListenerSpec } from "./plane.js";
import type { Roster } from "./roster.js";
import type { Service } from "./service.js";

/** What a listening stream socket speaks. */
export type Protocol = Exclude<ListenerSpec["protocol"], "udp">;

/** Counted over the whole life of a listener, doors that came and went included. */
export interface Tally {
  connections: number;
  requests: number;
  /** Connections that the fast lane gave to the careful one. */
  handedOver: number;
  bytesIn: number;
  bytesOut: number;
}

/** How a plane is set up, the same for all its listeners. */
export interface Manner {
  limits: Limits;
  /** Plain requests take the fast lane; off: every request takes the careful one. */
  fastLane: boolean;
  /** Client connections are kept open between requests; off: closed after each answer. */
  keepAlive: boolean;
  /** Open client connections of one balancer; further ones are answered 503 where the protocol can say it, and closed. */
  maxConnections: number;
}

const full: Refusal = { status: 503, token: "too-many-connections", sentence: "This balancer has as many open connections as it may have." };

interface DoorOptions {
  address: string;
  port: number;
  service: Service;
  roster: Roster;
  manner: Manner;
  beat: Beat;
  tally: Tally;
  gate: Gate;
  hint(node: number, reason: string): void;
}

const peerOf = (socket: Socket): string => `${socket.remoteAddress} ${socket.remotePort}`;

/**
 * One listening socket. What it speaks can change while it listens: a new connection is handed to plain HTTP, TLS or a tunnel as the protocol
 * says at that moment, so neither a switch nor a new certificate touches the port.
 */
export class Door {
  protocol: Protocol = "http";
  /** New connections a second per client address, over all listeners of the balancer; 0: no bound. */
  connThrottle = 0;
  readonly #server: Server;
  readonly #front: Front;
  readonly #lane: Lane | undefined;
  readonly #sockets = new Set<Socket>();
  /** In the middle of a TLS handshake, by the client's address and port: TLS does not say which socket a secure one came from. */
  readonly #handshakes = new Map<string, Socket>();
  #tls: TlsServer | undefined;
  #closed: Promise<void> | undefined;

  private constructor(
    readonly options: DoorOptions,
    protocol: Protocol,
    tls: SecureContextOptions | undefined,
  ) {
    const { service, roster, manner, beat, tally, hint } = options;
    const counted = () => {
      tally.requests++;
    };
    const { limits, keepAlive } = manner;
    this.#front = createFront({ service, limits, keepAlive, beat, counted });
    if (manner.fastLane) {
      const handOver = (client: Socket, leaving: boolean) => {
        tally.handedOver++;
        this.#front.serve(client, leaving);
      };
      this.#lane = new Lane({ roster, limits, beat, keepAlive, hint, counted, handOver });
    }
    // Keep-alive (RFC 9293 section 3.8.4) also tells a client that half-closed from one that left, in the middle of an answer that says nothing for
    // hours: the one acknowledges probes for as long as it lives, the other is forgotten by its kernel (Linux: after 60 s), which then resets.
    this.#server = createServer({ allowHalfOpen: true, noDelay: true, keepAlive: true, keepAliveInitialDelay: 60_000 }, (socket) =>
      this.#accept(socket),
    );
    this.speak(protocol, tls);
  }

  /** @throws the socket's error (`EACCES`, `EADDRINUSE`, `EADDRNOTAVAIL` …) or OpenSSL's. */
  static async open(options: DoorOptions, protocol: Protocol, tls: SecureContextOptions | undefined): Promise<Door> {
    const door = new Door(options, protocol, tls);
    await new Promise<void>((resolve, reject) => {
      door.#server.once("error", reject);
      door.#server.listen({ host: options.address, port: options.port, backlog: 1024, exclusive: true }, () => {
        door.#server.removeListener("error", reject);
        door.#server.on("error", () => undefined); // accept errors (EMFILE): the next accept may work
        resolve();
      });
    }).catch((error) => {
      door.#lane?.close();
      door.#front.close();
      throw error;
    });
    return door;
  }

  /** The port it really listens on. */
  get port(): number {
    const address = this.#server.address();
    return typeof address === "object" && address !== null ? address.port : this.options.port;
  }

  /** Bytes of connections that are still open, not yet in the tally. */
  get openBytes(): { bytesIn: number; bytesOut: number } {
    let bytesIn = 0;
    let bytesOut = 0;
    for (const socket of this.#sockets) {
      bytesIn += socket.bytesRead;
      bytesOut += socket.bytesWritten;
    }
    return { bytesIn, bytesOut };
  }

  /** New connections speak this from now on. @throws OpenSSL's error when the pair cannot be used; nothing has changed then. */
  speak(protocol: Protocol, tls: SecureContextOptions | undefined): void {
    if (tls && this.#tls) this.#tls.setSecureContext(tls);
    else if (tls) this.#tls = this.#createTls(tls);
    if (this.protocol !== protocol) this.#retire();
    this.protocol = protocol;
  }

  #createTls(options: SecureContextOptions): TlsServer {
    const server = createTlsServer(
      { ...options, ALPNProtocols: ["http/1.1"], handshakeTimeout: this.options.manner.limits.handshakeMs },
      (socket) => {
        this.#handshakes.delete(peerOf(socket));
        socket.allowHalfOpen = true;
        this.#speakHttp(socket);
      },
    );
    server.on("tlsClientError", (_error, socket) => socket.destroy());
    return server;
  }

  #accept(socket: Socket): void {
    const { tally, service, gate, manner } = this.options;
    if (this.#closed || !gate.admits(plainAddress(socket.remoteAddress), this.connThrottle, performance.now())) {
      socket.destroy();
      return;
    }
    if (gate.open >= manner.maxConnections) {
      socket.on("error", () => undefined);
      if (this.protocol === "http") sayLast(socket, rawRefusal(full));
      else socket.destroy();
      return;
    }
    gate.open++;
    tally.connections++;
    this.#sockets.add(socket);
    socket.on("error", () => undefined); // its "close" follows, and that is what everybody here listens to
    socket.once("close", () => {
      this.#sockets.delete(socket);
      gate.open--;
      tally.bytesIn += socket.bytesRead;
      tally.bytesOut += socket.bytesWritten;
    });
    if (this.protocol === "tcp") service.tunnel(socket);
    else if (this.protocol === "http") this.#speakHttp(socket);
    else this.#shakeHands(socket);
  }

  #speakHttp(socket: Socket): void {
    if (this.#lane) this.#lane.serve(socket);
    else this.#front.serve(socket, false);
  }

  #retire(): void {
    this.#lane?.retire();
    this.#front.retire();
  }

  #shakeHands(socket: Socket): void {
    const peer = peerOf(socket);
    this.#handshakes.set(peer, socket);
    socket.once("close", () => this.#handshakes.delete(peer));
    // A client that leaves now has left; with half-open allowed it would be waited for.
    socket.allowHalfOpen = false;
    this.#tls?.emit("connection", socket);
  }

  /** Stops accepting at once; requests under way get `drainMs`, then everything is cut. Resolves when no socket is left. */
  close(drainMs: number): Promise<void> {
    this.#closed ??= new Promise<void>((resolve) => {
      const timer = setTimeout(() => {
        for (const socket of this.#sockets) socket.destroy();
      }, drainMs);
      this.#server.close(() => {
        clearTimeout(timer);
        resolve();
      });
      this.#retire();
      this.#lane?.close();
      this.#front.close();
      for (const socket of this.#handshakes.values()) socket.destroy();
      if (this.protocol === "tcp") for (const socket of this.#sockets) socket.destroy();
    });
    return this.#closed;
  }
}
