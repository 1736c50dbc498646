import { type ChildProcess, spawn } from "node:child_process";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { Fault, reasonOf } from "../../kernel/fault.js";
import { type Claim, claimWords } from "./table.js";

const readyMs = 10_000;

/**
 * Starts a machine's supervisor as the leader of a session of its own, so that it outlives Backlot, and resolves when it says that it
 * runs. What goes wrong before that is in the boot log.
 */
export const startSupervisor = async (claim: Claim, folder: string, environment: Record<string, string>): Promise<ChildProcess> => {
  const log = await open(join(folder, "boot.log"), "a", 0o600);
  try {
    const child = spawn("/bin/sh", [join(folder, "supervisor"), ...claimWords(claim)], {
      detached: true,
      cwd: folder,
      env: environment,
      stdio: ["ignore", "pipe", log.fd],
    });
    await readiness(child);
    child.stdout?.destroy();
    child.unref();
    return child;
  } catch (error) {
    throw new Fault(
      "unavailable",
      [{ reason: `Instance ${claim.instance} could not be started as a process: ${reasonOf(error)} Its boot log is in ${folder}.` }],
      { cause: error },
    );
  } finally {
    await log.close();
  }
};

const readiness = (child: ChildProcess): Promise<void> =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      child.kill("SIGKILL");
      reject(new Error(`it was not ready within ${readyMs / 1000} s.`));
    }, readyMs);
    child.once("error", (error) => {
      clearTimeout(timer);
      reject(error);
    });
    child.once("exit", (code, signal) => {
      clearTimeout(timer);
      reject(new Error(`its supervisor ended with ${signal ?? code}.`)); // after `ready` this rejects nothing
    });
    child.stdout?.once("data", () => {
      clearTimeout(timer);
      resolve();
    });
  });
