import type { Config } from "../config/settings.js";
import { findRunning } from "./running.js";
import { statusLines } from "./texts.js";

/** Exit code 0 when one runs on this state folder, 1 when none does. */
export const runStatus = async (config: Config): Promise<number> => {
  const found = await findRunning(config.state);
  if (config.json) {
    console.log(
      JSON.stringify(
        found.running ? { running: true, url: found.running.url, ...found.health } : { running: false, state: config.state, reason: found.reason },
      ),
    );
  } else if (found.running) {
    for (const line of statusLines(found.running.url, found.health)) console.log(line);
  } else {
    console.log(found.reason);
  }
  return found.running ? 0 : 1;
};
