import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { type Api, apiOf } from "../support/cloud.js";

const cli = fileURLToPath(new URL("../../dist/bin/cli.js", import.meta.url));

/** A Backlot as people start it: the built command line in a process of its own. */
export interface OwnProcess {
  pid: number;
  url: string;
  api: Api;
  /** What it said on standard error so far, the last 64 KiB. */
  said(): string;
  /** SIGKILL, and waits until it is gone. */
  kill(): Promise<void>;
  /** SIGTERM, and waits; its exit code. */
  stop(): Promise<number | null>;
}

export interface Launch {
  child: ChildProcess;
  /** Undefined when it ended before it served. */
  serving: Promise<OwnProcess | undefined>;
  said(): string;
  kill(): Promise<void>;
}

const isEnded = (child: ChildProcess): boolean => child.exitCode !== null || child.signalCode !== null;
const ended = async (child: ChildProcess): Promise<void> => {
  if (!isEnded(child)) await once(child, "exit");
};

/** `words`: of `backlot start`, beside `--json` and `--port 0`. `before`: a program that runs it, with its words. */
export const launch = (
  words: readonly string[],
  { env = {}, before = [] }: { env?: Record<string, string>; before?: readonly string[] } = {},
): Launch => {
  const bare = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("BACKLOT_")));
  const [program = "", ...rest] = [...before, process.execPath, cli, "start", "--json", "--port", "0", ...words];
  const child = spawn(program, rest, { env: { ...bare, ...env }, stdio: ["ignore", "pipe", "pipe"] });
  let text = "";
  child.stderr.on("data", (chunk) => {
    text = (text + chunk).slice(-65_536);
  });
  const said = (): string => text;
  const kill = async (): Promise<void> => {
    child.kill("SIGKILL");
    await ended(child);
  };
  const serving = (async (): Promise<OwnProcess | undefined> => {
    for await (const line of createInterface({ input: child.stdout })) {
      const { url, token, pid } = JSON.parse(line) as { url: string; token: string; pid: number };
      const stop = async (): Promise<number | null> => {
        child.kill("SIGTERM");
        await ended(child);
        return child.exitCode;
      };
      return { pid, url, api: apiOf(url, token), said, kill, stop };
    }
    await ended(child);
    return undefined;
  })();
  return { child, serving, said, kill };
};

/** One that must serve. */
export const started = async (...how: Parameters<typeof launch>): Promise<OwnProcess> => {
  const { serving, said } = launch(...how);
  const backlot = await serving;
  if (!backlot) throw new Error(`it did not start: ${said()}`);
  return backlot;
};
