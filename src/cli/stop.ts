import { setTimeout as pause } from "node:timers/promises";
import type { Config } from "../config/settings.js";
import { isAlive } from "../demo/process-life.js";
import { reasonOf } from "../kernel/fault.js";
import { askHealth, findRunning, type Running } from "./running.js";

/** From the request until nobody answers. */
const silentWithinMs = 15_000;
/** From then until the process has gone: `--on-exit stop` waits for its machines. */
const goneWithinMs = 15_000;
/** The same when machines are to be stopped: two minutes are theirs. */
const goneWithMachinesMs = 150_000;
const pollMs = 50;

const holdsWithin = async (ms: number, holds: () => Promise<boolean>): Promise<boolean> => {
  const deadlineMs = performance.now() + ms;
  while (!(await holds())) {
    if (performance.now() > deadlineMs) return false;
    await pause(pollMs);
  }
  return true;
};

const askToStop = async ({ url, token }: Running, machines: boolean): Promise<string | undefined> => {
  try {
    const response = await fetch(new URL("/_backlot/stop", url), {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify(machines ? { machines: "stop" } : {}),
      signal: AbortSignal.timeout(silentWithinMs),
    });
    return response.ok ? undefined : `it answered ${response.status} ${(await response.text()).slice(0, 300)}`;
  } catch (error) {
    return reasonOf(error);
  }
};

/** Exit code 0 when none serves any more, also when none did; 1 when it would not stop. `machines`: they are stopped too, whatever its start said. */
export const runStop = async (config: Config, { machines }: { machines: boolean }): Promise<number> => {
  const found = await findRunning(config.state);
  if (!found.running) {
    console.log(found.reason);
    return 0;
  }
  const { running } = found;
  const refusal = await askToStop(running, machines);
  if (refusal !== undefined) {
    console.error(`Backlot (pid ${running.pid}) at ${running.url} did not take the request to stop: ${refusal}`);
    return 1;
  }
  const isSilent = async () => (await askHealth(running.url))?.pid !== running.pid;
  if (!(await holdsWithin(silentWithinMs, isSilent))) {
    console.error(`Backlot (pid ${running.pid}) still answers at ${running.url} after ${silentWithinMs / 1000} s; see its log.`);
    return 1;
  }
  const withinMs = machines ? goneWithMachinesMs : goneWithinMs;
  if (!(await holdsWithin(withinMs, async () => !isAlive(running.pid)))) {
    // So does a Backlot inside somebody's test process, whose process goes on with other things.
    console.log(
      `It no longer serves, but its process (pid ${running.pid}) is still there after ${withinMs / 1000} s; it may be stopping its machines.`,
    );
    return 0;
  }
  console.log(`Stopped (pid ${running.pid}, ${running.url}).`);
  return 0;
};
