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

/** What runs in a guest is the guest's: it may never end, or never stop talking. In ms and bytes. */
const patienceMs = 5_000;
const mostBytes = 64 * 1024;

/** What a command in a machine prints; undefined when it does not come to an end. */
const textOf = async (box: Docker.Container, command: string[]): Promise<string | undefined> => {
  const exec = await box.exec({ Cmd: command, AttachStdout: true });
  const said = await exec.start({});
  let isEndless = false;
  const cut = (): void => {
    isEndless = true;
    said.destroy();
  };
  const timer = setTimeout(cut, patienceMs);
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of said) {
      chunks.push(chunk as Buffer);
      bytes += (chunk as Buffer).length;
      if (bytes > mostBytes) cut();
    }
  } catch (error) {
    if (!isEndless) throw error;
  } finally {
    clearTimeout(timer);
  }
  return isEndless ? undefined : framesText(Buffer.concat(chunks)).toString();
};

/** The devices are asked of the guest once for each start and set of connections: a guest cannot change them, and asking costs a process. */
export const counterReader = (pool: Range): CounterReader => {
  const known = new Map<string, { mark: string; devices: Promise<readonly string[] | undefined> }>();
  const ask = async (box: Docker.Container): Promise<readonly string[] | undefined> => {
    const routes = await textOf(box, ["cat", "/proc/net/route"]);
    return routes === undefined ? undefined : publicDevices(routes, pool);
  };
  const devicesOf = (box: Docker.Container, mark: string): Promise<readonly string[] | undefined> => {
    const found = known.get(box.id);
    if (found?.mark === mark) return found.devices;
    const asked = { mark, devices: ask(box) };
    known.set(box.id, asked);
    asked.devices.catch(() => {
      if (known.get(box.id) === asked) known.delete(box.id);
    });
    return asked.devices;
  };
  return {
    read: async (box) => {
      const { State, NetworkSettings } = await box.inspect();
      if (!State.Running) {
        known.delete(box.id);
        return undefined;
      }
      const connections = Object.values(NetworkSettings.Networks).map(({ EndpointID }) => EndpointID);
      const devices = await devicesOf(box, [State.StartedAt, ...connections.sort()].join(" "));
      // `one-shot` (engine API 1.41): without it the engine waits a second for a second reading.
      const stats = (await box.stats({ stream: false, "one-shot": true } as never)) as unknown as EngineStats;
      const counted = countersOf(stats, State.StartedAt, (device) => devices?.includes(device) ?? false);
      return devices === undefined ? { ...counted, network: null } : counted;
    },
  };
};
