import type { NodeSpec } from "./plane.js";

/** Running totals of the smooth weighted round robin, per node id. The functions below count in it. */
export type Balance = Map<number, number>;

/**
 * The nodes a new client may be given: accept nodes that are up; backup nodes only when no such node is left (contract 8.5).
 * `tried` are those that just refused this request.
 */
export const usableNodes = (nodes: readonly NodeSpec[], tried: ReadonlySet<number>): readonly NodeSpec[] => {
  const inMode = (mode: NodeSpec["mode"]) => nodes.filter((node) => node.up && node.mode === mode && !tried.has(node.id));
  const accepting = inMode("accept");
  return accepting.length > 0 ? accepting : inMode("backup");
};

/**
 * Smooth weighted round robin: every node gains its weight, the richest is chosen and pays the sum of all. Equal weights come strictly in
 * turn, and 5:1:1 gives a a b a c a a instead of a a a a a b c.
 */
export const roundrobin = (nodes: readonly NodeSpec[], balance: Balance): NodeSpec | undefined => {
  if (nodes.length === 1) return nodes[0];
  let best: NodeSpec | undefined;
  let bestTotal = Number.NEGATIVE_INFINITY;
  let sum = 0;
  for (const node of nodes) {
    const total = (balance.get(node.id) ?? 0) + node.weight;
    balance.set(node.id, total);
    sum += node.weight;
    if (total > bestTotal) {
      best = node;
      bestTotal = total;
    }
  }
  if (best) balance.set(best.id, bestTotal - sum);
  return best;
};

/** The node with the fewest open connections (told by `open`) for its weight; equals take turns. */
export const leastconn = (nodes: readonly NodeSpec[], open: (id: number) => number, balance: Balance): NodeSpec | undefined => {
  const load = (node: NodeSpec) => (open(node.id) + 1) / node.weight;
  const least = Math.min(...nodes.map(load));
  return roundrobin(
    nodes.filter((node) => load(node) === least),
    balance,
  );
};

/** FNV-1a, 32 bit, with the final mix of murmur3: neighbouring addresses must not fall on the same remainder. */
const hash = (text: string): number => {
  let value = 0x811c9dc5;
  for (let index = 0; index < text.length; index++) value = Math.imul(value ^ text.charCodeAt(index), 0x01000193);
  value = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  value = Math.imul(value ^ (value >>> 13), 0xc2b2ae35);
  return (value ^ (value >>> 16)) >>> 0;
};

/**
 * Consistent hashing: each node draws a number from the client and itself, scaled by its weight, and the highest wins. When a node comes or
 * goes only the clients it wins or loses move.
 */
export const ringHash = (nodes: readonly NodeSpec[], client: string): NodeSpec | undefined => {
  let best: NodeSpec | undefined;
  let highest = Number.NEGATIVE_INFINITY;
  for (const node of nodes) {
    const share = (hash(`${client} ${node.id}`) + 0.5) / 2 ** 32;
    const drawn = -node.weight / Math.log(share);
    if (drawn <= highest) continue;
    best = node;
    highest = drawn;
  }
  return best;
};

/** A client address always gets the same node while the usable nodes stay the same. */
export const source = (nodes: readonly NodeSpec[], client: string): NodeSpec | undefined => nodes[hash(client) % Math.max(nodes.length, 1)];
