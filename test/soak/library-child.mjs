// A Backlot opened as a library in a process of its own. The settings come as the first message; then `measure` is answered with what the
// process holds, and `close` with what it holds before and after the end; after that nothing keeps the process alive but its parent's channel.
import { readdirSync, readlinkSync } from "node:fs";
import { Session } from "node:inspector/promises";
import { setImmediate as turn } from "node:timers/promises";

const counted = (things) => {
  const counts = {};
  for (const thing of things) counts[thing] = (counts[thing] ?? 0) + 1;
  return counts;
};

const descriptors = () =>
  counted(
    readdirSync("/proc/self/fd").flatMap((fd) => {
      try {
        return readlinkSync(`/proc/self/fd/${fd}`)
          .replace(/:.*$/, "")
          .replace(/^\/.*$/, "file");
      } catch {
        return []; // the folder that was being read
      }
    }),
  );

const resources = () => counted(process.getActiveResourcesInfo().filter((name) => !["PipeWrap", "Immediate"].includes(name)));

/** Garbage of the other threads counts as well: it is in the process's memory, and a thread that is idle leaves it there. */
const collectInThreads = async () => {
  const session = new Session();
  session.connect();
  const threads = [];
  const collected = new Map();
  session.on("NodeWorker.attachedToWorker", ({ params }) => threads.push(params.sessionId));
  session.on("NodeWorker.receivedMessageFromWorker", ({ params }) => collected.get(params.sessionId)());
  await session.post("NodeWorker.enable", { waitForDebuggerOnStart: false });
  await Promise.all(
    threads.map(async (sessionId) => {
      const done = new Promise((resolve) => collected.set(sessionId, resolve));
      await session.post("NodeWorker.sendMessageToWorker", { sessionId, message: '{"id":1,"method":"HeapProfiler.collectGarbage"}' });
      await done;
    }),
  );
  await session.post("NodeWorker.disable");
  session.disconnect();
};

const measure = async () => {
  for (let round = 0; round < 3; round += 1) {
    globalThis.gc?.();
    await turn();
  }
  await collectInThreads();
  const { rss, heapUsed } = process.memoryUsage();
  return { rss, heapUsed, descriptors: descriptors(), resources: resources() };
};

const before = { descriptors: descriptors(), resources: resources() };
let backlot;
process.on("message", async (message) => {
  if (message.config) {
    const { openCloud } = await import("#backlot/main.js");
    backlot = await openCloud(message.config);
    process.send({ url: backlot.url, token: backlot.token });
  } else if (message === "measure") process.send(await measure());
  else if (message === "close") {
    await backlot.close();
    await turn();
    process.send({ before, after: { descriptors: descriptors(), resources: resources() } }, () => process.disconnect());
  }
});
