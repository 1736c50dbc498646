import { readdir, readFile, readlink } from "node:fs/promises";
import { platform } from "node:process";

/** Inodes of sockets that listen on `port`, from `/proc/net/tcp` (state 0A, port in hex behind the colon). */
const listeningInodes = (table: string, port: number): ReadonlySet<string> => {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  const rows = table.split("\n").map((line) => line.trim().split(/\s+/));
  return new Set(rows.filter((row) => row[1]?.endsWith(suffix) && row[3] === "0A").map((row) => row[9] ?? ""));
};

/**
 * Who listens on a port, as `nginx (pid 12)`. Only on Linux, and only when the owner's descriptors may be read; `undefined` otherwise, since
 * the answer is a courtesy.
 */
export const portHolder = async (port: number): Promise<string | undefined> => {
  if (platform !== "linux") return undefined;
  const tables = await Promise.all(["/proc/net/tcp", "/proc/net/tcp6"].map((path) => readFile(path, "utf8").catch(() => "")));
  const inodes = listeningInodes(tables.join("\n"), port);
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
