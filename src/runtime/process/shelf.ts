import { mkdir, readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { copyTree } from "./copy-tree.js";
import { type Disk, diskFolder, disksIn, markCopy, readDisk, removeDisk } from "./disk.js";

/**
 * The file systems that no machine runs from: `STATE/disks/NAME/`, each as it would stand in `STATE/machines/INSTANCE/`. There are a
 * machine's other disks, copies that were not booted yet, and what images and backups keep.
 */
const shelfFolder = (stateFolder: string, name: string): string => join(stateFolder, "disks", name);

const isName = (name: string): boolean => /^[\w-]{1,64}$/.test(name);

const isWhole = (disk: Disk | undefined): disk is Disk => disk !== undefined && disk.fingerprint !== "";

/** Names on the shelf; what a crash left half-made has none. */
export const shelved = async (stateFolder: string): Promise<string[]> => (await readdir(join(stateFolder, "disks")).catch(() => [])).filter(isName);

/** Where a file system is, and which instance it stands in for, if any. */
export const findFileSystem = async (
  stateFolder: string,
  name: string,
): Promise<{ folder: string; instance: number | undefined; disk: Disk } | undefined> => {
  for (const instance of await disksIn(stateFolder)) {
    const folder = diskFolder(stateFolder, instance);
    const disk = await readDisk(folder);
    if (disk?.fingerprint === name) return { folder, instance, disk };
  }
  const folder = shelfFolder(stateFolder, name);
  const disk = isName(name) ? await readDisk(folder) : undefined;
  return isWhole(disk) ? { folder, instance: undefined, disk } : undefined;
};

/** A copy on the shelf, whole or not at all. */
export const copyToShelf = async (stateFolder: string, folder: string, name: string): Promise<void> => {
  const target = shelfFolder(stateFolder, name);
  if (isWhole(await readDisk(target))) return;
  const aside = `${target}.new`;
  await rm(aside, { recursive: true, force: true });
  await mkdir(join(stateFolder, "disks"), { recursive: true, mode: 0o700 });
  await copyTree(folder, aside);
  await markCopy(aside, name);
  await rename(aside, target);
};

/** Puts the machine's present file system aside, or away when it is not to be kept. */
export const clearPlace = async (stateFolder: string, folder: string, disk: Disk | undefined, kept: readonly string[]): Promise<void> => {
  if (!isWhole(disk) || !kept.includes(disk.fingerprint)) return removeDisk(folder);
  await mkdir(join(stateFolder, "disks"), { recursive: true, mode: 0o700 });
  await rename(folder, shelfFolder(stateFolder, disk.fingerprint));
};

/** Takes a file system from the shelf into a machine's empty place; false when it is not there. `adopt`: what a copy needs before its first boot. */
export const takeFromShelf = async (stateFolder: string, name: string, folder: string, adopt: (shelf: string) => Promise<void>): Promise<boolean> => {
  const disk = isName(name) ? await readDisk(shelfFolder(stateFolder, name)) : undefined;
  if (!isWhole(disk)) return false;
  if (disk.copied && disk.boots === 0) await adopt(shelfFolder(stateFolder, name));
  await rename(shelfFolder(stateFolder, name), folder);
  return true;
};

export const removeFromShelf = async (stateFolder: string, name: string): Promise<void> => {
  if (!isName(name)) return;
  await removeDisk(shelfFolder(stateFolder, name));
  await rm(`${shelfFolder(stateFolder, name)}.new`, { recursive: true, force: true });
};
