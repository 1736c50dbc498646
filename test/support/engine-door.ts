import { mkdtempSync, rmSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A socket of ours in front of the engine's, which judges requests as an authorization plugin does; whoever comes through it meets the real engine. */
export interface EngineDoor {
  socketPath: string;
  /** For `DOCKER_HOST`. */
  host: string;
  /**
   * From the next request of this kind on nothing comes through any more, as if whoever asks had been killed: at once (`asked`), or when the
   * engine has done it (`done`). Resolves then.
   */
  shutAt(method: string, path: RegExp, when: "asked" | "done"): Promise<void>;
  /** From now on such requests wait here; `held` says how many do, and `letGo` has them go on. The engine answers all others meanwhile. */
  hold(path: RegExp): { held(): number; letGo(): void };
  close(): Promise<void>;
}

/** A container with this capability is refused, as many an authorization plugin does, and everything else is passed on. */
const refused = "SYS_ADMIN";
const refusal = JSON.stringify({ message: `authorization denied by plugin guard: ${refused} is not to be had` });

/** The one request that a connection of a driver's carries, once enough of it is there to judge it. */
const requestIn = (text: Buffer): { method: string; path: string; body: string } | undefined => {
  const end = text.indexOf("\r\n\r\n");
  if (end < 0) return undefined;
  const head = text.subarray(0, end).toString();
  const [method = "", path = ""] = head.split(" ");
  if (method !== "POST" || !/\/containers\/create\b/.test(path)) return { method, path, body: "" };
  const length = Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1] ?? 0);
  return text.length < end + 4 + length ? undefined : { method, path, body: text.subarray(end + 4).toString() };
};

export const openEngineDoor = async (): Promise<EngineDoor> => {
  const before = process.env.DOCKER_HOST;
  const engine = before?.startsWith("unix://") ? before.slice("unix://".length) : "/var/run/docker.sock";
  const folder = mkdtempSync(join(tmpdir(), "backlot-door-"));
  const socketPath = join(folder, "engine.sock");
  const sockets = new Set<Socket>();
  const kept = (socket: Socket): Socket => {
    sockets.add(socket);
    return socket.on("error", () => socket.destroy()).on("close", () => sockets.delete(socket));
  };
  let isShut = false;
  let last: { method: string; path: RegExp; when: "asked" | "done"; shut(): void } | undefined;
  const shut = (): void => {
    isShut = true;
    for (const socket of sockets) socket.destroy();
    last?.shut();
  };

  const holds = new Set<{ path: RegExp; waiting: Array<() => void> }>();

  const passOn = (near: Socket, text: Buffer, isLast: boolean): void => {
    const far = kept(connect({ path: engine, allowHalfOpen: true }));
    near.on("close", () => far.destroy());
    far.on("close", () => near.destroy());
    far.write(text);
    near.pipe(far);
    if (isLast) far.once("data", shut);
    else far.pipe(near);
  };

  const judge = (near: Socket): void => {
    if (isShut) return void near.destroy();
    kept(near);
    let text = Buffer.alloc(0);
    const read = (chunk: Buffer): void => {
      text = Buffer.concat([text, chunk]);
      const asked = requestIn(text);
      if (!asked) return;
      near.off("data", read).pause();
      const isLast = last !== undefined && asked.method === last.method && last.path.test(asked.path);
      if (isLast && last?.when === "asked") shut();
      else if (asked.body.includes(`"${refused}"`)) {
        const fields = `Content-Type: application/json\r\nContent-Length: ${refusal.length}\r\nConnection: close`;
        near.end(`HTTP/1.1 403 Forbidden\r\n${fields}\r\n\r\n${refusal}`);
      } else {
        const hold = [...holds].find(({ path }) => path.test(asked.path));
        if (hold) hold.waiting.push(() => passOn(near, text, isLast));
        else passOn(near, text, isLast);
      }
    };
    near.on("data", read);
  };

  const server = createServer({ allowHalfOpen: true }, judge);
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(socketPath, () => resolve()));
  return {
    socketPath,
    host: `unix://${socketPath}`,
    shutAt: (method, path, when) =>
      new Promise((resolve) => {
        last = { method, path, when, shut: resolve };
      }),
    hold: (path) => {
      const hold = { path, waiting: [] as Array<() => void> };
      holds.add(hold);
      return {
        held: () => hold.waiting.length,
        letGo: () => {
          holds.delete(hold);
          for (const go of hold.waiting.splice(0)) go();
        },
      };
    },
    close: async () => {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const socket of sockets) socket.destroy();
      await closed;
      rmSync(folder, { recursive: true, force: true });
    },
  };
};
