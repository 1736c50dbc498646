import type { Agent } from "node:http";
import { relayFailure } from "../kernel/relay.js";
import type { Arrival } from "./headers.js";
import { lackReason } from "./lack.js";
import type { Limits } from "./limits.js";
import type { Meter } from "./meter.js";
import type { NodeSpec } from "./plane.js";

/** How one try to have a node answer a request ended. */
export type Outcome =
  | { kind: "done" }
  /** Nothing was sent: another node may be asked. */
  | { kind: "unreached"; reason: string }
  /** The node has or may have seen the request; the client has seen nothing. `replayable`: another node may be sent it too. */
  | { kind: "broken"; status: 502 | 504; token: string; reason: string; replayable?: boolean }
  /** The answer had begun; the client's connection was cut so that it can tell. */
  | { kind: "cut"; reason: string }
  /** The client left. */
  | { kind: "gone" };

/** Connections to nodes: `kept` are reused, `fresh` never. */
export interface Agents {
  kept: Agent;
  fresh: Agent;
}

/** One try: rides in http-proxy's options to our passes. */
export interface Attempt {
  node: NodeSpec;
  meter: Meter;
  arrival: Arrival;
  setCookie: string | undefined;
  agents: Agents;
  limits: Limits;
  /** The status of the node's answer, as soon as it is known. */
  answered(status: number): void;
  /** Called exactly once. */
  settle(outcome: Outcome): void;
}

/** 501 and 505 say what the node cannot do, not that it is ill (contract 8.5). */
export const isIll = (status: number): boolean => status >= 500 && status !== 501 && status !== 505;

/** A failed connect in words; `undefined` when the error is not about connecting. */
export const connectReason = (code: string | undefined): string => {
  switch (code) {
    case "ECONNREFUSED":
      return "refused the connection";
    case "EHOSTUNREACH":
    case "ENETUNREACH":
      return "is not reachable";
    case relayFailure:
      return "could not be asked: the relay of its network does not answer";
    default:
      return lackReason(code) ?? `did not accept a connection${code === undefined ? "" : ` (${code})`}`;
  }
};
