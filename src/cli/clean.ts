import { cleanMachine } from "../index.js";

/** Exit code 0 when nothing without an owner is left (or, dry, was only listed); 1 when something could not be removed. */
export const runClean = async (options: { dryRun: boolean }): Promise<number> => {
  const findings = await cleanMachine(options);
  if (findings.length === 0) console.log("Nothing to clean: everything with our label has an owner.");
  for (const { what, removed, reason } of findings) {
    const verb = removed ? "removed" : options.dryRun ? "would remove" : "kept";
    console.log(`${verb} ${what}${reason === undefined ? "" : `: ${reason}`}`);
  }
  return options.dryRun || findings.every(({ removed }) => removed) ? 0 : 1;
};
