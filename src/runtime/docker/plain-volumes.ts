import type Docker from "dockerode";
import { Fault } from "../../kernel/fault.js";
import type { MachineSpec, VolumeSpec, VolumeState } from "../driver.js";
import type { EngineMounts, SeenContainer } from "./container.js";
import { statusOf } from "./engine.js";
import { isVolumeName, labels, volumeName } from "./labels.js";

/** Value of the label: the engine volume itself is the volume, mounted as it is when a machine boots. Of no other can that be said later. */
export const plainForm = "plain";

export const ownMounts = (owner: string, mounts: EngineMounts): EngineMounts => new Map([...mounts].filter(([name]) => isVolumeName(owner, name)));

export const isSameMounts = (some: EngineMounts, others: EngineMounts): boolean =>
  some.size === others.size && [...some].every(([name, path]) => others.get(name) === path);

/** What a machine is to have from its next start on; the helper mounts the other volumes while it runs. */
export const plainMounts = async (docker: Docker, owner: string, { volumes = [] }: MachineSpec): Promise<Map<string, string>> => {
  if (volumes.length === 0) return new Map();
  const { Volumes } = await docker.listVolumes({ filters: { label: [`${labels.owner}=${owner}`, `${labels.volumeForm}=${plainForm}`] } });
  const plain = new Set((Volumes ?? []).map(({ Name }) => Name));
  return new Map(volumes.map(({ volume, label }) => [volumeName(owner, volume), `/mnt/${label}`] as const).filter(([name]) => plain.has(name)));
};

/** Bits of Go's os.FileMode, as `X-Docker-Container-Path-Stat` has it. */
const [folderBit, linkBit] = [2 ** 31, 2 ** 27];
const hasBit = (mode: number, bit: number): boolean => Math.floor(mode / bit) % 2 === 1;

/** Lies there what nothing can be mounted on? A container whose mount has no place does not start. */
export const isTaken = async (box: Docker.Container, path: string): Promise<boolean> => {
  try {
    const answer = (await box.infoArchive({ path })) as unknown as { headers: Record<string, string>; resume(): void };
    answer.resume();
    const { mode } = JSON.parse(Buffer.from(answer.headers["x-docker-container-path-stat"] ?? "", "base64").toString()) as { mode: number };
    return !hasBit(mode, folderBit) && !hasBit(mode, linkBit);
  } catch (error) {
    if (statusOf(error) === 404) return false;
    throw error;
  }
};

const takenFault = (instance: number, path: string) =>
  new Fault("unavailable", [
    { reason: `${path} of instance ${instance} is a file, so nothing can be mounted there. Move it away, or give the volume another label.` },
  ]);

/**
 * What can be said of a plain volume, wherever it is mounted now.
 * @param at where the machine that runs has it; undefined when it has not, or none runs
 * @param others instances that have it and should not, and run
 * @throws Fault `unavailable` when its place in the machine is taken
 */
export const plainState = async (
  { instance, label }: VolumeSpec,
  box: Docker.Container | undefined,
  at: string | undefined,
  others: readonly number[],
): Promise<VolumeState> => {
  const path = `/mnt/${label}`;
  const notes = others.map((other) => `Instance ${other} has it until that boots next, or is shut down.`);
  if (instance === null || !box || at === path) return { path: at ?? null, note: notes.join(" ") || null };
  if (at !== undefined)
    return { path: at, note: [`It stays at ${at} until instance ${instance} boots next, and is at ${path} then.`, ...notes].join(" ") };
  if (await isTaken(box, path)) throw takenFault(instance, path);
  const note = `It is mounted at ${path} when instance ${instance} boots next: reboot it. It is a plain engine volume, which cannot be mounted in a machine that runs; its size is not enforced.`;
  return { path: null, note: [note, ...notes].join(" "), atNextBoot: true };
};

/** Instances whose containers were made with an engine volume. */
export const holdersOf = (name: string, containers: readonly SeenContainer[]): SeenContainer[] => containers.filter(({ mounts }) => mounts.has(name));
