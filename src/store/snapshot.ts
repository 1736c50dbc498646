import type { FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { crc32 } from "node:zlib";
import type { Adapter } from "lowdb";
import { cannotStart, reasonOf } from "../kernel/fault.js";
import { codeOf } from "../kernel/remedy.js";
import { asideOf, type Disk, replaceFile, writeAll } from "./disk.js";
import { restoringBackup } from "./disk-fault.js";
import { isStateDocument, type StateDocument } from "./document.js";
import { SEAL_LENGTH, sealOf, unsealed } from "./sealed.js";
import type { Row } from "./store.js";

export const snapshotPath = (folder: string): string => join(folder, "state.json");
const previousPath = (folder: string): string => join(folder, "state.json.previous");

/** Rows turned to text in one go; 500 of 670 bytes take about a millisecond, and between two goes commits have their turn. */
const ROWS_AT_ONCE = 500;

function* textOf({ rows, ...head }: StateDocument): Generator<string> {
  yield `${JSON.stringify(head).slice(1, -1)},"rows":{`;
  let beforeKind = "\n";
  for (const [kind, list] of Object.entries(rows)) {
    yield `${beforeKind}${JSON.stringify(kind)}:[`;
    for (let start = 0; start < list.length; start += ROWS_AT_ONCE) {
      const texts = list.slice(start, start + ROWS_AT_ONCE).map((row: Row) => JSON.stringify(row));
      yield `${start === 0 ? "\n" : ",\n"}${texts.join(",\n")}`;
    }
    yield "]";
    beforeKind = ",\n";
  }
  yield "\n}}";
}

/** Writes the text behind a place left free for the checksum, then the checksum. Gives the file's size in bytes. */
const writeDocument = async (handle: FileHandle, document: StateDocument): Promise<number> => {
  let sum = 0;
  let size = SEAL_LENGTH;
  for (const text of textOf(document)) {
    const bytes = Buffer.from(text);
    sum = crc32(bytes, sum);
    await writeAll(handle, bytes, size);
    size += bytes.length;
    await setImmediate();
  }
  await writeAll(handle, Buffer.from("\n"), size);
  await writeAll(handle, Buffer.from(sealOf(sum)), 0);
  return size + 1;
};

const exists = (disk: Disk, path: string): Promise<boolean> =>
  disk.stat(path).then(
    () => true,
    () => false,
  );

/** Why the snapshot cannot be used, and the way back to a state that can. */
const damaged = async (disk: Disk, folder: string, cause: string): Promise<never> => {
  const path = snapshotPath(folder);
  const previous = previousPath(folder);
  const wayBack = (await exists(disk, previous))
    ? `copy ${previous} over it (the journals beside it bring that copy up to date)`
    : `${restoringBackup(folder)}, or start with another state folder`;
  throw cannotStart(`The state file ${path} ${cause}; ${wayBack}.`);
};

/** lowdb's door to the disk. lowdb's own file adapter never fsyncs and keeps no previous copy (DESIGN section 6). */
export class SnapshotFile implements Adapter<StateDocument> {
  /** Bytes of the file as it was last read or written; 0 when there is none. */
  size = 0;
  readonly #disk: Disk;
  readonly #folder: string;

  constructor(disk: Disk, folder: string) {
    this.#disk = disk;
    this.#folder = folder;
  }

  /** `null` when there is no state yet. Throws `Fault("startup")` when there is one and it cannot be used. */
  async read(): Promise<StateDocument | null> {
    const path = snapshotPath(this.#folder);
    let bytes: Buffer;
    try {
      bytes = await this.#disk.readFile(path);
    } catch (error) {
      if (codeOf(error) !== "ENOENT")
        throw cannotStart(`The state file ${path} cannot be read (${reasonOf(error)}); make it readable to this user.`, error);
      if (await exists(this.#disk, previousPath(this.#folder))) return damaged(this.#disk, this.#folder, "is missing");
      return null;
    }
    this.size = bytes.length;
    const document = bytes.at(-1) === 10 ? unsealed(bytes.subarray(0, -1)) : undefined;
    if (document === undefined) return damaged(this.#disk, this.#folder, "is damaged (its checksum does not match)");
    const { crc32: _, ...rest } = document;
    if (!isStateDocument(rest)) return damaged(this.#disk, this.#folder, "is not a state of Backlot (unknown shape)");
    return rest;
  }

  /** Durable under its name when it resolves; the file before it is then the previous one. Must not run twice at once. */
  async write(document: StateDocument): Promise<void> {
    let size = 0;
    const write = async (handle: FileHandle) => {
      size = await writeDocument(handle, document);
    };
    await replaceFile(this.#disk, snapshotPath(this.#folder), write, () => this.#keepPrevious());
    this.size = size;
  }

  /** A second name for the old file, so that at no moment there is no `state.json`. */
  async #keepPrevious(): Promise<void> {
    const path = snapshotPath(this.#folder);
    const previous = previousPath(this.#folder);
    const aside = asideOf(previous);
    await this.#disk.rm(aside, { force: true });
    try {
      await this.#disk.link(path, aside);
    } catch (error) {
      if (codeOf(error) === "ENOENT") return;
      await this.#copy(path, aside); // a file system without hard links
    }
    await this.#disk.rename(aside, previous);
    // Two names of one file: rename does nothing then, and leaves both.
    await this.#disk.rm(aside, { force: true });
  }

  async #copy(from: string, to: string): Promise<void> {
    await this.#disk.copyFile(from, to);
    const handle = await this.#disk.open(to, "r+");
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
  }
}
