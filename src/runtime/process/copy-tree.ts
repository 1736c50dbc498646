import { constants } from "node:fs";
import { chmod, copyFile, lstat, mkdir, readdir, readlink, rm, symlink, utimes } from "node:fs/promises";
import { join } from "node:path";

/** What goes while it is looked at, or turns into something else, was never there: machines run while they are copied. */
const isMoved = (error: unknown): boolean => ["ENOENT", "ENOTDIR", "EISDIR", "EINVAL", "ELOOP"].includes((error as NodeJS.ErrnoException).code ?? "");

const copyEntry = async (from: string, to: string): Promise<void> => {
  const found = await lstat(from);
  if (found.isSymbolicLink()) return symlink(await readlink(from), to);
  if (found.isDirectory()) {
    await mkdir(to, { mode: 0o700 });
    for (const name of await readdir(from)) {
      await copyEntry(join(from, name), join(to, name)).catch((error) => {
        if (!isMoved(error)) throw error;
      });
    }
  } else if (found.isFile()) {
    await copyFile(from, to, constants.COPYFILE_FICLONE | constants.COPYFILE_EXCL);
  } else return; // sockets, fifos and devices belong to processes, not to a disk
  await chmod(to, found.mode);
  await utimes(to, found.atime, found.mtime);
};

/**
 * Copies a folder that somebody may be changing meanwhile, to a place where there is nothing. Not `cp` of `node:fs`, which gives the whole
 * copy up for one file that goes, or for a socket. @throws ENOENT when the folder itself is not there
 */
export const copyTree = (from: string, to: string): Promise<void> => copyEntry(from, to);

/** Removes what copies that were cut off left in these folders, each named NAME.new until it is whole. Only at a start: nobody copies then. */
export const sweepHalfCopies = async (folders: readonly string[]): Promise<void> => {
  for (const folder of folders) {
    const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return [];
      throw error;
    });
    for (const name of names.filter((each) => each.endsWith(".new"))) await rm(join(folder, name), { recursive: true, force: true, maxRetries: 3 });
  }
};
