import { Agent } from "node:http";
import { createRequire } from "node:module";
import type Docker from "dockerode";

/** How to reach the engine; absent, the places the `docker` command looks at are used (`DOCKER_HOST`, else the usual sockets). */
export type EngineConnection = Docker.DockerOptions;

const require = createRequire(import.meta.url);

/** Has `exports` stand for a module before anybody asks for it. A dockerode that has no such file any more is loaded as it is. */
const answerFor = (resolve: () => string, exports: (path: string) => unknown): void => {
  try {
    const path = resolve();
    const stand: Pick<NodeJS.Module, "id" | "filename" | "loaded" | "exports"> = { id: path, filename: path, loaded: true, exports: exports(path) };
    require.cache[path] ??= stand as NodeJS.Module;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "MODULE_NOT_FOUND") throw error;
  }
};

/**
 * dockerode 5 loads a gRPC server as soon as it is loaded itself: 4.5 MB and 50 ms of every start (measured, Node 20). It serves BuildKit's
 * sessions and nothing else (`buildImage` with `version: "2"`, lib/docker.js), and we build with the classic builder.
 */
answerFor(
  () => require.resolve("dockerode/lib/session.js"),
  () => () => {
    throw new Error("BuildKit sessions are left out (runtime/docker/connection.ts).");
  },
);

/** Its ssh client, 12 MB, is loaded when an engine is reached that way (`DOCKER_HOST=ssh://…`), and not before. */
answerFor(
  () => createRequire(require.resolve("dockerode")).resolve("docker-modem/lib/ssh.js"),
  (path) =>
    (...words: unknown[]) => {
      delete require.cache[path];
      return (require(path) as (...words: unknown[]) => unknown)(...words);
    },
);

const Engine = require("dockerode") as typeof Docker;

/**
 * A handle on the engine; nothing is asked of it yet. Over a local socket no connection is kept for the next request: a new one costs next to
 * nothing, and Node's own agent would hold the last one for seconds after whoever used it was closed.
 */
export const connectEngine = (connection?: EngineConnection): Docker => {
  const engine = new Engine(connection);
  const modem = engine.modem as { socketPath?: unknown; agent?: Agent };
  if (modem.socketPath) modem.agent ??= new Agent({ keepAlive: false });
  return engine;
};
