#!/usr/bin/env node
import "./cli/young-space.js"; // first: it is about what the others allocate
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { runCommandLine } from "./cli/program.js";
import { packageFolder } from "./kernel/package-folder.js";

const { version } = JSON.parse(readFileSync(join(packageFolder, "package.json"), "utf8")) as { version: string };

// A reader that goes away (`backlot demo | head`) must not end a command before it has removed what it made.
for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});

// A command that has ended has closed what it opened; a client's idle keep-alive socket shall not hold the process.
process.exit(await runCommandLine(process.argv.slice(2), version));
