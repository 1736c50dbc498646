import type { Disposable } from "../kernel/closers.js";
import type { Via } from "../kernel/relay.js";

/**
 * The data plane: specs in, states and counters out. It decides nothing: which nodes are usable is in the spec. It lives in a worker
 * thread (DESIGN section 3 "Threads"), so everything here is plain data that can be posted as a message.
 */
export interface BalancerPlane extends Disposable {
  /**
   * Makes the listener of `key` match `wanted`: opens, moves, re-arms (certificate, protocol, nodes) or, for `undefined`, closes and
   * frees the port. Whole, repeatable; changes that do not move the socket never drop an open connection.
   * Resolves with what is, never rejects for a reason the user can mend: that is `failed`.
   */
  apply(key: ListenerKey, wanted: ListenerSpec | undefined): Promise<ListenerState>;
  /** Counters since the plane started, per key; those of closed listeners until they are forgotten. */
  counters(): Promise<Record<ListenerKey, ListenerCounters>>;
  /** Lets go of what was counted for listeners that are closed and for which nothing was counted since `read`, an answer of `counters`. */
  forget(read: Readonly<Record<ListenerKey, ListenerCounters>>): void;
  /** Passive health: a node refused, timed out or answered 5xx (except 501, 505) to a real request. May repeat. */
  watch(hint: (key: ListenerKey, node: number, reason: string) => void): Disposable;
  /** A lost worker was replaced and this listener opened again, or not: its state may be another one, and `apply` tells which. */
  watchReopened(told: (key: ListenerKey) => void): Disposable;
}

/** One per config, e.g. `"config:9"`. */
export type ListenerKey = string;

export interface ListenerSpec {
  /** Where to listen: a loopback address unless the user asked otherwise. */
  address: string;
  port: number;
  protocol: "http" | "https" | "tcp" | "udp";
  /** PEM; chain allowed in `cert`. Present when protocol is `https`. */
  tls: { cert: string; key: string; cipherSuite: "recommended" | "legacy" } | null;
  algorithm: "roundrobin" | "leastconn" | "source" | "ring_hash";
  stickiness: "none" | "table" | "http_cookie" | "session" | "source_ip";
  checkPassive: boolean;
  /** Its listeners share the two bounds on connections. */
  balancer: number;
  /** New connections a second per client address over the whole balancer; 0: no bound. One too many is closed without a word. */
  connThrottle: number;
  /** New UDP sessions a second per client address; 0: no bound. One too many is dropped. */
  udpSessThrottle: number;
  /** What a tcp node is told of the client before its first byte. */
  proxyProtocol: "none" | "v1" | "v2";
  nodes: readonly NodeSpec[];
}

export interface NodeSpec {
  id: number;
  label: string;
  /** What the API shows, `192.168.128.2:80`. */
  address: string;
  /** Where it really is. */
  endpoint: PlaneEndpoint;
  /** 1..255 */
  weight: number;
  mode: "accept" | "reject" | "drain" | "backup";
  /** Health as last measured; a node that is not up gets no new request. */
  up: boolean;
}

export interface PlaneEndpoint {
  host: string;
  port: number;
  /** Absent: it is dialled itself. */
  via?: Via;
}

export type ListenerState = { status: "open"; address: string; port: number } | { status: "failed"; reason: string } | { status: "closed" };

export interface ListenerCounters {
  connections: number;
  requests: number;
  /** Connections that the fast lane gave to the careful one, since a request on them was not plain. */
  handedOver: number;
  /** From clients. */
  bytesIn: number;
  /** To clients. */
  bytesOut: number;
  /** By node id: nodes of the listener's spec at this moment and those it had before. */
  nodes: Record<number, NodeCounters>;
}

export interface NodeCounters {
  /** Requests, or connections of a tcp listener, that reached it. */
  requests: number;
  /** To the node. */
  bytesIn: number;
  /** From the node. */
  bytesOut: number;
  /** It could not be reached, broke off, or answered 5xx other than 501 and 505. */
  errors: number;
  /** Requests or connections under way. */
  open: number;
  /** How many answers began within each bound of `LATENCY_BOUNDS_MS`, counted from the request's head; the last entry: later. */
  latency: readonly number[];
}
