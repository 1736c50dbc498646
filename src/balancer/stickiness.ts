import type { NodeSpec } from "./plane.js";

/** Contract 8.5: a client is remembered for 30 minutes of inactivity. */
export const STICKY_IDLE_MS = 30 * 60_000;
/** Beyond this many clients the one unseen longest is forgotten, so that a flood of addresses cannot fill the memory. */
const MAX_CLIENTS = 100_000;

/** Client address -> node id. The map is kept in order of last use, so what is too old is always at its front. */
export class StickTable {
  #clients = new Map<string, { node: number; seenMs: number }>();

  find(client: string, nowMs: number): number | undefined {
    const entry = this.#clients.get(client);
    return entry && nowMs - entry.seenMs < STICKY_IDLE_MS ? entry.node : undefined;
  }

  remember(client: string, node: number, nowMs: number): void {
    this.#clients.delete(client);
    this.#clients.set(client, { node, seenMs: nowMs });
    for (const [oldest, entry] of this.#clients) {
      if (this.#clients.size <= MAX_CLIENTS && nowMs - entry.seenMs < STICKY_IDLE_MS) break;
      this.#clients.delete(oldest);
    }
  }

  /** Forgets every client of a node for which `keeps` says no. */
  keepOnly(keeps: (node: number) => boolean): void {
    for (const [client, entry] of this.#clients) if (!keeps(entry.node)) this.#clients.delete(client);
  }

  get size(): number {
    return this.#clients.size;
  }
}

const COOKIE = "NB_SRVID";

/** The node id in the balancer's cookie (contract 8.5), when there is one. */
export const cookieNode = (cookieHeader: string | undefined): number | undefined => {
  const match = cookieHeader === undefined ? null : /(?:^|;)\s*NB_SRVID=n(\d{1,15})\s*(?:;|$)/.exec(cookieHeader);
  return match ? Number(match[1]) : undefined;
};

export const nodeCookie = (node: number): string => `${COOKIE}=n${node}; path=/`;

/**
 * The node a client is stuck to, if it may still have it: up and in accept or drain mode. A backup node keeps its client only while it is
 * among the usable ones.
 */
export const stuckNode = (
  nodes: readonly NodeSpec[],
  usable: readonly NodeSpec[],
  id: number | undefined,
  tried: ReadonlySet<number>,
): NodeSpec | undefined => {
  if (id === undefined || tried.has(id)) return undefined;
  const node = nodes.find((candidate) => candidate.id === id);
  if (!node?.up) return undefined;
  return node.mode === "accept" || node.mode === "drain" || usable.includes(node) ? node : undefined;
};
