import { join } from "node:path";
import { cannotStart, reasonOf } from "../kernel/fault.js";
import type { Disk } from "./disk.js";
import { restoringBackup } from "./disk-fault.js";
import { documentOf, isStateDocument, type StateDocument, tablesOf } from "./document.js";
import { type Segment, segmentOf } from "./segment.js";
import { snapshotPath } from "./snapshot.js";

/** Turns a document of one schema version into the next; may change what it is given. The version number is set by the store. */
export type Migration = (document: StateDocument) => StateDocument;

export interface Schema {
  version: number;
  /** By the version they start from. */
  migrations: Readonly<Record<number, Migration>>;
}

export interface Recovered {
  document: StateDocument;
  /** First commit numbers of all journal files there are, ascending. */
  firsts: number[];
  /** The file to go on with. */
  last: { first: number; goodLength: number; tornLength: number };
  /** Bytes of journal since the snapshot. */
  journalBytes: number;
  /** The version of the snapshot on disk. */
  writtenVersion: number;
}

export const journalPath = (folder: string, first: number): string => join(folder, `journal.${first}.jsonl`);

export const journalFirsts = async (disk: Disk, folder: string): Promise<number[]> =>
  (await disk.readdir(folder))
    .map((name) => Number(/^journal\.([1-9]\d*)\.jsonl$/.exec(name)?.[1] ?? Number.NaN))
    .filter(Number.isSafeInteger)
    .sort((a, b) => a - b);

const migrated = (document: StateDocument, target: number, schema: Schema, path: string): StateDocument => {
  if (target > schema.version) {
    const found = `was written by a newer Backlot (schema version ${target}, this one knows ${schema.version})`;
    throw cannotStart(`The state in ${path} ${found}; start that newer Backlot, or this one with another state folder.`);
  }
  let current = document;
  while (current.schemaVersion < target) {
    const from = current.schemaVersion;
    const refuse = (cause: string, error?: unknown) =>
      cannotStart(
        `The state in ${path} cannot be brought from schema version ${from} to ${from + 1} (${cause}); start the Backlot that wrote it.`,
        error,
      );
    const migration = schema.migrations[from];
    if (migration === undefined) throw refuse("no migration is known");
    try {
      current = { ...migration(current), schemaVersion: from + 1 };
    } catch (error) {
      throw refuse(reasonOf(error), error);
    }
    if (!isStateDocument(current)) throw refuse("the migration made something that is no state");
  }
  return current;
};

const readSegment = async (disk: Disk, path: string, first: number): Promise<Segment> => {
  try {
    return segmentOf(await disk.readFile(path), first);
  } catch (error) {
    throw cannotStart(`The journal ${path} cannot be read (${reasonOf(error)}); make it readable to this user.`, error);
  }
};

const replayed = (document: StateDocument, { header, commits }: Segment, path: string): StateDocument => {
  if (commits.length === 0) return document;
  if (header?.schemaVersion !== document.schemaVersion) {
    throw cannotStart(`The journal ${path} is older than the state file beside it (another schema version); put back the state file it belongs to.`);
  }
  const tables = tablesOf(
    document,
    commits.flatMap((commit) => commit.changes.map(([kind]) => kind)),
  );
  let sequence = document.sequence;
  for (const commit of commits) {
    for (const [kind, id, row] of commit.changes) tables.of(kind).put(id, row ?? undefined);
    sequence = commit.sequence;
  }
  return documentOf(document, sequence, tables);
};

/**
 * Snapshot + journal = the state. The journal is a chain of files, each named after the first commit it can hold; a new one is begun before each
 * snapshot, so a snapshot of commit S, the previous one too, is followed by the file that begins at S + 1. Older files are not looked at.
 * Throws `Fault("startup")` naming the file, the cause and the way back for anything but a torn end of the last file.
 */
export const recovered = async (disk: Disk, folder: string, snapshot: StateDocument, schema: Schema): Promise<Recovered> => {
  const path = snapshotPath(folder);
  const writtenVersion = snapshot.schemaVersion;
  if (writtenVersion > schema.version) migrated(snapshot, writtenVersion, schema, path);
  let document = snapshot;
  const firsts = await journalFirsts(disk, folder);
  const start = firsts.indexOf(snapshot.sequence + 1);
  const missing = (first: number) =>
    cannotStart(
      `The journal ${journalPath(folder, first)} is missing; put it back, or make an empty file of that name to go on without its changes.`,
    );
  if (start === -1) throw missing(snapshot.sequence + 1);
  let journalBytes = 0;
  let last = { first: 0, goodLength: 0, tornLength: 0 };
  let end = snapshot.sequence + 1;
  for (const [index, first] of [...firsts.entries()].slice(start)) {
    const file = journalPath(folder, first);
    const segment = await readSegment(disk, file, first);
    const later = firsts.slice(index + 1).map((next) => journalPath(folder, next));
    const damage =
      segment.damage ?? (segment.tornLength > 0 && later.length > 0 ? { line: segment.commits.length + 2, cause: "it is cut short" } : undefined);
    if (damage !== undefined) {
      const cut = `keep only its first ${damage.line - 1} lines${later.length > 0 ? `, remove ${later.join(" and ")},` : ""} and lose the changes after them`;
      throw cannotStart(`The journal ${file} is damaged at line ${damage.line} (${damage.cause}); ${restoringBackup(folder)}, or ${cut}.`);
    }
    if (segment.header !== undefined && segment.header.owner !== snapshot.owner) {
      throw cannotStart(`The journal ${file} belongs to another state than ${path}; put back the one that belongs to it.`);
    }
    // Begun for a snapshot when the disk failed: the file before it stayed in use.
    if (first < end && segment.commits.length === 0) continue;
    if (first !== end) throw missing(end);
    const version = segment.header?.schemaVersion ?? document.schemaVersion;
    // A file of a newer schema begins where the migration was made.
    if (version > document.schemaVersion) document = migrated(document, version, schema, file);
    document = replayed(document, segment, file);
    end = first + segment.commits.length;
    last = { first, goodLength: segment.goodLength, tornLength: segment.tornLength };
    journalBytes += segment.goodLength;
  }
  return { document: migrated(document, schema.version, schema, path), firsts, last, journalBytes, writtenVersion };
};
