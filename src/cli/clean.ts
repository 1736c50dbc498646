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

const verbOf = ({ removed, unknown, unseen }: Finding, dryRun: boolean): string => {
  if (unseen) return "did not look at";
  if (removed) return "removed";
  if (unknown) return "left alone";
  return dryRun ? "would remove" : "kept";
};

/** Exit code 0 when nothing without an owner is left (or, dry, was only listed); 1 when something could not be removed, or not be looked at. */
export const runClean = async (options: { dryRun: boolean }): Promise<number> => {
  const findings = [...(await cleanDemos(options.dryRun)), ...(await cleanMachine(options))];
  if (findings.every(({ unknown, unseen }) => unknown || unseen)) {
    const where = findings.some(({ unseen }) => unseen) ? "everything with our label that could be looked at" : "everything with our label";
    console.log(`Nothing to clean: ${where} has an owner.`);
  }
  for (const finding of findings)
    console.log(`${verbOf(finding, options.dryRun)} ${finding.what}${finding.reason === undefined ? "" : `: ${finding.reason}`}`);
  return options.dryRun || findings.every(({ removed, unknown }) => removed || unknown) ? 0 : 1;
};
