import { mkdir, readdir, readlink, rename, rm, rmdir, stat, symlink, unlink } from "node:fs/promises";
import { join } from "node:path";
import { Fault } from "../../kernel/fault.js";
import { turns } from "../../kernel/turns.js";
import type { RuntimeVolumes, VolumeSpec, VolumeState } from "../driver.js";
import { copyTree } from "./copy-tree.js";
import { diskFolder, disksIn } from "./disk.js";

const refusing =
  (code: string) =>
  (error: unknown): undefined => {
    if ((error as NodeJS.ErrnoException).code === code) return undefined;
    throw error;
  };
const absent = refusing("ENOENT");

/** Links to a volume in a machine's `mnt/`. */
const linksTo = async (folder: string, machine: string): Promise<string[]> => {
  const names = (await readdir(join(machine, "mnt")).catch(absent)) ?? [];
  const targets = await Promise.all(names.map((name) => readlink(join(machine, "mnt", name)).catch(() => undefined)));
  return names.filter((_, index) => targets[index] === folder);
};

/**
 * A volume is the folder `STATE/volumes/ID`, and "mounted" is a link to it, `mnt/LABEL` in the machine's folder. Nothing bounds its size.
 * @param isRunning asked of the process table
 */
export const folderVolumes = (stateFolder: string, isRunning: (instance: number) => Promise<boolean>): RuntimeVolumes => {
  const folderOf = (volume: number): string => join(stateFolder, "volumes", String(volume));
  const inTurn = turns<number>();

  const make = async (folder: string, copyOf: number | null): Promise<void> => {
    if (await stat(folder).catch(absent)) return;
    await rm(`${folder}.new`, { recursive: true, force: true });
    if (copyOf === null) await mkdir(`${folder}.new`, { recursive: true, mode: 0o700 });
    else
      await copyTree(folderOf(copyOf), `${folder}.new`).catch((error) => {
        if (absent(error) === undefined)
          throw new Fault("unavailable", [{ reason: `Volume ${copyOf}, which is to be copied, is not there any more.` }], { cause: error });
      });
    await rename(`${folder}.new`, folder);
  };

  /** Takes it out of every machine but `kept`, where it has this name. */
  const unlinkElsewhere = async (folder: string, kept: number | null, label: string): Promise<void> => {
    for (const instance of await disksIn(stateFolder)) {
      const machine = diskFolder(stateFolder, instance);
      for (const name of await linksTo(folder, machine))
        if (instance !== kept || name !== label) await unlink(join(machine, "mnt", name)).catch(absent);
      await rmdir(join(machine, "mnt")).catch(() => undefined); // not empty, or not there
    }
  };

  const link = async (spec: VolumeSpec): Promise<VolumeState> => {
    const folder = folderOf(spec.volume);
    await unlinkElsewhere(folder, spec.instance, spec.label);
    if (spec.instance === null || !(await isRunning(spec.instance))) return { path: null, note: null };
    const path = join(diskFolder(stateFolder, spec.instance), "mnt", spec.label);
    await mkdir(join(path, ".."), { recursive: true, mode: 0o700 });
    await symlink(folder, path).catch(refusing("EEXIST"));
    if ((await readlink(path).catch(() => undefined)) !== folder)
      throw new Fault("unavailable", [{ reason: `${path} is something else already; remove it.` }]);
    return { path, note: null };
  };

  /** Who takes the last link out of a machine takes its `mnt/` along, which another volume may be about to be linked in. */
  const allLinks = 0;
  const ensure = async (spec: VolumeSpec): Promise<VolumeState> => {
    await make(folderOf(spec.volume), spec.copyOf);
    return inTurn(allLinks, () => link(spec));
  };

  return {
    list: async () => ((await readdir(join(stateFolder, "volumes")).catch(absent)) ?? []).filter((name) => /^[1-9]\d*$/.test(name)).map(Number),
    ensure: (spec) => inTurn(spec.volume, () => ensure(spec)),
    remove: (volume) =>
      inTurn(volume, async () => {
        const folder = folderOf(volume);
        await inTurn(allLinks, () => unlinkElsewhere(folder, null, ""));
        await rm(`${folder}.new`, { recursive: true, force: true });
        await rm(folder, { recursive: true, force: true, maxRetries: 3 });
      }),
  };
};
