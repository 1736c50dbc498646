import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { type DiskImage, folderCalls, openFolderModel, unknownCalls } from "../support/power-cut.js";
import { bytesIn, descriptorIn, mayTrace, type SystemCall, systemCalls, tracing } from "../support/system-calls.js";
import { labels, open, tempFolder } from "./store-support.js";

const child = fileURLToPath(new URL("store-child.mjs", import.meta.url));

/** A store that acknowledges commits on its standard output and snapshots all the time, under strace; killed after `count` of them. */
const traced = async (folder: string, file: string, count: number): Promise<SystemCall[]> => {
  const calls = [...folderCalls, ...unknownCalls, "write"];
  const strace = spawn("strace", [...tracing(file, calls), process.execPath, child, "acks-with-pid", folder], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let pid = 0;
  let acknowledged = 0;
  for await (const line of createInterface({ input: strace.stdout })) {
    const said = JSON.parse(line) as number | { pid: number };
    if (typeof said === "object") pid = said.pid;
    else acknowledged += 1;
    if (acknowledged === count) process.kill(pid, "SIGKILL");
  }
  if (strace.exitCode === null && strace.signalCode === null) await once(strace, "exit");
  return systemCalls(readFileSync(file, "utf8"));
};

const digest = (image: DiskImage): string => {
  const hash = createHash("sha256");
  for (const [name, bytes] of [...image].sort(([a], [b]) => a.localeCompare(b))) hash.update(`${name}\0${bytes.length}\0`).update(bytes);
  return hash.digest("hex");
};

/** What a start finds on such a disk. */
const foundOn = async (image: DiskImage): Promise<string[]> => {
  const folder = tempFolder();
  mkdirSync(folder, { mode: 0o700 });
  for (const [name, bytes] of image) writeFileSync(join(folder, name), bytes);
  const store = await open(folder);
  const found = labels(store);
  await store.close();
  rmSync(folder, { recursive: true });
  return found;
};

const acknowledgement = ({ name, args }: SystemCall): number | undefined => {
  if (name !== "write" || descriptorIn(args[0]) !== 1) return undefined;
  const said = JSON.parse(bytesIn(args[1])?.toString() ?? "null");
  return typeof said === "number" ? said : undefined;
};

test.skipIf(!mayTrace())(
  "power cut after any system call: every acknowledged commit is on the disk, whatever was not synced",
  { timeout: 120_000 },
  async () => {
    const folder = tempFolder();
    const calls = await traced(folder, `${folder}.trace`, 90);
    expect(calls.filter(({ name, args }) => unknownCalls.includes(name) && args.some((arg) => bytesIn(arg)?.toString().startsWith(folder)))).toEqual(
      [],
    );
    const model = openFolderModel(folder);
    const acknowledged: string[] = [];
    const looked = new Map<string, string[]>();
    let moments = 0;
    let snapshots = 0;
    for (const call of calls) {
      const n = acknowledgement(call);
      if (n !== undefined) acknowledged.push(`thing-${n}`);
      else if (!model.call(call)) continue;
      if (call.name === "rename" && bytesIn(call.args[1])?.toString().endsWith("/state.json")) snapshots += 1;
      for (const [kind, image] of Object.entries(model.moment())) {
        moments += 1;
        const key = digest(image);
        const found = looked.get(key) ?? (await foundOn(image));
        looked.set(key, found);
        expect(found, `${kind} after ${call.name} ${call.args[0]} at line ${call.ended + 1}`).toEqual(expect.arrayContaining(acknowledged));
      }
    }
    // The write of the last one may not have returned when it was killed: then it is not in the trace.
    expect(acknowledged.length).toBeGreaterThanOrEqual(89);
    expect(snapshots).toBeGreaterThan(2);
    expect(looked.size).toBeGreaterThan(100);
    console.log(
      `${moments} disks after ${calls.length} system calls, ${looked.size} of them different, ${snapshots} snapshots, ${acknowledged.length} commits`,
    );
    rmSync(`${folder}.trace`, { force: true });
  },
);
