import { execFile } from "node:child_process";
import { readdir, readFile } from "node:fs/promises";
import { promisify } from "node:util";
import { Fault, reasonOf } from "../../kernel/fault.js";

const run = promisify(execFile);

/**
 * Loop devices of this machine that hold a file of one of these engine volumes and do not go with their mount, as `/dev/loop3`: a crash at the
 * wrong moment leaves such a one.
 */
export const loopsOf = async (volumes: readonly string[]): Promise<string[]> => {
  if (volumes.length === 0) return [];
  const found: string[] = [];
  for (const name of await readdir("/sys/block").catch(() => [])) {
    const say = (what: string) => readFile(`/sys/block/${name}/loop/${what}`, "utf8").catch(() => "");
    if ((await say("autoclear")).trim() !== "0") continue;
    const file = await say("backing_file");
    if (volumes.some((volume) => file.split(/[/\s]/).some((part) => part === volume || part === `${volume}.ext4`))) found.push(`/dev/${name}`);
  }
  return found;
};

/** @throws Fault `unavailable` with what losetup said, and the command */
export const releaseLoop = async (device: string): Promise<void> => {
  try {
    await run("losetup", ["--detach", device]);
  } catch (error) {
    const said = String((error as { stderr?: unknown }).stderr ?? "").trim() || reasonOf(error);
    const reason = `The loop device ${device} of the engine's machine could not be let go of (${said}). There, as root: losetup --detach ${device}`;
    throw new Fault("unavailable", [{ reason }], { cause: error });
  }
};
