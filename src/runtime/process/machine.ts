import type { Machine, MachineSpec } from "../driver.js";
import type { Disk } from "./disk.js";
import { isLeader, type MarkedProcess } from "./table.js";

/** What was found of one instance: its disk, its processes. */
export interface Remains {
  disk: Disk | undefined;
  processes: readonly MarkedProcess[];
}

/** The leader, when there is exactly one. Without it the rest of a machine is debris, and two are no machine either. */
export const leaderOf = ({ processes }: Remains): MarkedProcess | undefined => {
  const leaders = processes.filter(isLeader);
  return leaders.length === 1 ? leaders[0] : undefined;
};

export const machineView = (instance: number, remains: Remains): Machine => {
  const { disk, processes } = remains;
  const leader = leaderOf(remains);
  return {
    instance,
    fingerprint: disk?.fingerprint ?? processes[0]?.marker.fingerprint ?? "",
    running: leader !== undefined,
    boots: leader?.marker.boots ?? disk?.boots ?? 0,
    ...(leader && { pid: leader.pid }),
    ...(disk?.script && { script: { exitCode: exitCodeOf(disk.script, leader !== undefined) } }),
  };
};

/** A script that began, did not end and is not running was killed with its machine: 128 + SIGKILL, as a shell says it. */
const exitCodeOf = (script: { started: boolean; exitCode: number | undefined }, running: boolean): number | null =>
  script.exitCode ?? (script.started && !running ? 137 : null);

export interface Steps {
  /** End every process there is. */
  halt: boolean;
  /** Make the disk (anew). */
  create: boolean;
  start: boolean;
}

/** What has to happen so that the machine matches; nothing at all when it does. */
export const stepsTo = (spec: MachineSpec, remains: Remains): Steps => {
  const { disk, processes } = remains;
  const create = disk === undefined || disk.fingerprint !== spec.fingerprint;
  const wanted = spec.running && spec.image !== null;
  const leader = leaderOf(remains);
  const matches = !create && wanted && leader !== undefined && leader.marker.boots === spec.boots && leader.marker.fingerprint === spec.fingerprint;
  return { halt: processes.length > 0 && !matches, create, start: wanted && !matches };
};
