import type { Manner } from "./door.js";
import type { ListenerCounters, ListenerKey, ListenerSpec, ListenerState } from "./plane.js";

/** What the host asks of the worker. TLS keys travel here and nowhere else. */
export type Order =
  /** `lastPort`: where this listener was before a lost worker; taken again when the spec leaves the port open (0). */
  | { kind: "apply"; id: number; key: ListenerKey; wanted: ListenerSpec | undefined; lastPort?: number }
  | { kind: "counters"; id: number }
  | { kind: "close"; id: number };

/** What the worker tells the host. */
export type Report =
  /** `counted`: all that a listener that is now closed had counted. */
  | { kind: "state"; id: number; key: ListenerKey; state: ListenerState; counted?: ListenerCounters }
  | { kind: "counters"; id: number; counters: Record<ListenerKey, ListenerCounters> }
  | { kind: "closed"; id: number }
  | { kind: "hint"; key: ListenerKey; node: number; reason: string };

export type WorkerSettings = Manner;
