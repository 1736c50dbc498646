import type { ListenerCounters, NodeCounters } from "./plane.js";

const sumOfNode = (a: NodeCounters | undefined, b: NodeCounters): NodeCounters => ({
  requests: (a?.requests ?? 0) + b.requests,
  bytesIn: (a?.bytesIn ?? 0) + b.bytesIn,
  bytesOut: (a?.bytesOut ?? 0) + b.bytesOut,
  errors: (a?.errors ?? 0) + b.errors,
  open: b.open,
  latency: b.latency.map((count, index) => count + (a?.latency[index] ?? 0)),
});

/** Two lives of one listener in one; `a` is the past: what was open then is not any more. */
export const sumOfCounters = (a: ListenerCounters | undefined, b: ListenerCounters): ListenerCounters => {
  if (!a) return b;
  const past = Object.entries(a.nodes).map(([id, counters]) => [id, { ...counters, open: 0 }]);
  const present = Object.entries(b.nodes).map(([id, counters]) => [id, sumOfNode(a.nodes[Number(id)], counters)]);
  return {
    connections: a.connections + b.connections,
    requests: a.requests + b.requests,
    handedOver: a.handedOver + b.handedOver,
    bytesIn: a.bytesIn + b.bytesIn,
    bytesOut: a.bytesOut + b.bytesOut,
    nodes: Object.fromEntries([...past, ...present]),
  };
};
