import type { FileHandle } from "node:fs/promises";
import type { Disposable } from "../kernel/closers.js";
import { type Disk, replaceFile, writeAll } from "./disk.js";
import { journalPath } from "./recovery.js";
import { type Header, headerLine } from "./segment.js";

/** The journal file being written. One caller at a time. */
export class Journal implements Disposable {
  readonly #disk: Disk;
  readonly #folder: string;
  #first: number;
  #handle: FileHandle;
  /** Bytes that are durable. */
  #length: number;
  /** There may be bytes after `#length`, of a write that failed. */
  #suspect = false;

  private constructor(disk: Disk, folder: string, first: number, handle: FileHandle, length: number) {
    this.#disk = disk;
    this.#folder = folder;
    this.#first = first;
    this.#handle = handle;
    this.#length = length;
  }

  /** Goes on with an existing file; what follows `goodLength` is cut off durably before the first write. */
  static async open(disk: Disk, folder: string, last: { first: number; goodLength: number; tornLength: number }): Promise<Journal> {
    const handle = await disk.open(journalPath(folder, last.first), "r+");
    const journal = new Journal(disk, folder, last.first, handle, last.goodLength);
    try {
      if (last.tornLength > 0) await journal.#restore();
    } catch (error) {
      await journal.#handle.close().catch(() => {});
      throw error;
    }
    return journal;
  }

  /** Makes a file that holds a header only; one of the same name, which holds no commit then, is replaced. */
  static async begin(disk: Disk, folder: string, header: Header): Promise<Journal> {
    const line = Buffer.from(headerLine(header));
    const path = journalPath(folder, header.first);
    await replaceFile(disk, path, (handle) => writeAll(handle, line, 0));
    return new Journal(disk, folder, header.first, await disk.open(path, "r+"), line.length);
  }

  get first(): number {
    return this.#first;
  }

  get path(): string {
    return journalPath(this.#folder, this.#first);
  }

  get length(): number {
    return this.#length;
  }

  /** Durable when it resolves. When it rejects, nothing of `text` will be found by a later start, unless the disk refuses that as well until then. */
  async append(text: string): Promise<void> {
    if (this.#suspect) await this.#restore();
    const bytes = Buffer.from(text);
    this.#suspect = true;
    try {
      await writeAll(this.#handle, bytes, this.#length);
      const [{ nlink }] = await Promise.all([this.#handle.stat(), this.#handle.datasync()]);
      if (nlink === 0) throw new Error("the file was removed by somebody while it was in use");
    } catch (error) {
      await this.#restore().catch(() => {});
      throw error;
    }
    this.#suspect = false;
    this.#length += bytes.length;
  }

  /** Cuts off what a failed write left, through a new handle, since the old one may be what is broken. */
  async #restore(): Promise<void> {
    this.#suspect = true;
    await this.#handle.close().catch(() => {});
    this.#handle = await this.#disk.open(this.path, "r+");
    const { size } = await this.#handle.stat();
    if (size < this.#length) throw new Error(`the file was cut to ${size} bytes by somebody while it was in use`);
    await this.#handle.truncate(this.#length);
    await this.#handle.sync();
    this.#suspect = false;
  }

  /** Goes on in a new file. When it rejects, the old one stays in use. */
  async rotate(header: Header): Promise<void> {
    if (this.#suspect) await this.#restore();
    const next = await Journal.begin(this.#disk, this.#folder, header);
    await this.#handle.close().catch(() => {});
    this.#first = next.#first;
    this.#handle = next.#handle;
    this.#length = next.#length;
  }

  async close(): Promise<void> {
    if (this.#suspect) await this.#restore().catch(() => {});
    await this.#handle.close().catch(() => {});
  }
}
