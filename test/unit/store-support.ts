import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import * as promises from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach } from "vitest";
import type { Disk } from "#backlot/store/disk.js";
import { openStore, type StoreOptions } from "#backlot/store/open-store.js";
import type { Store } from "#backlot/store/store.js";

export interface Thing {
  id: number;
  label: string;
  tags?: string[];
  spec?: { memory?: number | undefined };
  text?: string | undefined;
}

export interface Kinds {
  thing: Thing;
  other: { id: number; label: string };
}

export type Things = Store<Kinds>;

const opened: Things[] = [];
const folders: string[] = [];

afterEach(async () => {
  for (const store of opened.splice(0)) await store.close();
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

export const tempFolder = (): string => {
  const folder = mkdtempSync(join(tmpdir(), "backlot-store-"));
  folders.push(folder);
  return join(folder, "state");
};

export const problems: string[] = [];

const optionsOf = (folder: string, more: Partial<StoreOptions<Kinds>> = {}): StoreOptions<Kinds> => ({
  folder,
  kinds: ["thing", "other"],
  schemaVersion: 1,
  migrations: {},
  onProblem: (reason) => problems.push(reason),
  ...more,
});

export const open = async (folder: string, more: Partial<StoreOptions<Kinds>> = {}): Promise<Things> => {
  const store = await openStore<Kinds>(optionsOf(folder, more));
  opened.push(store);
  return store;
};

export const add = (store: Things, label: string): Promise<Thing> => store.commit((tx) => tx.insert("thing", { label }));

export const labels = (store: Things): string[] => store.list("thing").map((row) => row.label);

/** The one sentence a start ends with. */
export const refusal = async (folder: string, more: Partial<StoreOptions<Kinds>> = {}): Promise<string> => {
  try {
    await (await open(folder, more)).close();
  } catch (error) {
    const fault = error as { kind?: string; message: string };
    if (fault.kind === "startup") return fault.message;
    throw error;
  }
  throw new Error("the state was opened");
};

export const files = (folder: string): string[] => readdirSync(folder).sort();

/** Name of the journal file being written. */
export const journal = (folder: string): string => {
  const first = (name: string) => Number(name.split(".")[1]);
  const [last] = files(folder)
    .filter((name) => /^journal\.\d+\.jsonl$/.test(name))
    .sort((a, b) => first(b) - first(a));
  if (last === undefined) throw new Error(`no journal in ${folder}`);
  return join(folder, last);
};

export const bytesOf = (path: string): Buffer => readFileSync(path);

/** The real file system; `before` sees each call (its name and what it is about) and may throw instead of letting it happen. */
export const watchedDisk = (before: (call: string, about: string) => void): Disk => {
  const told = <F extends (...values: never[]) => unknown>(call: string, about: string | undefined, act: F): F =>
    (async (...values: never[]) => {
      before(call, about ?? values.map(String).join(" "));
      return act(...values);
    }) as unknown as F;
  const handleOf = (handle: promises.FileHandle, path: string): promises.FileHandle =>
    new Proxy(handle, {
      get: (target, name) => {
        const member = Reflect.get(target, name, target);
        if (typeof member !== "function") return member;
        const bound = member.bind(target);
        return name === "close" || name === "stat" ? bound : told(String(name), path, bound);
      },
    });
  return {
    copyFile: told("copyFile", undefined, promises.copyFile),
    link: told("link", undefined, promises.link),
    mkdir: told("mkdir", undefined, promises.mkdir),
    open: (async (path: string, flags: string, mode?: number) => {
      before("open", path);
      return handleOf(await promises.open(path, flags, mode), path);
    }) as unknown as Disk["open"],
    readdir: told("readdir", undefined, promises.readdir as never),
    readFile: told("readFile", undefined, promises.readFile as never),
    rename: told("rename", undefined, promises.rename),
    rm: told("rm", undefined, promises.rm),
    stat: told("stat", undefined, promises.stat as never),
  };
};
