import type { Command } from "commander";
import { configFlags, processEnvironment, readConfig } from "../config/config.js";
import type { Config } from "../config/settings.js";

type Key = keyof Config;

/** Adds the flags of the named settings (all when none are named) to a command; their values stay text, the settings' schema judges them. */
export const addSettingFlags = (command: Command, keys?: readonly Key[]): Command => {
  for (const { key, name, value, description, default: initial, repeatable } of configFlags) {
    if (keys && !keys.includes(key)) continue;
    // The default is only told, never handed to commander: a flag that was not given must not outrank a variable.
    const words = [
      value === undefined ? name : `${name} <${value}>`,
      initial === undefined ? description : `${description} (default: ${initial})`,
    ] as const;
    if (repeatable) command.option(...words, (given: string, before: string[] = []) => [...before, given]);
    else command.option(...words);
  }
  return command;
};

/** Flags, `BACKLOT_…` and `backlot.config.json` as one Config. Throws Fault "invalid" with every problem. */
export const settingsOf = (command: Command): Config => {
  const given: Record<string, unknown> = command.opts();
  const flags = Object.fromEntries(configFlags.flatMap(({ key, attribute }) => (given[attribute] === undefined ? [] : [[key, given[attribute]]])));
  return readConfig({ flags, env: processEnvironment(), cwd: process.cwd() });
};

/** True when the user said something about this setting: by a flag, or anywhere with a value that is not the default. */
export const isChosen = (command: Command, config: Config, key: Key): boolean =>
  command.opts()[key] !== undefined || String(config[key]) !== configFlags.find((flag) => flag.key === key)?.default;
