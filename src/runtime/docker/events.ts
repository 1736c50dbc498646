import type { Readable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import type Docker from "dockerode";
import type { Disposable } from "../../kernel/closers.js";
import { reasonOf } from "../../kernel/fault.js";
import { guestState } from "./guest-files.js";
import { jsonLines } from "./json-lines.js";
import { labels } from "./labels.js";

const tellingEvents = ["create", "start", "die", "oom", "pause", "unpause", "destroy"];
const leastWaitMs = 100;
const mostWaitMs = 5000;
/** What docker/guest/backlot-boot prints. A script may print it too: that costs one hint too many. */
const scriptEnd = "backlot: deploy script ended";
const longestLine = 200;

interface EngineEvent {
  Action?: string;
  Actor?: { ID?: string; Attributes?: Record<string, string> };
}

export interface Watched {
  docker: Docker;
  owner: string;
  hint(instance: number): void;
  onProblem(reason: string): void;
}

/**
 * Follows the engine's events about our machines until closed, over restarts of the engine. After each (re)connection every machine
 * is hinted once, for what was missed. While a deploy script runs its container's log is followed: no event tells of its end.
 */
export const watchEngine = ({ docker, owner, hint, onProblem }: Watched): Disposable => {
  const closing = new AbortController();
  const streams = new Set<Readable>();
  const following = new Map<string, Promise<void>>();

  const kept = (stream: Readable): Readable => {
    streams.add(stream);
    stream.once("close", () => streams.delete(stream));
    // A broken stream ends its reader's loop; without a listener it would end the process.
    stream.on("error", () => {});
    if (closing.signal.aborted) stream.destroy();
    return stream;
  };

  const followScript = async (id: string, instance: number): Promise<void> => {
    const container = docker.getContainer(id);
    if ((await guestState(container)).exitCode !== null) return;
    const wanted = { follow: true as const, stdout: true, stderr: true, tail: 100, abortSignal: closing.signal };
    const log = kept((await container.logs(wanted)) as unknown as Readable);
    let tail = "";
    for await (const chunk of log) {
      tail += (chunk as Buffer).toString("latin1");
      if (tail.includes(scriptEnd)) {
        log.destroy();
        break;
      }
      tail = tail.slice(-longestLine);
    }
    if (!closing.signal.aborted) hint(instance);
  };

  const follow = (id: string, instance: number) => {
    if (following.has(id) || closing.signal.aborted) return;
    const run = followScript(id, instance)
      .catch(() => {}) // gone or cut off: an event or the next connection tells
      .finally(() => following.delete(id));
    following.set(id, run);
  };

  const hintAll = async () => {
    for (const info of await docker.listContainers({ all: true, filters: { label: [`${labels.owner}=${owner}`, labels.instance] } })) {
      const instance = Number(info.Labels[labels.instance]);
      hint(instance);
      if (info.State === "running" && info.Labels[labels.script]) follow(info.Id, instance);
    }
  };

  const readEvents = async (onConnected: () => void): Promise<void> => {
    const filters = { type: ["container"], event: tellingEvents, label: [`${labels.owner}=${owner}`, labels.instance] };
    const stream = kept((await docker.getEvents({ filters, abortSignal: closing.signal } as Docker.GetEventsOptions)) as Readable);
    onConnected();
    await hintAll();
    for await (const event of jsonLines<EngineEvent>(stream)) {
      const attributes = event.Actor?.Attributes ?? {};
      const instance = Number(attributes[labels.instance]);
      if (closing.signal.aborted) return;
      hint(instance);
      if (event.Action === "start" && attributes[labels.script] && event.Actor?.ID) follow(event.Actor.ID, instance);
    }
  };

  const run = async () => {
    let waitMs = leastWaitMs;
    while (!closing.signal.aborted) {
      let reason = "the engine ended it";
      await readEvents(() => {
        waitMs = leastWaitMs;
      }).catch((error) => {
        reason = reasonOf(error);
      });
      if (closing.signal.aborted) return;
      if (waitMs === leastWaitMs)
        onProblem(`The stream of the Docker engine's events broke (${reason}); it is opened again when the engine answers.`);
      await delay(waitMs, undefined, { signal: closing.signal }).catch(() => {});
      waitMs = Math.min(waitMs * 2, mostWaitMs);
    }
  };
  const running = run();

  return {
    close: async () => {
      closing.abort();
      for (const stream of streams) stream.destroy();
      await running;
      await Promise.all(following.values());
    },
  };
};
