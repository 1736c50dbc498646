import { execFile } from "node:child_process";
import { readdir, readFile } from "node:fs/promises";
import { promisify } from "node:util";

const run = promisify(execFile);

/** Loop devices of this machine that still hold a file of one of these engine volumes, as `/dev/loop3`. A mount's end lets go of its device; a crash at the wrong moment does not. */
export const loopsOf = async (volumes: readonly string[]): Promise<string[]> => {
  if (volumes.length === 0) return [];
  const found: string[] = [];
  for (const name of await readdir("/sys/block").catch(() => [])) {
    const file = await readFile(`/sys/block/${name}/loop/backing_file`, "utf8").catch(() => "");
    if (volumes.some((volume) => file.split(/[/\s]/).some((part) => part === volume || part === `${volume}.ext4`))) found.push(`/dev/${name}`);
  }
  return found;
};

/** @throws Error with what losetup said */
export const releaseLoop = async (device: string): Promise<void> => {
  await run("losetup", ["--detach", device]);
};
