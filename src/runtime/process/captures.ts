import { lstat, mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Fault } from "../../kernel/fault.js";
import type { Captured, MachineImages } from "../driver.js";
import { copyTree } from "./copy-tree.js";
import { findFileSystem } from "./shelf.js";

/**
 * Copies of machines' disks: `STATE/images/KIND-NAME/` with the home `root/`, the `services/` and, written before it gets its name, `image.json`.
 * The marks of a machine's boots, its script and its log are not in a copy.
 */
const parts = ["root", "services"] as const;

const imagesFolder = (stateFolder: string): string => join(stateFolder, "images");
const captureFolder = (stateFolder: string, key: string): string => join(imagesFolder(stateFolder), key.replaceAll(/[^A-Za-z0-9.-]+/g, "-"));

const readCaptured = async (folder: string): Promise<Captured | undefined> => {
  try {
    return JSON.parse(await readFile(join(folder, "image.json"), "utf8")) as Captured;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
};

const bytesIn = async (folder: string): Promise<number> => {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const sizes = entries.filter((entry) => entry.isFile()).map(async (entry) => (await lstat(join(entry.parentPath, entry.name))).size);
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
};

/** Fills a new disk from a copy. */
export const fillDisk = async (stateFolder: string, key: string, disk: string): Promise<void> => {
  const folder = captureFolder(stateFolder, key);
  if (!(await readCaptured(folder))) {
    throw new Fault("unavailable", [{ reason: `The image ${key} is not there any more, so nothing can be made from it. Choose another image.` }]);
  }
  for (const part of parts) {
    await rm(join(disk, part), { recursive: true, force: true });
    await copyTree(join(folder, part), join(disk, part));
  }
};

/** Keys a machine is made from by copying; every other image is only a name on this runtime. */
export const isCaptureKey = (image: string): boolean => image.startsWith("private/");

export const diskCaptures = (stateFolder: string): MachineImages => ({
  capture: async (_instance, fingerprint, key) => {
    const folder = captureFolder(stateFolder, key);
    const known = await readCaptured(folder);
    if (known) return known;
    const source = await findFileSystem(stateFolder, fingerprint);
    if (!source || (source.disk.boots === 0 && !source.disk.copied)) return undefined;
    const aside = `${folder}.new`;
    await rm(aside, { recursive: true, force: true });
    await mkdir(aside, { recursive: true, mode: 0o700 });
    for (const part of parts) await copyTree(join(source.folder, part), join(aside, part));
    const captured: Captured = { key, sizeMb: Math.ceil((await bytesIn(aside)) / 2 ** 20) };
    await writeFile(join(aside, "image.json"), JSON.stringify(captured), { mode: 0o600 });
    await rename(aside, folder);
    return captured;
  },
  remove: async (key) => {
    const folder = captureFolder(stateFolder, key);
    await rm(join(folder, "image.json"), { force: true }); // first: half a copy must not look like one
    for (const path of [folder, `${folder}.new`]) await rm(path, { recursive: true, force: true, maxRetries: 3 });
    return true;
  },
  list: async () => {
    const names = await readdir(imagesFolder(stateFolder)).catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return [];
      throw error;
    });
    const found = await Promise.all(
      names.filter((name) => !name.endsWith(".new")).map((name) => readCaptured(join(imagesFolder(stateFolder), name))),
    );
    return found.flatMap((captured) => captured ?? []);
  },
});
