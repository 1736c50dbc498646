import type { Socket } from "node:net";
import { dialEndpoint } from "../../kernel/relay.js";
import { codeOf } from "../../kernel/remedy.js";
import { Intake } from "../intake.js";
import type { PlaneEndpoint } from "../plane.js";

/** Who uses a connection to a node at the moment. */
export interface Exchange {
  onConnect(): void;
  /** The first `size` of `bytes`. They may change after it has returned; see `NodeConnection.hold`. */
  onNodeBytes(bytes: Buffer, size: number): void;
  onNodeDrain(): void;
  /** The node ended (`clean`) or broke the connection; it is of no use any more. */
  onNodeGone(code: string | undefined, clean: boolean): void;
}

/** One connection to a node. Its listeners are set once, and it knows for whom it works. */
export class NodeConnection {
  readonly socket: Socket;
  /** It carried a request before. */
  used = false;
  idleSinceMs = 0;
  exchange: Exchange | undefined;
  readonly #intake = new Intake((bytes, size) => {
    if (this.exchange) this.exchange.onNodeBytes(bytes, size);
    else this.socket.destroy(); // nobody asked
  });
  #code: string | undefined;

  constructor(
    readonly key: string,
    endpoint: PlaneEndpoint,
    private readonly gone: (connection: NodeConnection) => void,
  ) {
    this.socket = dialEndpoint(endpoint, { noDelay: true, onread: this.#intake.onread });
    this.socket.on("connect", () => this.exchange?.onConnect());
    this.socket.on("drain", () => this.exchange?.onNodeDrain());
    this.socket.on("error", (error) => {
      this.#code = codeOf(error);
    });
    this.socket.on("end", () => this.#leave(true));
    this.socket.on("close", () => this.#leave(false));
  }

  /** For `onNodeBytes`: see `Intake.hold`. */
  hold(): (() => void) | undefined {
    return this.#intake.hold();
  }

  #leave(clean: boolean): void {
    this.gone(this);
    const { exchange } = this;
    this.exchange = undefined;
    this.socket.destroy();
    exchange?.onNodeGone(this.#code, clean);
  }

  /** Ends it without telling who used it. */
  destroy(): void {
    this.exchange = undefined;
    this.socket.destroy();
  }
}

/** A node is not trusted to keep an idle connection longer than this; Node's own servers close after 5 s. */
const IDLE_MS = 4_000;

const keyOf = (endpoint: PlaneEndpoint): string => `${endpoint.host} ${endpoint.port}`;

/**
 * Connections to nodes: open ones that nobody uses, the one used last on top. They have no bound of their own: no more are idle than were busy at
 * once a moment ago, and closing those beyond a number would mean a new connection for nearly every request as soon as more clients than that ask
 * at once.
 */
export class NodePool {
  readonly #idle = new Map<string, NodeConnection[]>();
  readonly #all = new Set<NodeConnection>();
  #closed = false;

  readonly #forget = (connection: NodeConnection): void => {
    this.#all.delete(connection);
    const idle = this.#idle.get(connection.key);
    const at = idle?.lastIndexOf(connection) ?? -1;
    if (at >= 0) idle?.splice(at, 1);
  };

  /** An open connection that carried a request before; it may turn out to be dead. */
  take(endpoint: PlaneEndpoint): NodeConnection | undefined {
    const idle = this.#idle.get(keyOf(endpoint));
    for (let connection = idle?.pop(); connection; connection = idle?.pop()) if (!connection.socket.destroyed) return connection;
    return undefined;
  }

  open(endpoint: PlaneEndpoint): NodeConnection {
    const connection = new NodeConnection(keyOf(endpoint), endpoint, this.#forget);
    this.#all.add(connection);
    return connection;
  }

  /** Takes a connection back whose exchange is over. */
  give(connection: NodeConnection, nowMs: number): void {
    connection.exchange = undefined;
    connection.used = true;
    connection.idleSinceMs = nowMs;
    const idle = this.#idle.get(connection.key);
    if (this.#closed) connection.destroy();
    else if (idle) idle.push(connection);
    else this.#idle.set(connection.key, [connection]);
  }

  /** Ends what was idle for too long. */
  sweep(nowMs: number): void {
    for (const [key, idle] of this.#idle) {
      let stale = 0; // those unused longest lie at the bottom
      while (stale < idle.length && nowMs - (idle[stale] as NodeConnection).idleSinceMs > IDLE_MS) stale++;
      for (const connection of idle.splice(0, stale)) connection.destroy();
      if (idle.length === 0) this.#idle.delete(key);
    }
  }

  /** Ends idle connections to endpoints that are no longer used. */
  keepOnly(endpoints: Iterable<PlaneEndpoint>): void {
    const kept = new Set([...endpoints].map(keyOf));
    for (const [key, idle] of this.#idle) {
      if (kept.has(key)) continue;
      for (const connection of idle.splice(0)) connection.destroy();
      this.#idle.delete(key);
    }
  }

  close(): void {
    this.#closed = true;
    for (const connection of this.#all) if (!connection.exchange) connection.destroy();
  }
}
