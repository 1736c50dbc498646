import type { Low } from "lowdb";
import { reasonOf } from "../kernel/fault.js";
import { remedyOf } from "../kernel/remedy.js";
import type { Disk } from "./disk.js";
import { documentOf, type StateDocument } from "./document.js";
import type { Journal } from "./journal.js";
import { journalFirsts, journalPath } from "./recovery.js";
import { type SnapshotFile, snapshotPath } from "./snapshot.js";
import type { Tables } from "./tables.js";

export interface Rooms {
  disk: Disk;
  folder: string;
  low: Low<StateDocument>;
  file: SnapshotFile;
  journal: Journal;
  tables: Tables;
  onProblem: (reason: string) => void;
}

/**
 * Writes the snapshot now and then, beside the commits. The journal goes on in a new file first; journal files are removed when neither the new
 * snapshot nor the previous one needs them, and never before the new one is durable.
 */
export class Snapshots {
  readonly #rooms: Rooms;
  readonly #leastBytes: number;
  /** Last commit that `state.json` includes. */
  #sequence: number;
  /** Bytes of journal that a start would have to read. */
  #bytes: number;
  /** After a failure: not before the journal has grown to this. */
  #notBefore = 0;
  #running: Promise<void> | undefined;

  /** `leastBytes`: the journal is let grow to this, or to twice the snapshot, before a snapshot is worth its price. */
  constructor(rooms: Rooms, sequence: number, journalBytes: number, leastBytes: number) {
    this.#rooms = rooms;
    this.#sequence = sequence;
    this.#bytes = journalBytes;
    this.#leastBytes = leastBytes;
  }

  /** To be called between two commits. Waits for the new journal file only, never for the snapshot. Never rejects. */
  async grown(bytes: number, sequence: number): Promise<void> {
    this.#bytes += bytes;
    const limit = Math.max(this.#leastBytes, 2 * this.#rooms.file.size, this.#notBefore);
    if (this.#running !== undefined || this.#bytes < limit) return;
    try {
      await this.#rotate(sequence, false);
    } catch (error) {
      this.#failed(error);
      return;
    }
    this.#running = this.#write(sequence)
      .catch((error) => this.#failed(error))
      .finally(() => {
        this.#running = undefined;
      });
  }

  /** A whole snapshot, durable when it resolves; nothing may be committed meanwhile. `renew`: also when the journal file is empty, give it a new header. */
  async take(sequence: number, renew: boolean): Promise<void> {
    await this.#rotate(sequence, renew);
    await this.#write(sequence);
  }

  /** The last snapshot, when there is anything new in it. Never rejects: the journal has it all. */
  async close(sequence: number): Promise<void> {
    await this.#running;
    if (sequence === this.#sequence) return;
    await this.take(sequence, false).catch((error) => this.#failed(error));
  }

  #failed(error: unknown): void {
    this.#notBefore = this.#bytes + this.#leastBytes / 4;
    const path = snapshotPath(this.#rooms.folder);
    this.#rooms.onProblem(
      `The state file ${path} was not renewed (${reasonOf(error)}); ${remedyOf(error)}. Nothing is lost: the journal has every change.`,
    );
  }

  async #rotate(sequence: number, renew: boolean): Promise<void> {
    const { journal, low } = this.#rooms;
    const { owner, schemaVersion } = low.data;
    if (renew || journal.first !== sequence + 1) await journal.rotate({ owner, schemaVersion, first: sequence + 1 });
  }

  async #write(sequence: number): Promise<void> {
    const { low, tables } = this.#rooms;
    const bytes = this.#bytes;
    low.data = documentOf(low.data, sequence, tables);
    await low.write();
    const previous = this.#sequence;
    this.#sequence = sequence;
    this.#bytes -= bytes;
    this.#notBefore = 0;
    await this.#removeOld(previous);
  }

  /** The previous snapshot includes commit `previous`; it needs the file that holds the next one and all after that. */
  async #removeOld(previous: number): Promise<void> {
    const { disk, folder } = this.#rooms;
    const firsts = await journalFirsts(disk, folder);
    const needed = firsts.findLastIndex((first) => first <= previous + 1);
    for (const first of firsts.slice(0, Math.max(needed, 0))) await disk.rm(journalPath(folder, first), { force: true });
  }
}
