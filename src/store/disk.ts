import { constants } from "node:fs";
import * as promises from "node:fs/promises";
import { dirname } from "node:path";
import { codeOf } from "../kernel/remedy.js";

/** The calls this room makes to a file system. A test hands in its own to see their order or to let one fail. */
export type Disk = Pick<typeof promises, "copyFile" | "link" | "mkdir" | "open" | "readdir" | "readFile" | "rename" | "rm" | "stat">;

export const realDisk: Disk = promises;

/** Names in the folder become durable. Some file systems cannot sync a folder and say so; they do not need it. */
export const syncFolder = async (disk: Disk, folder: string): Promise<void> => {
  const handle = await disk.open(folder, constants.O_RDONLY);
  try {
    await handle.sync();
  } catch (error) {
    if (!["EINVAL", "ENOTSUP", "EISDIR"].includes(codeOf(error) ?? "")) throw error;
  } finally {
    await handle.close();
  }
};

/** The name a file has until it is whole. Leftovers are removed at the next start. */
export const asideOf = (path: string): string => `${path}.next`;

/**
 * A file is there whole and durable under its name, or not at all: written aside, fsynced, renamed, folder fsynced. `before` runs when the new
 * one is durable and the old one still has the name.
 */
export const replaceFile = async (
  disk: Disk,
  path: string,
  write: (handle: promises.FileHandle) => Promise<void>,
  before: () => Promise<void> = async () => {},
): Promise<void> => {
  const aside = asideOf(path);
  try {
    const handle = await disk.open(aside, "w", 0o600);
    try {
      await write(handle);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await before();
    await disk.rename(aside, path);
  } catch (error) {
    // On a full disk the half-written file would hold the very space that is missing.
    await disk.rm(aside, { force: true }).catch(() => {});
    throw error;
  }
  await syncFolder(disk, dirname(path));
};

/** Writes all of `bytes` at `position`: one call may write less than it was given, for instance on a disk that is filling up. */
export const writeAll = async (handle: promises.FileHandle, bytes: Buffer, position: number): Promise<void> => {
  for (let done = 0; done < bytes.length; ) {
    const { bytesWritten } = await handle.write(bytes, done, bytes.length - done, position + done);
    done += bytesWritten;
  }
};
