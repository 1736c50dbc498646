import { diskFolder, readDisk, removeDisk } from "./disk.js";
import { haltMachine } from "./halt.js";
import { markedProcesses } from "./table.js";

/** A machine of the process runtime, whoever started it. */
export interface OrphanCandidate {
  owner: string;
  stateFolder: string;
  instance: number;
}

export interface Orphan extends OrphanCandidate {
  pids: number[];
}

/**
 * Machines that run on this host and that `isOrphan` says have no Backlot any more (their state folder is gone, or belongs to another
 * owner). For `backlot clean`. Only processes that carry Backlot's markers and that this user may read are seen.
 */
export const orphans = async (isOrphan: (candidate: OrphanCandidate) => boolean | Promise<boolean>): Promise<Orphan[]> => {
  const found = new Map<string, Orphan>();
  for (const { pid, marker } of markedProcesses()) {
    const { owner, stateFolder, instance } = marker;
    const key = JSON.stringify([owner, stateFolder, instance]);
    const orphan = found.get(key) ?? { owner, stateFolder, instance, pids: [] };
    orphan.pids.push(pid);
    found.set(key, orphan);
  }
  const verdicts = await Promise.all([...found.values()].map(async (orphan) => ((await isOrphan(orphan)) ? [orphan] : [])));
  return verdicts.flat();
};

/** Ends an orphan's processes, waits until they are gone, and removes its disk if that is still its own. */
export const removeOrphan = async ({ owner, stateFolder, instance }: OrphanCandidate): Promise<void> => {
  await haltMachine({ owner, instance }, { graceMs: 0 });
  const folder = diskFolder(stateFolder, instance);
  if ((await readDisk(folder))?.owner === owner) await removeDisk(folder);
};
