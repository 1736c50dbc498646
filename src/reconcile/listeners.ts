import type { BalancerPlane, ListenerKey, ListenerSpec, NodeSpec } from "../balancer/plane.js";
import type { Disposable } from "../kernel/closers.js";
import { type Cloud, observe, observed } from "../resources/cloud.js";
import { type ConfigRow, configsOf, listenerMark } from "../resources/configs/config.js";
import { nodesOf } from "../resources/nodes/node.js";
import type { RuntimeDriver } from "../runtime/driver.js";
import { isSame } from "./known-rows.js";
import { openLoop } from "./loop.js";
import { nodeTarget } from "./node-target.js";

interface ListenersOptions {
  cloud: Cloud;
  plane: BalancerPlane;
  driver: Pick<RuntimeDriver, "dial" | "watchDial">;
  onFailure(config: number, error: unknown): void;
  /** A real request met a failing node. */
  onPassive(node: number): void;
}

/** How often a listener that failed (a taken port, say) is tried again, in real ms. */
const retryMs = 1_000;

/** What the plane calls the listener of a config. */
export const listenerKey = (config: number): ListenerKey => `config:${config}`;
const configOfKey = (key: string): number => Number(key.slice("config:".length));

/** What the plane is to do for a config; undefined when it serves no such thing. Pure. */
const listenerSpec = (cloud: Cloud, driver: Pick<RuntimeDriver, "dial">, row: ConfigRow): ListenerSpec | undefined => {
  const balancer = cloud.store.get("balancer", row.balancerId);
  if (!balancer) return undefined;
  const nodes = nodesOf(cloud.store, row.id).flatMap((node): NodeSpec[] => {
    const target = nodeTarget(cloud, driver, node);
    if (target.reason !== undefined) return [];
    // Contract 8.5: with check none a node is used without probes.
    const seen = observed(cloud.store, "node", node.id);
    const up = seen?.status === "UP" || (row.check === "none" && !seen?.out);
    return [{ id: node.id, label: node.label, address: node.address, endpoint: target.endpoint, weight: node.weight, mode: node.mode, up }];
  });
  return {
    address: balancer.ipv4,
    port: row.port,
    protocol: row.protocol,
    tls:
      row.protocol === "https" && row.sslCert !== null && row.sslKey !== null
        ? { cert: row.sslCert, key: row.sslKey, cipherSuite: row.cipherSuite === "legacy" ? "legacy" : "recommended" }
        : null,
    algorithm: row.algorithm,
    stickiness: row.stickiness,
    checkPassive: row.checkPassive,
    balancer: balancer.id,
    connThrottle: balancer.clientConnThrottle,
    udpSessThrottle: balancer.clientUdpSessThrottle,
    proxyProtocol: row.proxyProtocol,
    nodes,
  };
};

/** Makes the data plane listen on what the config rows say, and writes back where it really does. */
export const openListeners = ({ cloud, plane, driver, onFailure, onPassive }: ListenersOptions): Disposable => {
  const { store, clock } = cloud;
  /** A removed node's row is gone when its news comes, so its config is remembered here. */
  const configOf = new Map<number, number>();

  const reconcile = async (id: number): Promise<number | undefined> => {
    const row = store.get("config", id);
    if (!row) {
      await plane.apply(listenerKey(id), undefined);
      observe(store, "config", id, undefined);
      return undefined;
    }
    const spec = listenerSpec(cloud, driver, row);
    const state = await plane.apply(listenerKey(id), spec);
    observe(store, "config", id, { ...state, made: listenerMark(row) });
    return spec && state.status === "failed" ? retryMs : undefined;
  };

  const loop = openLoop({ reconcile, clock, onFailure, concurrency: 32 });
  const known = new Map<number, ConfigRow>();
  const throttles = new Map<number, string>();
  const watching = store.watch((kind, id) => {
    // The only members of a balancer that its listeners know of.
    if (kind === "balancer") {
      const balancer = store.get("balancer", id);
      const throttle = `${balancer?.clientConnThrottle} ${balancer?.clientUdpSessThrottle}`;
      if (throttles.get(id) === throttle) return;
      throttles.set(id, throttle);
      for (const config of configsOf(store, id)) loop.poke(config.id);
    }
    if (kind === "config") {
      if (!isSame(known, id, store.get("config", id))) loop.poke(id);
    }
    if (kind === "node") {
      const config = store.get("node", id)?.configId ?? configOf.get(id);
      if (config === undefined) return;
      if (store.get("node", id)) configOf.set(id, config);
      else configOf.delete(id);
      loop.poke(config);
    }
  });
  const passive = plane.watch((_key, node) => onPassive(node));
  const dialling = driver.watchDial(() => {
    for (const row of store.list("config")) loop.poke(row.id);
  });
  const reopened = plane.watchReopened((key) => loop.poke(configOfKey(key)));

  for (const row of store.list("node")) configOf.set(row.id, row.configId);
  for (const row of store.list("config")) {
    known.set(row.id, row);
    loop.poke(row.id);
  }

  return {
    close: async () => {
      await passive.close();
      await dialling.close();
      await reopened.close();
      await watching.close();
      await loop.close();
    },
  };
};
