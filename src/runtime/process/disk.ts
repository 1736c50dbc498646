import { chmod, mkdir, open, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { MachineSpec } from "../driver.js";
import { supervisorText, userDataFile } from "./supervisor.js";

/**
 * What a machine keeps while it does not run: `STATE/machines/INSTANCE/`, its disk. It holds `machine.json` (written last and whole:
 * without it the folder is the rest of a crash), the supervisor, the deploy script with its start and exit marks, the boot log,
 * `services/` and the home `root/`.
 */
export interface Disk {
  owner: string;
  /** Empty when the making or the removing of this disk was cut off. */
  fingerprint: string;
  /** The boots it was last started with; 0: never. */
  boots: number;
  script: { started: boolean; exitCode: number | undefined } | undefined;
  /** Made as a copy of another: there was something on it before its first boot. */
  copied: boolean;
}

export const diskFolder = (stateFolder: string, instance: number): string => join(stateFolder, "machines", String(instance));

const absent = (error: unknown): undefined => {
  if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
  throw error;
};

const exists = async (path: string): Promise<boolean> => (await stat(path).catch(absent)) !== undefined;

/** Synced before it has its name: after a power cut an empty record would be taken for a disk that was never made, and removed. */
const writeWhole = async (path: string, text: string): Promise<void> => {
  const file = await open(`${path}.new`, "w", 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(`${path}.new`, path);
};

interface Record {
  owner: string;
  fingerprint: string;
  boots: number;
  script: boolean;
  copied?: boolean;
}

const recordIn = async (folder: string): Promise<Record | undefined> => {
  const text = await readFile(join(folder, "machine.json"), "utf8").catch(absent);
  if (text === undefined) return undefined;
  try {
    const { owner, fingerprint, boots, script, copied } = JSON.parse(text) as Partial<Record>;
    return {
      owner: String(owner ?? ""),
      fingerprint: String(fingerprint ?? ""),
      boots: Number(boots ?? 0),
      script: script === true,
      copied: copied === true,
    };
  } catch {
    return undefined; // damaged: as good as cut off, the machine is made anew
  }
};

/** `undefined` when there is no such folder. */
export const readDisk = async (folder: string): Promise<Disk | undefined> => {
  if (!(await exists(folder))) return undefined;
  const record = await recordIn(folder);
  if (!record) return { owner: "", fingerprint: "", boots: 0, script: undefined, copied: false };
  return { ...record, copied: record.copied === true, script: record.script ? await readScript(folder) : undefined };
};

const readScript = async (folder: string): Promise<Disk["script"]> => {
  const exit = await readFile(join(folder, "script.exit"), "utf8").catch(absent);
  return { started: exit !== undefined || (await exists(join(folder, "script.started"))), exitCode: exit === undefined ? undefined : Number(exit) };
};

/** Numbers of the instances that have a folder. */
export const disksIn = async (stateFolder: string): Promise<number[]> =>
  ((await readdir(join(stateFolder, "machines")).catch(absent)) ?? []).filter((name) => /^[1-9]\d*$/.test(name)).map(Number);

/** Makes a disk, empty or filled by `fill`; whatever was there is removed first. `refusal`: why its script is not run, for its log. */
export const createDisk = async (
  folder: string,
  owner: string,
  spec: MachineSpec,
  refusal: string | undefined,
  fill?: (folder: string) => Promise<void>,
): Promise<void> => {
  await removeDisk(folder);
  await mkdir(join(folder, "services"), { recursive: true, mode: 0o700 });
  await mkdir(join(folder, "root"), { mode: 0o700 });
  await fill?.(folder);
  await deploy(folder, spec, refusal);
  await writeRecord(folder, { owner, fingerprint: spec.fingerprint, boots: 0, script: spec.script !== null });
};

/** Deploys on a copy that was never booted. */
export const adoptCopy = async (folder: string, owner: string, spec: MachineSpec, refusal: string | undefined): Promise<void> => {
  await deploy(folder, spec, refusal);
  await writeRecord(folder, { owner, fingerprint: spec.fingerprint, boots: 0, script: spec.script !== null, copied: true });
};

const deploy = async (folder: string, spec: MachineSpec, refusal: string | undefined): Promise<void> => {
  if (refusal !== undefined) {
    await writeFile(join(folder, "boot.log"), `backlot: ${refusal}\n`, { mode: 0o600 });
    await writeFile(join(folder, "script.exit"), "126\n", { mode: 0o600 });
  } else if (spec.script) {
    await writeFile(join(folder, "script"), spec.script.text.replaceAll("\r\n", "\n"), { mode: 0o700 });
    await chmod(join(folder, "script"), 0o700); // whatever the umask is
  }
};

const writeRecord = (folder: string, record: Record): Promise<void> => writeWhole(join(folder, "machine.json"), `${JSON.stringify(record)}\n`);

/** What a start needs beside the machine's own files. The supervisor is this Backlot's, whichever made the disk. */
export const writeStart = async (folder: string, spec: MachineSpec): Promise<void> => {
  await writeFile(join(folder, "supervisor"), supervisorText, { mode: 0o600 });
  const userData = userDataFile(folder);
  if (spec.userData) await writeFile(userData, Buffer.from(spec.userData, "base64"), { mode: 0o600 });
  else await rm(userData, { force: true });
  await writeBoots(folder, spec.boots);
};

const writeBoots = async (folder: string, boots: number): Promise<void> => {
  const record = await recordIn(folder);
  if (record && record.boots !== boots) await writeRecord(folder, { ...record, boots });
};

/** A copy has a name of its own, and was never booted: what was deployed on the machine it comes from does not count. */
export const markCopy = async (folder: string, fingerprint: string): Promise<void> => {
  for (const name of ["script", "script.started", "script.exit", "boot.log", "boot.log.1"]) await rm(join(folder, name), { force: true });
  const record = await recordIn(folder);
  if (record) await writeRecord(folder, { ...record, fingerprint, boots: 0, script: false, copied: true });
};

/** A script that was running when its machine was shut down ended by SIGTERM (128 + 15), and is not run again. */
export const closeScript = async (folder: string): Promise<void> => {
  const disk = await readDisk(folder);
  if (disk?.script?.started && disk.script.exitCode === undefined) await writeWhole(join(folder, "script.exit"), "143\n");
};

export const removeDisk = async (folder: string): Promise<void> => {
  await rm(join(folder, "machine.json"), { force: true }); // first: half a disk must not look like one
  await rm(folder, { recursive: true, force: true, maxRetries: 3 });
};

const logMaxBytes = 64 * 1024;

const tailOf = async (path: string, maxBytes: number): Promise<Buffer> => {
  const file = await open(path).catch(absent);
  if (!file) return Buffer.alloc(0);
  try {
    const { size } = await file.stat();
    const length = Math.min(size, maxBytes);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, size - length);
    return buffer.subarray(0, bytesRead);
  } finally {
    await file.close();
  }
};

/** The last 64 KiB of the boot log; cut at a line's beginning when there is more. */
export const readLog = async (folder: string): Promise<string> => {
  const newer = await tailOf(join(folder, "boot.log"), logMaxBytes);
  const older = await tailOf(join(folder, "boot.log.1"), logMaxBytes);
  const all = Buffer.concat([older, newer]);
  const tail = all.subarray(Math.max(0, all.length - logMaxBytes));
  const firstLine = tail.length < all.length ? tail.indexOf("\n") + 1 : 0;
  return tail.subarray(firstLine).toString("utf8");
};

/** Keeps the log of earlier boots from growing with every boot. */
export const rotateLog = async (folder: string): Promise<void> => {
  const log = join(folder, "boot.log");
  const size = (await stat(log).catch(absent))?.size ?? 0;
  if (size > logMaxBytes) await rename(log, `${log}.1`);
};
