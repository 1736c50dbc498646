import { rm } from "node:fs/promises";
import { abandonedDemoFolders } from "../demo/folders.js";
import { cleanMachine } from "../index.js";
import { reasonOf } from "../kernel/fault.js";

type Finding = Awaited<ReturnType<typeof cleanMachine>>[number];

/** Nobody starts a killed demo's state again, so its folder goes first: then its machines have no owner any more. */
const cleanDemos = async (dryRun: boolean): Promise<Finding[]> => {
  const findings: Finding[] = [];
  for (const folder of await abandonedDemoFolders()) {
    const what = `folder ${folder} of a demo that was killed${dryRun ? ", and the machines it left" : ""}`;
    const failure = dryRun ? undefined : await rm(folder, { recursive: true, force: true }).then(() => undefined, reasonOf);
    findings.push(failure === undefined ? { what, removed: !dryRun } : { what, removed: false, reason: failure });
  }
  return findings;
};

/** Exit code 0 when nothing without an owner is left (or, dry, was only listed); 1 when something could not be removed. */
export const runClean = async (options: { dryRun: boolean }): Promise<number> => {
  const findings = [...(await cleanDemos(options.dryRun)), ...(await cleanMachine(options))];
  if (findings.every(({ unknown }) => unknown)) console.log("Nothing to clean: everything with our label has an owner.");
  for (const { what, removed, unknown, reason } of findings) {
    const verb = removed ? "removed" : unknown ? "left alone" : options.dryRun ? "would remove" : "kept";
    console.log(`${verb} ${what}${reason === undefined ? "" : `: ${reason}`}`);
  }
  return options.dryRun || findings.every(({ removed, unknown }) => removed || unknown) ? 0 : 1;
};
