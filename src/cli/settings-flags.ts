import type { Command } from "commander";
import { configFlags, processEnvironment, readConfig } from "../config/config.js";
import type { Config } from "../config/settings.js";

/** Adds the flags of the settings with these keys (all when none are named) to a command; their values stay text, the settings' schema judges them. */
export const addSettingFlags = (command: Command, keys?: readonly (keyof Config)[]): Command => {
  for (const { key, name, value, description } of configFlags) {
    if (keys && !keys.includes(key)) continue;
    command.option(value === undefined ? name : `${name} <${value}>`, description);
  }
  return command;
};

/** Flags, `BACKLOT_…` and `backlot.config.json` as one Config. Throws Fault "invalid" with every problem. */
export const settingsOf = (command: Command): Config => {
  const given = command.opts();
  const flags = Object.fromEntries(configFlags.map(({ key }) => [key, given[key]]));
  return readConfig({ flags, env: processEnvironment(), cwd: process.cwd() });
};
