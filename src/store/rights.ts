import { constants } from "node:fs";
import { reasonOf } from "../kernel/fault.js";
import type { Disk } from "./disk.js";

type Tell = (reason: string) => void;

const isOpen = (mode: number): boolean => (mode & 0o077) !== 0;

/** Keys and hashes lie here: nobody else may read, even after a backup was put in its place. A file that cannot be opened is its reader's to tell. */
export const closeFile = async (disk: Disk, path: string, tell: Tell): Promise<void> => {
  const handle = await disk.open(path, "r").catch(() => undefined);
  try {
    if (handle && ((await handle.stat()).mode & 0o777) !== 0o600) await handle.chmod(0o600);
  } catch (error) {
    tell(`Others may read ${path}, and it could not be closed to them (${reasonOf(error)}): chmod 600 ${path}`);
  } finally {
    await handle?.close();
  }
};

/**
 * Narrows a state folder that was there already, or was opened to others, to 0700. One that holds other things too (`--state .`, `/tmp`) is
 * not ours alone: it is left, and told of. `isOurs`: of a name in it.
 */
export const closeFolder = async (disk: Disk, folder: string, isOurs: (name: string) => boolean, tell: Tell): Promise<void> => {
  const handle = await disk.open(folder, constants.O_RDONLY).catch(() => undefined);
  try {
    const rights = async (): Promise<number> => ((await handle?.stat())?.mode ?? 0) & 0o777;
    const found = await rights();
    if (!handle || !isOpen(found)) return;
    const stranger = (await disk.readdir(folder)).find((name) => !isOurs(name));
    if (stranger !== undefined) {
      const remedy = `give Backlot a folder of its own (--state), or: chmod 700 ${folder}`;
      return tell(`Others may look into the state folder ${folder}, which is left so because it holds more than a state (${stranger}); ${remedy}`);
    }
    await handle.chmod(0o700);
    if (isOpen(await rights())) throw new Error("its file system keeps no rights");
    tell(`The state folder ${folder} was open to others (${found.toString(8)}) and is closed to them now (700).`);
  } catch (error) {
    tell(`Others may look into the state folder ${folder}, and it could not be closed to them (${reasonOf(error)}): chmod 700 ${folder}`);
  } finally {
    await handle?.close();
  }
};
