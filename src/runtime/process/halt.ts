import { setTimeout as pause } from "node:timers/promises";
import { Fault } from "../../kernel/fault.js";
import { isLeader, type MarkedProcess, markedProcesses, signalProcess } from "./table.js";

/** How long the kernel has after SIGKILL. */
const killMs = 5_000;
const lookAgainMs = 5;

export interface MachineName {
  owner: string;
  instance: number;
}

export const processesOf = ({ owner, instance }: MachineName): MarkedProcess[] =>
  markedProcesses().filter(({ marker }) => marker.owner === owner && marker.instance === instance);

/**
 * Ends a machine and waits until nothing of it is left. With `graceMs` > 0 SIGTERM comes first, to all but the machine itself, which
 * keeps its log. `debrisOnly`: a machine that has its leader (again) is left alone.
 */
export const haltMachine = async (name: MachineName, { graceMs, debrisOnly = false }: { graceMs: number; debrisOnly?: boolean }): Promise<void> => {
  if (graceMs > 0) await askToEnd(name, graceMs);
  const deadline = Date.now() + killMs;
  // A process is invisible for an instant while it executes another program: only two empty looks in a row count.
  for (let emptyLooks = 0; emptyLooks < 2; ) {
    const found = processesOf(name);
    if (debrisOnly && found.some(isLeader)) return;
    emptyLooks = found.length === 0 ? emptyLooks + 1 : 0;
    for (const each of found) signalProcess(each, "SIGKILL", { group: isLeader(each) });
    if (found.length > 0 && Date.now() > deadline) {
      const pids = found.map(({ pid }) => pid).join(", ");
      throw new Fault("unavailable", [
        {
          reason: `Processes ${pids} of instance ${name.instance} do not end, even by SIGKILL: they wait for a device or a file system. Look at /proc/PID/wchan.`,
        },
      ]);
    }
    if (emptyLooks < 2) await pause(lookAgainMs);
  }
};

const askToEnd = async (name: MachineName, graceMs: number): Promise<void> => {
  const deadline = Date.now() + graceMs;
  const asked = new Set<string>();
  for (;;) {
    const guests = processesOf(name).filter((each) => each.marker.role !== "log" && !isLeader(each));
    if (guests.length === 0 || Date.now() > deadline) return;
    for (const guest of guests) {
      const key = `${guest.pid} ${guest.startTicks}`;
      if (!asked.has(key)) signalProcess(guest, "SIGTERM");
      asked.add(key);
    }
    await pause(lookAgainMs);
  }
};
