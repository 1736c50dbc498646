import { randomUUID } from "node:crypto";
import { dirname, join } from "node:path";
import { Low } from "lowdb";
import { Closers } from "../kernel/closers.js";
import { cannotStart, Fault } from "../kernel/fault.js";
import { codeOf } from "../kernel/remedy.js";
import { type Change, Commits } from "./commits.js";
import { asideOf, type Disk, realDisk, syncFolder } from "./disk.js";
import { cannotOpen, restoringBackup } from "./disk-fault.js";
import { type StateDocument, tablesOf } from "./document.js";
import { Journal } from "./journal.js";
import { lockFolder } from "./lock.js";
import { News } from "./news.js";
import { journalFirsts, journalPath, type Migration, type Recovered, recovered } from "./recovery.js";
import { closeFile, closeFolder } from "./rights.js";
import { segmentOf } from "./segment.js";
import { SnapshotFile, snapshotPath } from "./snapshot.js";
import { Snapshots } from "./snapshots.js";
import type { Row, Store } from "./store.js";
import { frozen } from "./tables.js";

export type { StateDocument } from "./document.js";
export type { Migration } from "./recovery.js";

export interface StoreOptions<K> {
  /** Absolute; made when it is not there. It is 0700, unless it holds what is not ours, and every file of the state is 0600. */
  folder: string;
  /** Names that others of this program keep in the folder. */
  beside?: readonly string[];
  kinds: readonly (keyof K & string)[];
  /** Least id of a kind's next row, where it is not 1. */
  firstIds?: Partial<Record<keyof K & string, number>>;
  /** Version of the rows' shape, from 1 on. */
  schemaVersion: number;
  /** By the version they start from; each makes the next. Must give the same for the same document. */
  migrations: Readonly<Record<number, Migration>>;
  /** A sentence for the log: a snapshot that has to wait, a watcher that threw. */
  onProblem: (reason: string) => void;
  /** Bytes the journal may grow to before a snapshot is written beside the commits; 8 MiB when not given. */
  snapshotAfterBytes?: number;
  disk?: Disk;
}

const SNAPSHOT_AFTER_BYTES = 8 * 1024 * 1024;

const ownFile = /^(state\.json|state\.json\.previous|journal\.\d+\.jsonl)$/;
/** The lock where it is a file, and what the root folder of a file system has. */
const alsoThere = ["lock.sock", "lost+found"];

/** Proves that the folder can be written to, closes it and its files to others, and removes what a crash left half-written. */
const prepareFolder = async (disk: Disk, folder: string, beside: readonly string[], onProblem: (reason: string) => void): Promise<void> => {
  await (await disk.open(asideOf(snapshotPath(folder)), "w", 0o600)).close();
  const isAside = (name: string): boolean => name.endsWith(".next") && ownFile.test(name.slice(0, -".next".length));
  for (const name of await disk.readdir(folder)) {
    if (ownFile.test(name)) await closeFile(disk, join(folder, name), onProblem);
    if (isAside(name)) await disk.rm(join(folder, name), { force: true });
  }
  await closeFolder(disk, folder, (name) => ownFile.test(name) || isAside(name) || alsoThere.includes(name) || beside.includes(name), onProblem);
};

/**
 * A new folder is durable in its parent, and so up to the first that was there already. One level at a time: Node's recursive `mkdir` never
 * returns where no folder can be made, below /proc for instance (Node 20).
 */
const makeFolder = async (disk: Disk, folder: string): Promise<void> => {
  const make = () => disk.mkdir(folder, { mode: 0o700 });
  try {
    await make().catch(async (error) => {
      if (codeOf(error) !== "ENOENT") throw error;
      await makeFolder(disk, dirname(folder));
      await make();
    });
  } catch (error) {
    if (codeOf(error) === "EEXIST") return;
    throw error;
  }
  await syncFolder(disk, dirname(folder));
};

/** Without a state file there may be the empty journal of a first start that did not come to its end, and nothing more. */
const refuseOrphans = async (disk: Disk, folder: string): Promise<void> => {
  for (const first of await journalFirsts(disk, folder)) {
    const path = journalPath(folder, first);
    const segment = segmentOf(await disk.readFile(path), first);
    if (first === 1 && segment.commits.length === 0 && segment.damage === undefined) continue;
    throw cannotStart(
      `The state file ${snapshotPath(folder)} is missing while the journal ${path} is there; ${restoringBackup(folder)}, or start with another state folder.`,
    );
  }
};

const newState = (schemaVersion: number): StateDocument => ({
  format: "backlot-state",
  schemaVersion,
  owner: randomUUID(),
  sequence: 0,
  nextIds: {},
  rows: {},
});

const refuseUnknownKinds = (document: StateDocument, kinds: readonly string[], folder: string): void => {
  const unknown = Object.keys(document.rows).find((kind) => !kinds.includes(kind));
  if (unknown === undefined) return;
  throw cannotStart(
    `The state file ${snapshotPath(folder)} holds rows of an unknown kind, "${unknown}"; start the Backlot that wrote it, or use another state folder.`,
  );
};

interface Opened {
  document: StateDocument;
  journal: Journal;
  /** `undefined` when the state is new and not on disk yet. */
  found: Recovered | undefined;
}

const openState = async (disk: Disk, low: Low<StateDocument>, options: StoreOptions<never>): Promise<Opened> => {
  const { folder, schemaVersion } = options;
  await low.read();
  if (low.data.owner === "") {
    await refuseOrphans(disk, folder);
    const document = newState(schemaVersion);
    return { document, found: undefined, journal: await Journal.begin(disk, folder, { owner: document.owner, schemaVersion, first: 1 }) };
  }
  const found = await recovered(disk, folder, low.data, { version: schemaVersion, migrations: options.migrations });
  const { document, last } = found;
  refuseUnknownKinds(document, options.kinds, folder);
  const journal =
    last.goodLength > 0
      ? await Journal.open(disk, folder, last)
      : await Journal.begin(disk, folder, { owner: document.owner, schemaVersion: document.schemaVersion, first: last.first });
  return { document, found, journal };
};

const open = async <K extends Record<keyof K, Row>>(options: StoreOptions<K>, disk: Disk, closers: Closers): Promise<Store<K>> => {
  const { folder, kinds } = options;
  const onProblem = (reason: string) => {
    try {
      options.onProblem(reason);
    } catch {
      // A log that fails must not stop the writer.
    }
  };
  await makeFolder(disk, folder);
  const lock = await lockFolder(folder);
  closers.add(() => lock.close());
  await prepareFolder(disk, folder, options.beside ?? [], onProblem);

  const file = new SnapshotFile(disk, folder);
  const low = new Low<StateDocument>(file, { ...newState(0), owner: "" });
  const { document, journal, found } = await openState(disk, low, options as StoreOptions<never>);
  closers.add(() => journal.close());
  const written = low.data.sequence;
  low.data = document;
  const tables = tablesOf(document, kinds, options.firstIds);
  for (const kind of kinds) for (const row of tables.of(kind).list()) frozen(row);

  const rooms = { disk, folder, low, file, journal, tables, onProblem };
  const snapshots = new Snapshots(rooms, written, found?.journalBytes ?? 0, options.snapshotAfterBytes ?? SNAPSHOT_AFTER_BYTES);
  if (found === undefined || found.writtenVersion < document.schemaVersion) await snapshots.take(document.sequence, found !== undefined);

  const news = new News(onProblem);
  const commits: Commits = new Commits(tables, document.sequence, journal, {
    written: (bytes) => snapshots.grown(bytes, commits.sequence),
    moved: (kind, id) => news.tell(kind, id),
  });
  closers.add(() => snapshots.close(commits.sequence));
  closers.add(() => commits.close());

  return {
    owner: document.owner,
    get: (kind, id) => tables.of(kind as string).get(id) as K[typeof kind] | undefined,
    list: (kind) => tables.of(kind as string).list() as readonly K[typeof kind][],
    find: (kind, key, value) => tables.of(kind as string).find(key, value) as readonly K[typeof kind][],
    commit: <T>(change: (tx: never) => T) => commits.commit(change as unknown as Change) as Promise<T>,
    observe: (kind, id, seen) => news.observe(kind, id, seen),
    observed: (kind, id) => news.observed(kind, id),
    watch: (moved) => news.watch(moved as (kind: string, id: number) => void),
    close: () => closers.close(),
  };
};

/**
 * Opens the state in a folder, or makes one. Closing waits for the commits that were taken, writes a snapshot when there is anything new, and
 * gives the folder free. Rejects with `Fault("startup")`, one sentence that names the file, the cause and the way back, when the folder is in use
 * or not writable, when a file in it is damaged or unreadable, or when it was written by a newer Backlot.
 */
export const openStore = async <K extends Record<keyof K, Row>>(options: StoreOptions<K>): Promise<Store<K>> => {
  const closers = new Closers();
  try {
    return await open(options, options.disk ?? realDisk, closers);
  } catch (error) {
    await closers.close();
    throw error instanceof Fault ? error : cannotOpen(options.folder, error);
  }
};
