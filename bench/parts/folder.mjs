import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { closing } from "./cloud.mjs";

/** A temporary folder that goes with the benchmark. */
export const temporaryFolder = () => {
  const folder = mkdtempSync(join(tmpdir(), "backlot-bench-"));
  closing(async () => rmSync(folder, { recursive: true, force: true }));
  return folder;
};
