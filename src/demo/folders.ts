import { mkdtemp, readdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isAlive } from "./process-life.js";

/** A demo's state folder bears its process id, so that a folder whose demo was killed can be told from one in use. */
export const makeDemoFolder = (): Promise<string> => mkdtemp(join(tmpdir(), `backlot-demo-${process.pid}-`));

/** The folders of demos that ended without removing them (kill -9, power cut), absolute. While one exists its machines count as owned. */
export const abandonedDemoFolders = async (): Promise<string[]> => {
  const names = await readdir(tmpdir());
  return names
    .filter((name) => {
      const pid = /^backlot-demo-(\d+)-\w{6}$/.exec(name)?.[1];
      return pid !== undefined && !isAlive(Number(pid));
    })
    .map((name) => join(tmpdir(), name));
};
