import { createHash } from "node:crypto";
import { once } from "node:events";
import { rm, stat } from "node:fs/promises";
import { connect, createServer, type Server } from "node:net";
import { join } from "node:path";
import type { Disposable } from "../kernel/closers.js";
import { cannotStart, reasonOf } from "../kernel/fault.js";

/** How long the holder of a lock may take to tell its process id: it may be stopped, or busy. */
const HOLDER_ANSWERS_MS = 1_000;

/**
 * `sun_path` of a Unix socket address on Linux, in bytes. The name fills it: Node 20 pads a shorter one with zeros and Node 22 does not
 * (measured), so the two would not see each other's lock.
 */
const SUN_PATH_BYTES = 108;

const listening = async (server: Server, path: string): Promise<void> => {
  server.listen(path);
  await once(server, "listening");
};

/** The process id the holder tells, `undefined` when it tells none in time; rejects when nobody holds the socket. */
const holderOf = (path: string): Promise<string | undefined> =>
  new Promise((resolve, reject) => {
    const socket = connect(path);
    let told = "";
    socket.setTimeout(HOLDER_ANSWERS_MS, () => socket.destroy());
    socket.on("data", (bytes) => {
      told += bytes;
    });
    socket.on("error", reject);
    socket.on("close", () => resolve(/^\d+$/.test(told) ? told : undefined));
  });

const held = async (server: Server, folder: string, path: string, takeOver: () => Promise<boolean>): Promise<void> => {
  try {
    await listening(server, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EADDRINUSE") {
      throw cannotStart(`The state folder ${folder} cannot be locked (${reasonOf(error)}); use another state folder.`, error);
    }
    if (await takeOver()) return held(server, folder, path, async () => false);
    const pid = await holderOf(path).catch(() => undefined);
    const holder = pid === undefined ? "another process" : `process ${pid}`;
    throw cannotStart(`The state folder ${folder} is in use by ${holder}; stop that Backlot, or start this one with another state folder.`, error);
  }
};

/**
 * One process holds a state folder. On Linux the lock is a socket in the abstract namespace, named after the folder's device and inode (one
 * folder has many paths): binding is atomic and the kernel frees it however the process ends. It is seen by all processes of one network
 * namespace. Elsewhere it is a socket file in the folder, taken over when nobody answers on it.
 * Throws `Fault("startup")` naming the folder and the holder.
 */
export const lockFolder = async (folder: string, platform: NodeJS.Platform = process.platform): Promise<Disposable> => {
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.end(String(process.pid), () => socket.destroy());
  });
  server.unref();
  if (platform === "linux") {
    const { dev, ino } = await stat(folder, { bigint: true });
    const hash = createHash("sha256").update(`${dev}:${ino}`).digest("hex");
    await held(server, folder, `\0backlot-state-${hash}`.padEnd(SUN_PATH_BYTES, "-"), async () => false);
  } else {
    const path = join(folder, "lock.sock");
    await held(server, folder, path, async () => {
      const alive = await holderOf(path).then(
        () => true,
        () => false,
      );
      if (!alive) await rm(path, { force: true });
      return !alive;
    });
  }
  return {
    close: () => new Promise((resolve) => server.close(() => resolve())),
  };
};
