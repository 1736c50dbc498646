import type Docker from "dockerode";
import { contains, formatIpv4, type Range } from "../../kernel/addresses.js";
import type { MachineCounters } from "../driver.js";
import { framesText } from "./boot-log.js";

interface EngineStats {
  cpu_stats?: { cpu_usage?: { total_usage?: number } };
  blkio_stats?: { io_service_bytes_recursive?: Array<{ op: string; value: number }> | null };
  networks?: Record<string, { rx_bytes: number; tx_bytes: number }>;
}

/**
 * Pure: which of a guest's devices are on the public network, from its route table (proc_net: `Iface Destination …`, the destination in
 * hex, lowest byte first).
 */
export const publicDevices = (routes: string, pool: Range): string[] =>
  routes.split("\n").flatMap((line) => {
    const [device = "", destination = ""] = line.trim().split(/\s+/);
    if (!/^[0-9A-F]{8}$/.test(destination) || destination === "00000000") return [];
    return contains(pool, formatIpv4(Buffer.from(destination, "hex").readUInt32LE())) ? [device] : [];
  });

/** Pure: what the engine counted, sorted by whose network it was. */
export const countersOf = (stats: EngineStats, since: string, isPublic: (device: string) => boolean): MachineCounters => {
  const ofKind = (wanted: boolean) =>
    Object.entries(stats.networks ?? {})
      .filter(([device]) => isPublic(device) === wanted)
      .reduce((sum, [, { rx_bytes, tx_bytes }]) => ({ in: sum.in + rx_bytes, out: sum.out + tx_bytes }), { in: 0, out: 0 });
  return {
    since,
    cpuMs: (stats.cpu_stats?.cpu_usage?.total_usage ?? 0) / 1e6,
    ioBytes: (stats.blkio_stats?.io_service_bytes_recursive ?? []).reduce(
      (sum, { op, value }) => (/^(read|write)$/i.test(op) ? sum + value : sum),
      0,
    ),
    // Absent for a container that ended in between: nothing was counted, which is not the same as nothing carried.
    network: stats.networks ? { public: ofKind(true), private: ofKind(false) } : null,
  };
};

export interface CounterReader {
  /** Undefined for a container that does not run. */
  read(box: Docker.Container): Promise<MachineCounters | undefined>;
}

const textOf = async (box: Docker.Container, command: string[]): Promise<string> => {
  const exec = await box.exec({ Cmd: command, AttachStdout: true });
  const chunks: Buffer[] = [];
  for await (const chunk of await exec.start({})) chunks.push(chunk as Buffer);
  return framesText(Buffer.concat(chunks)).toString();
};

/** The devices are asked of the guest once for each start and set of connections: a guest cannot change them, and asking costs a process. */
export const counterReader = (pool: Range): CounterReader => {
  const known = new Map<string, { mark: string; devices: readonly string[] }>();
  return {
    read: async (box) => {
      const { State, NetworkSettings } = await box.inspect();
      if (!State.Running) {
        known.delete(box.id);
        return undefined;
      }
      const connections = Object.values(NetworkSettings.Networks).map(({ EndpointID }) => EndpointID);
      const mark = [State.StartedAt, ...connections.sort()].join(" ");
      let found = known.get(box.id);
      if (found?.mark !== mark) {
        found = { mark, devices: publicDevices(await textOf(box, ["cat", "/proc/net/route"]), pool) };
        known.set(box.id, found);
      }
      const { devices } = found;
      // `one-shot` (engine API 1.41): without it the engine waits a second for a second reading.
      const stats = (await box.stats({ stream: false, "one-shot": true } as never)) as unknown as EngineStats;
      return countersOf(stats, State.StartedAt, (device) => devices.includes(device));
    },
  };
};
