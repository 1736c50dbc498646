import { isLack } from "../balancer/lack.js";
import { openMatcher } from "../balancer/matching.js";
import { type Probe, type ProbeResult, startProbe } from "../balancer/probe.js";
import type { Disposable } from "../kernel/closers.js";
import { reasonOf } from "../kernel/fault.js";
import { addressesOf } from "../resources/addresses/address.js";
import { type Cloud, observe, observed } from "../resources/cloud.js";
import type { ConfigRow } from "../resources/configs/config.js";
import { type NodeProbe, type NodeRow, nodeStatus, nodesOf } from "../resources/nodes/node.js";
import { parseNodeAddress } from "../resources/nodes/rules.js";
import type { RuntimeDriver } from "../runtime/driver.js";
import { isSame } from "./known-rows.js";
import { openLoop } from "./loop.js";
import { nodeTarget } from "./node-target.js";

export interface Health extends Disposable {
  /** The last 50 measurements of a node, oldest first; to be read at once, since entries are used again. */
  probes(node: number): readonly NodeProbe[];
  /** Something happened to this node: measure now, and do not wait the interval between its attempts. */
  hint(node: number): void;
  /** A real request failed at this node: out until a measurement after a while is good. */
  suspect(node: number): void;
  /** Resolves when every node that was there at the start was measured once, or after `boundMs` real milliseconds. */
  measured(boundMs: number): Promise<void>;
}

interface HealthOptions {
  cloud: Cloud;
  driver: Pick<RuntimeDriver, "dial" | "watchDial">;
  onFailure(node: number, error: unknown): void;
}

const keptProbes = 50;
/** A node that is not up is looked at this often at the most, in simulated ms, so that "the port starts listening" is noticed soon. */
const recoveryMs = 5_000;
/** However fast time goes, a check may take this long, in real ms. */
const shortestTimeoutMs = 100;
const shortestPauseMs = 20;

const hostOf = (row: NodeRow): string | null => parseNodeAddress(row.address)?.host ?? null;

/** When the next check begins: an interval after this one was due, or after its beginning when it came unasked or very late. Pure. */
const nextDue = (dueMs: number | undefined, beganMs: number, waitMs: number): number => {
  const lateMs = dueMs === undefined ? Number.NaN : beganMs - dueMs;
  return lateMs >= 0 && lateMs < waitMs / 2 ? beganMs - lateMs + waitMs : beganMs + waitMs;
};

export const openHealth = ({ cloud, driver, onFailure }: HealthOptions): Health => {
  const { store, clock } = cloud;
  const matcher = openMatcher();
  const history = new Map<number, NodeProbe[]>();
  const failures = new Map<number, number>();
  const hinted = new Set<number>();
  /** Nodes that a real request failed at, and when they are measured again (real ms). */
  const outUntilMs = new Map<number, number>();
  /** When each node's next check is to begin, of `clock.monotonic()`. */
  const dueAtMs = new Map<number, number>();
  /** The check under way, by node. */
  const checks = new Map<number, Probe>();
  let closing = false;
  const unmeasured = new Set(store.list("node").map((row) => row.id));
  let allMeasured = (): void => {};
  const firstRound = new Promise<void>((resolve) => {
    allMeasured = resolve;
  });
  const tick = (id: number): void => {
    unmeasured.delete(id);
    if (unmeasured.size === 0) allMeasured();
  };

  /** Asks the world; when it need not be asked, the answer itself: no further attempt is needed to believe that. */
  const measure = (row: NodeRow, config: ConfigRow): Probe | ProbeResult => {
    const target = nodeTarget(cloud, driver, row);
    if (target.reason !== undefined) return { ok: false, reason: target.reason, durationMs: 0 };
    const { endpoint, holder } = target;
    const seen = holder && observed(store, "instance", holder.instanceId);
    // The engine's word: a dead container's address does not refuse, it only stays silent.
    if (holder && !seen?.running) return { ok: false, reason: `Instance ${holder.instanceId} is not running.`, durationMs: 0 };
    return startProbe(
      {
        kind: config.check === "none" ? "connection" : config.check,
        host: endpoint.host,
        port: config.protocol === "udp" ? (driver.dial(hostOf(row) ?? "", config.udpCheckPort)?.port ?? config.udpCheckPort) : endpoint.port,
        path: config.checkPath,
        body: config.checkBody,
        timeoutMs: Math.max(shortestTimeoutMs, clock.simulated(config.checkTimeout * 1000)),
        hostHeader: row.address,
        via: endpoint.via,
      },
      matcher,
    );
  };

  /** The rows it makes are used again once they are the oldest: what lives for minutes and then is garbage costs full collections. */
  const remember = (id: number, atMs: number, { ok, reason, durationMs }: ProbeResult): void => {
    const probes = history.get(id) ?? [];
    if (probes.length === 0) history.set(id, probes);
    const entry = probes.length < keptProbes ? undefined : probes.shift();
    if (!entry) return void probes.push({ atMs, durationMs, ok, reason });
    entry.atMs = atMs;
    entry.durationMs = durationMs;
    entry.ok = ok;
    entry.reason = reason;
    probes.push(entry);
  };

  /** Told only when it is another word: to compare rows costs more than to compare words. */
  const tellStatus = (id: number, status: "UP" | "DOWN", isOut: boolean): void => {
    const seen = observed(store, "node", id);
    if (seen?.status !== status || (seen.out ?? false) !== isOut) observe(store, "node", id, isOut ? { status, out: true } : { status });
  };

  const forget = (id: number): void => {
    history.delete(id);
    failures.delete(id);
    hinted.delete(id);
    outUntilMs.delete(id);
    dueAtMs.delete(id);
    observe(store, "node", id, undefined);
  };

  const reconcile = async (id: number): Promise<number | undefined> => {
    const row = store.get("node", id);
    const config = row && store.get("config", row.configId);
    if (!row || !config) return void forget(id);
    // Contract 8.5: checks of a node in mode reject stop, and it counts as down.
    if (row.mode === "reject") return void observe(store, "node", id, { status: "Unknown" });
    const urgent = hinted.delete(id);
    const outMs = (outUntilMs.get(id) ?? 0) - performance.now();
    if (!urgent && outMs > 0) return outMs;
    outUntilMs.delete(id);
    const atMs = clock.now();
    const beganMs = clock.monotonic();
    const asked = measure(row, config);
    const final = !("result" in asked);
    let result: ProbeResult;
    if (final) result = asked;
    else {
      checks.set(id, asked);
      result = await asked.result;
      checks.delete(id);
      if (asked.stopped || closing) return undefined;
    }
    // What was measured is not what the rows say any more: measure that.
    if (store.get("node", id) !== row || store.get("config", row.configId) !== config) {
      hinted.add(id);
      return 0;
    }
    remember(id, atMs, result);
    // No word about the node: what was known of it stands.
    if (isLack(result.reason)) return clock.simulated(recoveryMs);
    const failed = result.ok ? 0 : (failures.get(id) ?? 0) + 1;
    failures.set(id, failed);
    const out = !result.ok && (final || failed >= config.checkAttempts || nodeStatus(store, id) !== "UP");
    // Where an instance does not run, whoever answers is somebody else.
    if (result.ok || out) tellStatus(id, result.ok ? "UP" : "DOWN", final);
    if (urgent && !result.ok && !out) {
      hinted.add(id);
      return 0;
    }
    const intervalMs = config.checkInterval * 1000;
    const waitMs = clock.simulated(result.ok || !out ? intervalMs : Math.min(intervalMs, recoveryMs));
    // An interval lies between two beginnings: what a check took, and a late timer, must not add up.
    const dueMs = nextDue(dueAtMs.get(id), beganMs, waitMs);
    dueAtMs.set(id, dueMs);
    return Math.max(shortestPauseMs, dueMs - clock.monotonic());
  };

  /** Our own observations are told to watchers too; only a changed row is a reason to measure again. */
  const knownNodes = new Map<number, NodeRow>();
  const knownConfigs = new Map<number, ConfigRow>();
  const sameNode = (id: number): boolean => isSame(knownNodes, id, store.get("node", id));
  const sameConfig = (id: number): boolean => isSame(knownConfigs, id, store.get("config", id));

  const loop = openLoop({
    reconcile: (id) => (unmeasured.size === 0 ? reconcile(id) : reconcile(id).finally(() => tick(id))),
    clock,
    onFailure: (id, error) => onFailure(id, reasonOf(error)),
    concurrency: 256,
  });
  const hint = (id: number): void => {
    hinted.add(id);
    loop.poke(id);
  };
  /**
   * Contract 8.5, passive checks: the node is out at once. It is measured after a while, not now: a node that answers 500 would pass a
   * connection check and be back in the same moment.
   */
  const suspect = (id: number): void => {
    const row = store.get("node", id);
    const config = row && store.get("config", row.configId);
    if (!row || row.mode === "reject" || !config?.checkPassive || outUntilMs.has(id)) return;
    const waitMs = clock.simulated(recoveryMs);
    outUntilMs.set(id, performance.now() + waitMs);
    observe(store, "node", id, { status: "DOWN", out: true });
    checks.get(id)?.stop();
    loop.poke(id, waitMs);
  };
  /** A check under way would wait its whole timeout for an address that fell silent, or for what the rows no longer say. */
  const hintAfresh = (id: number): void => {
    hint(id);
    checks.get(id)?.stop();
  };
  const watching = store.watch((kind, id) => {
    if (kind === "node") {
      const before = knownNodes.get(id);
      if (sameNode(id)) return;
      // Another address is another server: nothing that was measured speaks for it.
      if (before && before.address !== store.get("node", id)?.address) {
        failures.delete(id);
        observe(store, "node", id, { status: "Unknown" });
      }
      hintAfresh(id);
    }
    if (kind === "config" && !sameConfig(id)) for (const row of nodesOf(store, id)) hintAfresh(row.id);
    if (kind === "instance") {
      const tell = observed(store, "instance", id)?.running ? hint : hintAfresh;
      for (const { address } of addressesOf(store, id)) for (const row of store.find("node", hostOf, address)) tell(row.id);
    }
  });

  const dialling = driver.watchDial(() => {
    for (const row of store.list("node")) hintAfresh(row.id);
  });

  for (const row of store.list("config")) knownConfigs.set(row.id, row);
  for (const row of store.list("node")) {
    knownNodes.set(row.id, row);
    loop.poke(row.id);
  }

  return {
    probes: (node) => history.get(node) ?? [],
    hint,
    suspect,
    measured: async (boundMs) => {
      if (unmeasured.size > 0) await Promise.race([firstRound, clock.sleep(boundMs)]);
    },
    close: async () => {
      await dialling.close();
      await watching.close();
      closing = true;
      const ended = loop.close();
      for (const check of checks.values()) check.stop();
      await ended;
      await matcher.close();
    },
  };
};
