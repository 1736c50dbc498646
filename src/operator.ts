import type { BalancerPlane } from "./balancer/plane.js";
import type { NameServer } from "./dns/server.js";
import type { Operator } from "./http/backlot-routes.js";
import { within } from "./kernel/bound.js";
import { Fault } from "./kernel/fault.js";
import { balancerCounters } from "./reconcile/balancer-stats.js";
import type { Health } from "./reconcile/health.js";
import type { Names } from "./reconcile/names.js";
import { addressesOf } from "./resources/addresses/address.js";
import { costsView } from "./resources/billing/costs.js";
import { type Cloud, observed } from "./resources/cloud.js";
import { limits } from "./resources/limits.js";
import type { RuntimeDriver } from "./runtime/driver.js";

interface Rooms {
  driver: RuntimeDriver;
  plane: BalancerPlane;
  health: Health;
  names: Names | undefined;
  nameServer: NameServer | undefined;
}

const noNames = { subject: "names: the name server", real: false, note: "Not there: Backlot was started with --dns-port off." };

/** How long a runtime may take to say where an instance is, or to kill it, in ms. */
const answerMs = 5_000;

/** A runtime that hangs must not hang whoever asks for an instance. `what` it did not do by then. */
const bounded = <T>(driver: Pick<RuntimeDriver, "outage">, work: Promise<T>, what: string): Promise<T> =>
  within(answerMs, work, async () => {
    const reason = (await driver.outage()) ?? `The runtime did not ${what} within ${answerMs / 1000} s.`;
    throw new Fault("unavailable", [{ reason }]);
  });

/** The secret that opens the relay is nobody's to see. */
const shown = (endpoint: ReturnType<RuntimeDriver["dial"]>) => {
  if (!endpoint?.via) return endpoint;
  const { host, port, via } = endpoint;
  return { host, port, relay: "missing" in via ? { missing: via.missing } : { host: via.host, port: via.port } };
};

/** What our own endpoints are told: the rows, and what the rooms see. */
export const operatorOf = (
  cloud: Cloud,
  version: string,
  { driver, plane, health, names, nameServer }: Rooms,
  startedMs: number,
  state: string,
  stop: Operator["stop"],
): Operator => ({
  health: () => ({
    status: "ok",
    pid: process.pid,
    owner: cloud.store.owner,
    runtime: driver.name,
    version,
    state,
    dns: nameServer ? { address: nameServer.address, port: nameServer.port } : null,
    uptimeS: Math.round((cloud.clock.now() - startedMs) / 1000),
    counts: Object.fromEntries((["balancer", "config", "node", "instance", "address"] as const).map((kind) => [kind, cloud.store.list(kind).length])),
  }),
  capabilities: () => ({ runtime: driver.name, version, rows: [...driver.capabilities().rows, ...limits, ...(names?.capabilities() ?? [noNames])] }),
  dns: () => (nameServer ? { address: nameServer.address, port: nameServer.port, guests: nameServer.guests(), ...nameServer.counts() } : undefined),
  instance: async (id) => {
    const row = cloud.store.get("instance", id);
    if (!row) return undefined;
    // The log last: a script whose exit is known has said all it will.
    const look = async () => ({ machine: (await driver.list(id))[0], bootLog: await driver.log(id) });
    const { machine, bootLog } = await bounded(driver, look(), "say where the instance is");
    const addresses = addressesOf(cloud.store, id);
    const main = addresses.find((entry) => !entry.public) ?? addresses[0];
    return {
      runtime: driver.name,
      ...(driver.name === "docker" ? { containerId: machine?.containerId ?? null } : { pid: machine?.pid ?? null }),
      running: machine?.running ?? false,
      addresses: addresses.map((entry) => entry.address),
      endpoint: (main && shown(driver.dial(main.address, 80))) ?? null,
      substitutedImage: machine?.substitutedImage ?? null,
      script: machine?.script ?? null,
      problem: observed(cloud.store, "instance", id)?.problem ?? null,
      bootLog,
    };
  },
  dial: (address, port) => shown(driver.dial(address, port)),
  costs: () => costsView(cloud),
  stats: () => balancerCounters(cloud, plane),
  probes: (node) =>
    cloud.store.get("node", node) && {
      probes: health
        .probes(node)
        .map((entry) => ({ time: new Date(entry.atMs).toISOString(), durationMs: entry.durationMs, ok: entry.ok, reason: entry.reason })),
    },
  kill: async (instance) => {
    if (!cloud.store.get("instance", instance)) return false;
    await bounded(driver, driver.kill(instance), "kill the instance");
    return true;
  },
  stop,
});
