import { isCount } from "./document.js";
import { sealed, unsealed } from "./sealed.js";
import type { Row } from "./store.js";
import type { Changes } from "./table.js";

/** First line of a journal file. A file may hold no header and nothing else: an empty journal. */
export interface Header {
  owner: string;
  schemaVersion: number;
  /** Number of the first commit the file can hold; also in its name. */
  first: number;
}

/** One changed row: kind, id, and the row as it became (`null`: removed). */
type Change = [kind: string, id: number, row: Row | null];

interface CommitLine {
  sequence: number;
  changes: Change[];
}

export const headerLine = (header: Header): string => `${sealed(JSON.stringify(header))}\n`;

export const commitLine = (sequence: number, changed: readonly (readonly [string, Changes])[]): string => {
  const changes = changed.flatMap(([kind, rows]) => [...rows].map(([id, row]): Change => [kind, id, row ?? null]));
  return `${sealed(JSON.stringify({ sequence, changes } satisfies CommitLine))}\n`;
};

const isChange = (value: unknown): value is Change =>
  Array.isArray(value) && typeof value[0] === "string" && isCount(value[1], 1) && (value[2] === null || value[2]?.id === value[1]);

/** What one journal file says, or where it is damaged. */
export interface Segment {
  header: Header | undefined;
  commits: CommitLine[];
  /** Bytes up to the end of the last whole line. */
  goodLength: number;
  /** Bytes after that: a line that was being written when the process or the machine stopped, never acknowledged. */
  tornLength: number;
  damage: { line: number; cause: string } | undefined;
}

const isHeader = (value: Record<string, unknown>): boolean =>
  typeof value.owner === "string" && isCount(value.schemaVersion) && isCount(value.first, 1);

/** The cause when `value` cannot be the line after `segment`'s last one; otherwise it is added. */
const addLine = (segment: Segment, value: Record<string, unknown> | undefined, first: number): string | undefined => {
  if (value === undefined) return "its checksum does not match";
  if (segment.header === undefined) {
    if (!isHeader(value)) return "it is not the header of a journal";
    segment.header = value as unknown as Header;
    return segment.header.first === first ? undefined : `it says it begins at commit ${segment.header.first}`;
  }
  const { sequence, changes } = value;
  if (!isCount(sequence, 1) || !Array.isArray(changes) || !changes.every(isChange)) return "it is not a commit";
  const expected = first + segment.commits.length;
  if (sequence !== expected) return `it holds commit ${sequence} where ${expected} belongs`;
  segment.commits.push({ sequence, changes });
  return undefined;
};

/**
 * Reads a journal file whose name says it begins at commit `first`. A last line without its newline is torn, since lines are written front to
 * back and acknowledged when they are whole; unless only its newline is wrong, then it was whole once and acknowledged.
 */
export const segmentOf = (bytes: Buffer, first: number): Segment => {
  const segment: Segment = { header: undefined, commits: [], goodLength: 0, tornLength: 0, damage: undefined };
  for (let line = 1; segment.goodLength < bytes.length; line++) {
    const end = bytes.indexOf(10, segment.goodLength);
    if (end === -1) {
      if (unsealed(bytes.subarray(segment.goodLength, -1)) !== undefined) segment.damage = { line, cause: "its end is not a newline" };
      segment.tornLength = bytes.length - segment.goodLength;
      return segment;
    }
    const cause = addLine(segment, unsealed(bytes.subarray(segment.goodLength, end)), first);
    if (cause !== undefined) {
      segment.damage = { line, cause };
      return segment;
    }
    segment.goodLength = end + 1;
  }
  return segment;
};
