import type { Config } from "../config/settings.js";
import { startBacklot } from "../index.js";
import { aborted, interruption } from "./interrupt.js";
import { machineLine, welcome } from "./texts.js";
import { letYoungSpaceGrow } from "./young-space.js";

/** Serves until Ctrl-C, SIGTERM or `backlot stop`. Answers the exit code. */
export const runStart = async (config: Config): Promise<number> => {
  const interrupted = interruption("Stopping. Ctrl-C again ends it at once.");
  // The log tells progress too, as long as it tells anything at that level.
  const isLogged = ["trace", "debug", "info"].includes(config.logLevel);
  const backlot = await startBacklot(config, isLogged ? {} : { onProgress: (line) => console.error(line) });
  letYoungSpaceGrow();
  if (interrupted.aborted) console.error("It was interrupted while it started.");
  else if (config.json) console.log(machineLine(backlot));
  else for (const line of welcome({ ...backlot, onExit: config.onExit })) console.log(line);
  await Promise.race([aborted(interrupted), backlot.closed]);
  await backlot.close();
  console.error("Stopped.");
  return 0;
};
