import { type Balance, leastconn, roundrobin, source, usableNodes } from "./algorithm.js";
import type { ListenerSpec, NodeSpec } from "./plane.js";
import { cookieNode, nodeCookie, StickTable, stuckNode } from "./stickiness.js";

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
  #open = new Map<number, number>();
  #table = new StickTable();

  update(spec: ListenerSpec): void {
    const weights = new Map(this.#spec.nodes.map((node) => [node.id, node.weight]));
    const ids = new Set(spec.nodes.map((node) => node.id));
    // A node that is new or weighs something else starts even: an old debt would starve it.
    const sameWeights = spec.nodes.every((node) => weights.get(node.id) === node.weight) && weights.size === ids.size;
    if (!sameWeights) this.#balance = new Map();
    this.#spec = spec;
    const up = new Set(spec.nodes.filter((node) => node.up).map((node) => node.id));
    this.#table.keepOnly((id) => up.has(id));
  }

  get nodes(): readonly NodeSpec[] {
    return this.#spec.nodes;
  }

  /** `undefined` when no usable node is left. */
  choose(caller: Caller, tried: ReadonlySet<number>, nowMs: number): Choice | undefined {
    const { nodes, stickiness, protocol } = this.#spec;
    const usable = usableNodes(nodes, tried);
    if (stickiness === "table") {
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
    const turn = this.#spec.algorithm === "leastconn" ? leastconn(usable, this.#open, this.#balance) : roundrobin(usable, this.#balance);
    if (!turn) return undefined;
    this.#balance = turn.balance;
    return turn.node;
  }

  /** Counts a connection or request to a node; the returned function, called once, counts it off. */
  occupy(node: number): () => void {
    this.#open.set(node, (this.#open.get(node) ?? 0) + 1);
    return () => {
      const left = (this.#open.get(node) ?? 1) - 1;
      if (left > 0) this.#open.set(node, left);
      else this.#open.delete(node);
    };
  }
}
