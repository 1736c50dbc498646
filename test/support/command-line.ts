import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { until } from "./until.js";

export const commandLine = fileURLToPath(new URL("../../dist/bin/cli.js", import.meta.url));

export interface Invocation {
  child: ChildProcess;
  out(): string;
  err(): string;
  /** The exit code; null when a signal ended it. */
  ended: Promise<number | null>;
}

/** Where, and as whom. */
interface As {
  cwd?: string | undefined;
  uid?: number;
  gid?: number;
}

/** Invocations and folders of one test, ended and removed by `close`. */
export const openTerminal = () => {
  const folders: string[] = [];
  const invocations: Invocation[] = [];
  const folder = (): string => {
    const path = mkdtempSync(join(tmpdir(), "backlot-cli-"));
    folders.push(path);
    return path;
  };
  /** Runs the built command line in an empty folder, with no `BACKLOT_…` variable but the given ones; as another user when one is given. */
  const type = (words: string[], env: Record<string, string> = {}, { cwd = folder(), ...user }: As = {}): Invocation => {
    const bare = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("BACKLOT_")));
    const child = spawn(process.execPath, [commandLine, ...words], { ...user, cwd, env: { ...bare, ...env }, stdio: ["ignore", "pipe", "pipe"] });
    let out = "";
    let err = "";
    child.stdout.on("data", (chunk) => {
      out += chunk;
    });
    child.stderr.on("data", (chunk) => {
      err += chunk;
    });
    const ended = new Promise<number | null>((resolve) => child.once("close", (code) => resolve(code)));
    const invocation = { child, out: () => out, err: () => err, ended };
    invocations.push(invocation);
    return invocation;
  };
  const close = async (): Promise<void> => {
    for (const { child } of invocations) if (child.exitCode === null && child.signalCode === null) child.kill("SIGTERM");
    await Promise.all(invocations.splice(0).map(({ ended }) => ended));
    for (const path of folders.splice(0)) rmSync(path, { recursive: true, force: true });
  };
  return { folder, type, close };
};

/** The first whole line on standard output; fails with what was said when the process ends before. */
export const firstLine = (invocation: Invocation): Promise<string> =>
  until(
    () => {
      const [line, ...more] = invocation.out().split("\n");
      return more.length > 0 ? line : undefined;
    },
    { withinMs: 20_000, what: "the first line on standard output" },
  ).catch((error: unknown) => {
    throw new Error(`${String(error)}; standard error: ${invocation.err()}`);
  });
