import { type Balance, leastconn, ringHash, roundrobin, source, usableNodes } from "./algorithm.js";
import { Meter } from "./meter.js";
import type { ListenerSpec, NodeCounters, NodeSpec } from "./plane.js";
import { cookieNode, nodeCookie, StickTable, stuckNode } from "./stickiness.js";

const NONE: ReadonlySet<number> = new Set();

/** Who asks for a node. */
export interface Caller {
  address: string;
  /** The `Cookie` field; `undefined` for tcp. */
  cookie: string | undefined;
}

export interface Choice {
  node: NodeSpec;
  /** `Set-Cookie` value to add to the answer. */
  setCookie: string | undefined;
}

/** The nodes of one listener with what changes from request to request: whose turn it is, who is busy, who is stuck to whom. */
export class Roster {
  #spec: Pick<ListenerSpec, "nodes" | "algorithm" | "stickiness" | "protocol"> = {
    nodes: [],
    algorithm: "roundrobin",
    stickiness: "none",
    protocol: "http",
  };
  #balance: Balance = new Map();
  #usable: readonly NodeSpec[] = [];
  readonly #meters = new Map<number, Meter>();
  readonly #openOf = (id: number): number => this.#meters.get(id)?.open ?? 0;
  #table = new StickTable();

  update(spec: ListenerSpec): void {
    const weights = new Map(this.#spec.nodes.map((node) => [node.id, node.weight]));
    const ids = new Set(spec.nodes.map((node) => node.id));
    // A node that is new or weighs something else starts even: an old debt would starve it.
    const sameWeights = spec.nodes.every((node) => weights.get(node.id) === node.weight) && weights.size === ids.size;
    if (!sameWeights) this.#balance = new Map();
    this.#spec = spec;
    this.#usable = usableNodes(spec.nodes, NONE);
    for (const [id, meter] of this.#meters) if (!ids.has(id) && meter.open === 0) this.#meters.delete(id);
    const up = new Set(spec.nodes.filter((node) => node.up).map((node) => node.id));
    this.#table.keepOnly((id) => up.has(id));
  }

  get nodes(): readonly NodeSpec[] {
    return this.#spec.nodes;
  }

  /** `undefined` when no usable node is left. */
  choose(caller: Caller, tried: ReadonlySet<number>, nowMs: number): Choice | undefined {
    const { nodes, stickiness, protocol } = this.#spec;
    const usable = tried.size === 0 ? this.#usable : usableNodes(nodes, tried);
    if (stickiness === "table" || stickiness === "source_ip") {
      const node = stuckNode(nodes, usable, this.#table.find(caller.address, nowMs), tried) ?? this.#next(usable, caller);
      if (node) this.#table.remember(caller.address, node.id, nowMs);
      return node && { node, setCookie: undefined };
    }
    if (stickiness === "http_cookie" && protocol !== "tcp") {
      const named = cookieNode(caller.cookie);
      const node = stuckNode(nodes, usable, named, tried) ?? this.#next(usable, caller);
      return node && { node, setCookie: node.id === named ? undefined : nodeCookie(node.id) };
    }
    const node = this.#next(usable, caller);
    return node && { node, setCookie: undefined };
  }

  #next(usable: readonly NodeSpec[], caller: Caller): NodeSpec | undefined {
    if (this.#spec.algorithm === "source") return source(usable, caller.address);
    if (this.#spec.algorithm === "ring_hash") return ringHash(usable, caller.address);
    return this.#spec.algorithm === "leastconn" ? leastconn(usable, this.#openOf, this.#balance) : roundrobin(usable, this.#balance);
  }

  /** Whether a client that has this node may go on with it. */
  keeps(id: number): boolean {
    return stuckNode(this.#spec.nodes, this.#usable, id, NONE) !== undefined;
  }

  /** Counts a connection or request to a node, until `leave`. */
  enter(node: number): Meter {
    let meter = this.#meters.get(node);
    if (!meter) {
      meter = new Meter();
      this.#meters.set(node, meter);
    }
    meter.open++;
    return meter;
  }

  leave(node: number): void {
    const meter = this.#meters.get(node);
    if (meter) meter.open--;
  }

  get counters(): Record<number, NodeCounters> {
    return Object.fromEntries([...this.#meters].map(([id, meter]) => [id, meter.counters]));
  }
}
