import { Command, CommanderError } from "commander";
import { processEnvironment } from "../config/config.js";
import type { Config } from "../config/settings.js";
import { Fault, reasonOf } from "../kernel/fault.js";
import { addSettingFlags, isChosen, settingsOf } from "./settings-flags.js";
import { runStatus } from "./status.js";
import { runStop } from "./stop.js";
import { oneLine, problemLines } from "./texts.js";

/** The settings that make sense for a demo, which chooses port, folder and token itself. */
const demoFlags: ReadonlyArray<keyof Config> = ["runtime", "speed", "balancerAddresses", "privatePool", "imageFallback", "logLevel"];

/** The settings that decide what a start needs of the machine. */
const doctorFlags: ReadonlyArray<keyof Config> = [
  "port",
  "host",
  "state",
  "runtime",
  "balancerAddresses",
  "privatePool",
  "dnsPort",
  "dnsHost",
  "dnsUpstream",
  "json",
];

/**
 * The whole command line; `finish` takes the exit code of the command that ran. Only a command that runs a cloud loads one: help, status and
 * stop answer in half the time without.
 */
const program = (version: string, finish: (code: number) => void): Command => {
  const root = new Command("backlot")
    .description("A local cloud whose answers are true: instances that run, balancers that listen, health that is measured.")
    .version(version)
    .exitOverride()
    .showHelpAfterError("(add --help to see what there is)");

  addSettingFlags(root.command("start").description("run it until Ctrl-C")).action(async (_options, command: Command) => {
    const config = settingsOf(command);
    const { runStart } = await import("./start.js");
    finish(await runStart(config));
  });

  addSettingFlags(root.command("demo").description("walk one balanced HTTPS service from nothing to a crash, with proof"), demoFlags)
    .option("--exit", "tear everything down after the story")
    .action(async (options: { exit?: boolean }, command: Command) => {
      const config = settingsOf(command);
      const quiet = isChosen(command, config, "logLevel") ? config : { ...config, logLevel: "error" as const };
      const { runDemo } = await import("./demo.js");
      finish(await runDemo(quiet, { exit: options.exit === true, rangeChosen: isChosen(command, config, "balancerAddresses") }));
    });

  addSettingFlags(root.command("status").description("say whether one runs on the state folder"), ["state", "json"]).action(
    async (_options, command: Command) => {
      finish(await runStatus(settingsOf(command)));
    },
  );

  addSettingFlags(root.command("stop").description("stop the one that runs on the state folder"), ["state"])
    .option("--machines", "stop its machines too; the next start boots them again")
    .action(async (options: { machines?: boolean }, command: Command) => {
      finish(await runStop(settingsOf(command), { machines: options.machines === true }));
    });

  addSettingFlags(root.command("dns").description("say how this machine asks Backlot for names, and how to undo that"), ["state"])
    .option("--undo", "say how to undo it")
    .action(async (options: { undo?: boolean }, command: Command) => {
      const config = settingsOf(command);
      const { runDns } = await import("./dns.js");
      finish(await runDns(config, { undo: options.undo === true }));
    });

  addSettingFlags(root.command("doctor").description("look at what Backlot stands on, and say what mends what is wrong"), doctorFlags).action(
    async (_options, command: Command) => {
      const config = settingsOf(command);
      const { runDoctor } = await import("./doctor.js");
      finish(await runDoctor(config, version, processEnvironment()));
    },
  );

  root
    .command("clean")
    .description("remove what carries our label and no longer has an owner")
    .option("--dry-run", "only say what would be removed")
    .action(async (options: { dryRun?: boolean }, command: Command) => {
      // It needs no setting, but a mistaken variable or file is told here as everywhere.
      settingsOf(command);
      const { runClean } = await import("./clean.js");
      finish(await runClean({ dryRun: options.dryRun === true }));
    });

  return root;
};

/**
 * Runs one command line and answers its exit code: 0 clean, 1 could not start (one line on standard error),
 * 2 bad usage (every problem on standard error).
 */
export const runCommandLine = async (words: readonly string[], version: string): Promise<number> => {
  let exitCode = 0;
  try {
    const root = program(version, (code) => {
      exitCode = code;
    });
    await root.parseAsync([...words], { from: "user" });
    return exitCode;
  } catch (error) {
    // Commander has printed its own text by now.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    if (error instanceof Fault && error.kind === "invalid") {
      for (const line of problemLines(error.problems)) console.error(line);
      return 2;
    }
    console.error(oneLine(error instanceof Fault ? error.problems.map(({ reason }) => reason).join(" ") : `Unexpected: ${reasonOf(error)}`));
    return 1;
  }
};
