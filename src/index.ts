import { processEnvironment, readConfig } from "./config/config.js";
import type { Config } from "./config/settings.js";
import { type Running as Backlot, type Hooks, openCloud } from "./main.js";

export { cleanMachine, type Leftover } from "./clean.js";
export { type Examined, examine } from "./doctor/doctor.js";
export type { Finding } from "./doctor/finding.js";
export type { Backlot, Config, Hooks };

/**
 * Starts a cloud in this process. Settings that are not given come, as on the command line, from `BACKLOT_…` variables, else
 * `backlot.config.json` in the working folder, else their defaults.
 * @throws an Error whose message names every setting that is wrong, or why it cannot start and what to do
 */
export const startBacklot = async (settings: Partial<Config> = {}, hooks: Hooks = {}): Promise<Backlot> =>
  openCloud(readConfig({ flags: settings, nameOf: (key) => key, env: processEnvironment(), cwd: process.cwd() }), hooks);
