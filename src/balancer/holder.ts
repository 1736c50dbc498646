import { readdir, readFile, readlink } from "node:fs/promises";
import { endianness } from "node:os";
import { platform } from "node:process";
import { parseIpv4 } from "../kernel/addresses.js";

const inHex = (value: number, digits: number): string => value.toString(16).toUpperCase().padStart(digits, "0");

/** An IPv4 address as the kernel prints it: the number that its four bytes are in this machine's memory. Undefined for others. */
const kernelForm = (address: string): string | undefined => {
  const value = parseIpv4(address);
  if (value === undefined) return undefined;
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return inHex(endianness() === "LE" ? bytes.readUInt32LE() : value, 8);
};

/** Inodes of sockets that listen on a port, there or on every address, from `/proc/net/tcp` and `tcp6` (state 0A, port in hex behind the colon). */
const listeningInodes = (table: string, address: string, port: number): ReadonlySet<string> => {
  const own = kernelForm(address);
  const isThere = (place = ""): boolean => {
    const [local = "", localPort] = place.split(":");
    return localPort === inHex(port, 4) && (own === undefined || local.endsWith(own) || /^0+$/.test(local));
  };
  const rows = table.split("\n").map((line) => line.trim().split(/\s+/));
  return new Set(rows.filter((row) => isThere(row[1]) && row[3] === "0A").map((row) => row[9] ?? ""));
};

/**
 * Who listens on an address and port, as `nginx (pid 12)`. Only on Linux, and only when the owner's descriptors may be read; `undefined` otherwise, since
 * the answer is a courtesy.
 */
export const portHolder = async (address: string, port: number): Promise<string | undefined> => {
  if (platform !== "linux") return undefined;
  const tables = await Promise.all(["/proc/net/tcp", "/proc/net/tcp6"].map((path) => readFile(path, "utf8").catch(() => "")));
  const inodes = listeningInodes(tables.join("\n"), address, port);
  if (inodes.size === 0) return undefined;
  for (const pid of (await readdir("/proc").catch(() => [])).filter((name) => /^\d+$/.test(name))) {
    for (const fd of await readdir(`/proc/${pid}/fd`).catch(() => [])) {
      const inode = /^socket:\[(\d+)\]$/.exec(await readlink(`/proc/${pid}/fd/${fd}`).catch(() => ""))?.[1];
      if (inode === undefined || !inodes.has(inode)) continue;
      const name = (await readFile(`/proc/${pid}/comm`, "utf8").catch(() => "")).trim();
      return pid === String(process.pid) ? "another listener of this process" : `${name || "a process"} (pid ${pid})`;
    }
  }
  return undefined;
};
