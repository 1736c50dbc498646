import { readFileSync } from "node:fs";
import type { MachineCounters } from "../driver.js";
import type { MarkedProcess } from "./table.js";

/** Linux counts processor time for user space in hundredths of a second, on every architecture Node runs on (USER_HZ). */
const msPerTick = 10;

const readOr = (path: string): string => {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return ""; // it ended, or is not ours to read
  }
};

/** proc(5): 14 utime, 15 stime, 16 cutime, 17 cstime; the last two are of children that ended and were waited for. */
const cpuTicks = (stat: string): number => {
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return fields.slice(11, 15).reduce((sum, field) => sum + (Number(field) || 0), 0);
};

const ioBytes = (io: string): number => [...io.matchAll(/^(?:read|write)_bytes: (\d+)$/gm)].reduce((sum, [, value]) => sum + Number(value), 0);

/** What the processes of a machine used since its leader began; children that ended are in their parents' figures. */
export const countersOf = (leader: MarkedProcess, processes: readonly MarkedProcess[]): MachineCounters => ({
  since: `${leader.pid} ${leader.startTicks}`,
  cpuMs: processes.reduce((sum, { pid }) => sum + cpuTicks(readOr(`/proc/${pid}/stat`)), 0) * msPerTick,
  ioBytes: processes.reduce((sum, { pid }) => sum + ioBytes(readOr(`/proc/${pid}/io`)), 0),
  network: null,
});
