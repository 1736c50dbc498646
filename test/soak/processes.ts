import { lstatSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { join } from "node:path";
import { environOf, processesWith, statOf } from "../support/process-ground.js";
import { until } from "../support/until.js";
import type { Row, Rows, World } from "./world.js";

const names = (folder: string): string[] => {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
};

const machineProblems = (state: string, owner: string, instance: Row, volumes: readonly Row[]): string[] => {
  const pids = processesWith(`BACKLOT_OWNER=${owner}`, `BACKLOT_INSTANCE=${instance.id}`);
  const leaders = pids.filter((pid) => statOf(pid)?.session === pid && environOf(pid).includes("BACKLOT_ROLE=supervisor"));
  const running = instance.status === "running";
  const mounted = names(join(state, "machines", String(instance.id), "mnt"));
  const wanted = running ? volumes.filter(({ cloud_id }) => cloud_id === instance.id) : [];
  const unlinked = wanted.filter(({ id, label }) => {
    const link = join(state, "machines", String(instance.id), "mnt", label);
    return lstatSync(link, { throwIfNoEntry: false })?.isSymbolicLink() !== true || readlinkSync(link) !== join(state, "volumes", String(id));
  });
  const strays = running ? mounted.filter((name) => !wanted.some(({ label }) => label === name)) : [];
  return [
    ...(leaders.length === (running ? 1 : 0) ? [] : [`instance ${instance.id} is ${instance.status} and has ${leaders.length} leaders`]),
    ...(running || pids.length === 0 ? [] : [`instance ${instance.id} is ${instance.status} and has processes ${pids.join(" ")}`]),
    ...unlinked.map(({ label }) => `volume ${label} is not in the running instance ${instance.id}`),
    ...strays.map((label) => `${label} is still in instance ${instance.id}`),
  ];
};

/** Names that a state folder may have when nothing is under way. */
const known = /^(state\.json|state\.json\.previous|journal\.\d+\.jsonl|running\.json|machines|volumes|disks)$/;

/** Machines, volumes and files of a state on the process runtime, asked of /proc and of the folder. */
export const processWorld = (state: string): World => ({
  machineOf: async (owner, instance) =>
    processesWith(`BACKLOT_OWNER=${owner}`, `BACKLOT_INSTANCE=${instance}`, "BACKLOT_ROLE=supervisor")
      .filter((pid) => statOf(pid)?.session === pid)
      .map((pid) => `${pid} ${statOf(pid)?.start}`)[0],
  problems: async (owner, { instances, volumes }: Rows) => {
    const unexplained = processesWith(`BACKLOT_OWNER=${owner}`).filter(
      (pid) => !instances.some(({ id }) => environOf(pid).includes(`BACKLOT_INSTANCE=${id}`)),
    );
    const strangers = (folder: string, rows: readonly Row[]) =>
      names(join(state, folder)).flatMap((name) => (rows.some(({ id }) => String(id) === name) ? [] : [`${folder}/${name} belongs to no row`]));
    const mounts = readFileSync("/proc/self/mountinfo", "utf8")
      .split("\n")
      .filter((line) => line.split(" ")[4]?.startsWith(`${state}/`));
    return [
      ...instances.flatMap((instance) => machineProblems(state, owner, instance, volumes)),
      ...unexplained.map((pid) => `process ${pid} belongs to no row`),
      ...strangers("machines", instances),
      ...strangers("volumes", volumes),
      ...volumes.filter(({ id }) => !names(join(state, "volumes")).includes(String(id))).map(({ id }) => `volume ${id} has no folder`),
      ...names(state).flatMap((name) => (known.test(name) ? [] : [`the file ${name} is left in the state folder`])),
      ...mounts.map((line) => `mounted: ${line}`),
    ];
  },
  close: async (owner) => {
    const left = () => processesWith(`BACKLOT_OWNER=${owner}`);
    await until(
      () => {
        for (const pid of left()) process.kill(pid, "SIGKILL");
        return left().length === 0;
      },
      { what: "the end of every machine" },
    );
  },
});
