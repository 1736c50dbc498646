// Runs dependency-cruiser and fails when it analysed no module: with a TypeScript it cannot read it says "0 modules" and exits 0.
import { cruise } from "dependency-cruiser";
import extractOptions from "dependency-cruiser/config-utl/extract-depcruise-options";
import extractTsConfig from "dependency-cruiser/config-utl/extract-ts-config";

const options = await extractOptions("./.dependency-cruiser.cjs");
const { output } = await cruise(["src"], { ...options, outputType: "json" }, undefined, { tsConfig: extractTsConfig("./tsconfig.json") });
const { modules, summary } = JSON.parse(output);
const ours = modules.filter(({ source }) => source.startsWith("src/"));
for (const { rule, from, to } of summary.violations) process.stderr.write(`${rule.name}: ${from} -> ${to}\n`);
process.stdout.write(`room boundaries: ${ours.length} modules, ${summary.violations.length} violations\n`);
if (ours.length === 0 || summary.violations.length > 0) process.exitCode = 1;
