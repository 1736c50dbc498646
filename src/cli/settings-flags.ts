import type { Command } from "commander";
import { configFlags, processEnvironment, readConfig } from "../config/config.js";
import type { Config } from "../config/settings.js";

type FlagName = (typeof configFlags)[number]["name"];

/** Adds the named setting flags (all when none are named) to a command; their values stay text, the settings' schema judges them. */
export const addSettingFlags = (command: Command, names?: readonly string[]): Command => {
  for (const flag of configFlags) {
    if (names && !names.includes(flag.name)) continue;
    command.option(flag.placeholder === undefined ? `--${flag.name}` : `--${flag.name} <${flag.placeholder}>`, flag.description);
  }
  return command;
};

/** Flags, `BACKLOT_…` and `backlot.config.json` as one Config. Throws Fault "invalid" with every problem. */
export const settingsOf = (command: Command): Config => {
  const given = command.opts();
  const flags = Object.fromEntries(
    configFlags.flatMap(({ name }: { name: FlagName }) => {
      const value: unknown = given[name.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase())];
      return value === undefined ? [] : [[name, value]];
    }),
  );
  return readConfig({ flags, env: processEnvironment(), cwd: process.cwd() });
};
