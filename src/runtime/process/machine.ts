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

const sameSet = (a: readonly string[], b: readonly string[]): boolean => a.length === b.length && a.every((entry) => b.includes(entry));

/** A running deploy script is not cut off for an address that came or went; whoever asked looks again when it has ended. */
const mustMove = ({ script }: Disk, leader: MarkedProcess, bindAddresses: readonly string[]): boolean =>
  !(script?.started && script.exitCode === undefined) && !sameSet(leader.marker.bindAddresses, bindAddresses);

/**
 * What has to happen so that the machine matches; nothing at all when it does. A process keeps the addresses it was started with, so
 * that a machine whose addresses changed is started anew: else it would go on answering on one that another machine has now.
 */
export const stepsTo = (spec: MachineSpec, remains: Remains, bindAddresses: readonly string[]): Steps => {
  const { disk, processes } = remains;
  const create = disk === undefined || disk.fingerprint !== spec.fingerprint;
  const wanted = spec.running && spec.image !== null;
  const leader = leaderOf(remains);
  const isSame = leader !== undefined && leader.marker.boots === spec.boots && leader.marker.fingerprint === spec.fingerprint;
  const matches = !create && wanted && isSame && !mustMove(disk, leader, bindAddresses);
  return { halt: processes.length > 0 && !matches, create, start: wanted && !matches };
};
