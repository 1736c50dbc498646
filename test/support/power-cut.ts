import { basename, dirname } from "node:path";
import { bytesIn, descriptorIn, type SystemCall } from "./system-calls.js";

interface Inode {
  bytes: Buffer;
  /** What a sync that returned had seen; the rest may be lost. */
  durable: Buffer;
}

type Names = ReadonlyMap<string, Inode>;

/** File contents by name, as a disk may hold them after the power was cut. */
export type DiskImage = ReadonlyMap<string, Buffer>;

/** A folder at one moment: what is surely on the disk, and what may be. */
interface Moment {
  /** Whatever was not synced is lost: bytes and names. */
  least: DiskImage;
  /** Names came to the disk, bytes that were not synced did not. */
  names: DiskImage;
  /** Bytes came to the disk, names that were not synced did not. */
  bytes: DiskImage;
  /** Names came, and half of the bytes that were not synced. */
  torn: DiskImage;
  /** All of it came: what a kill leaves. */
  all: DiskImage;
}

const written = (bytes: Buffer, piece: Buffer, at: number): Buffer => {
  const whole = Buffer.alloc(Math.max(bytes.length, at + piece.length));
  bytes.copy(whole);
  piece.copy(whole, at);
  return whole;
};

const half = ({ bytes, durable }: Inode): Buffer => bytes.subarray(0, durable.length + Math.max(0, Math.floor((bytes.length - durable.length) / 2)));

const imageOf = (names: Names, content: (inode: Inode) => Buffer): DiskImage => new Map([...names].map(([name, inode]) => [name, content(inode)]));

/**
 * Follows what a process did in one folder and tells after each call what a power cut then could leave there. Taken for granted is only what POSIX
 * says: a file's bytes are durable when a sync that began after the write has returned, a name when a sync of its folder has.
 * `call`s in the order in which they had happened.
 */
export const openFolderModel = (folder: string) => {
  let names = new Map<string, Inode>();
  let durableNames: Names = new Map();
  const open = new Map<number, Inode | "folder">();
  /** What each inode and the folder were, by place in the trace, for syncs that began earlier than they ended. */
  const history: Array<{ place: number; names: Names; bytes: Map<Inode, Buffer> }> = [];

  const nameIn = (printed: string | undefined): string | undefined => {
    const path = bytesIn(printed)?.toString();
    return path !== undefined && dirname(path) === folder ? basename(path) : undefined;
  };
  const at = (place: number) => history.findLast((one) => one.place < place);

  const act: Readonly<Record<string, (call: SystemCall) => void>> = {
    openat: ({ args: [, path, flags = ""], result }) => {
      if (result < 0) return;
      if (bytesIn(path)?.toString() === folder) return void open.set(result, "folder");
      const name = nameIn(path);
      if (name === undefined) return void open.delete(result);
      const inode = names.get(name) ?? { bytes: Buffer.alloc(0), durable: Buffer.alloc(0) };
      if (flags.includes("O_TRUNC")) inode.bytes = Buffer.alloc(0);
      names.set(name, inode);
      open.set(result, inode);
    },
    close: ({ args: [fd] }) => void open.delete(descriptorIn(fd)),
    pwrite64: ({ args, result }) => {
      const inode = open.get(descriptorIn(args[0]));
      const piece = bytesIn(args[1])?.subarray(0, Math.max(0, result));
      if (inode === undefined || inode === "folder" || piece === undefined) return;
      inode.bytes = written(inode.bytes, piece, Number(args[3]));
    },
    ftruncate: ({ args: [fd, length], result }) => {
      const inode = open.get(descriptorIn(fd));
      if (inode !== undefined && inode !== "folder" && result === 0) inode.bytes = Buffer.from(inode.bytes.subarray(0, Number(length)));
    },
    fsync: ({ args: [fd], result, began }) => {
      const what = open.get(descriptorIn(fd));
      const then = at(began);
      if (what === undefined || then === undefined || result !== 0) return;
      if (what === "folder") durableNames = then.names;
      else what.durable = then.bytes.get(what) ?? what.durable;
    },
    rename: ({ args: [from, to], result }) => {
      const [old, name] = [nameIn(from), nameIn(to)];
      const inode = names.get(old ?? "");
      if (result !== 0 || old === undefined || name === undefined || inode === undefined) return;
      // Two names of one file: nothing happens (rename(2)).
      if (names.get(name) === inode) return;
      names.delete(old);
      names.set(name, inode);
    },
    link: ({ args: [from, to], result }) => {
      const inode = names.get(nameIn(from) ?? "");
      const name = nameIn(to);
      if (result === 0 && inode !== undefined && name !== undefined) names.set(name, inode);
    },
    unlink: ({ args: [path], result }) => {
      if (result === 0) names.delete(nameIn(path) ?? "");
    },
  };

  return {
    /** True when the call had anything to do with the folder. */
    call: (call: SystemCall): boolean => {
      const does = act[call.name === "fdatasync" ? "fsync" : call.name];
      if (!does) return false;
      names = new Map(names);
      does(call);
      history.push({ place: call.ended, names, bytes: new Map([...new Set(names.values())].map((inode) => [inode, inode.bytes])) });
      return true;
    },
    moment: (): Moment => ({
      least: imageOf(durableNames, ({ durable }) => durable),
      names: imageOf(names, ({ durable }) => durable),
      bytes: imageOf(durableNames, ({ bytes }) => bytes),
      torn: imageOf(names, half),
      all: imageOf(names, ({ bytes }) => bytes),
    }),
  };
};

/** The calls that change a folder or make it durable. */
export const folderCalls = ["openat", "close", "pwrite64", "ftruncate", "fsync", "fdatasync", "rename", "link", "unlink"];
/** Other ways to change files, which the model does not know: a trace that has one proves nothing. */
export const unknownCalls = [
  "renameat",
  "renameat2",
  "linkat",
  "unlinkat",
  "writev",
  "pwritev",
  "pwritev2",
  "copy_file_range",
  "sendfile",
  "io_uring_enter",
];
