// A Backlot opened as a library in a process of its own. The settings come as the first message; then `measure` is answered with what the
// process holds, and `close` with what it holds before and after the end; after that nothing keeps the process alive but its parent's channel.
import { readdirSync, readlinkSync } from "node:fs";
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

const measure = async () => {
  for (let round = 0; round < 3; round += 1) {
    globalThis.gc?.();
    await turn();
  }
  const { rss, heapUsed } = process.memoryUsage();
  return { rss, heapUsed, descriptors: descriptors(), resources: resources() };
};

const before = { descriptors: descriptors(), resources: resources() };
let backlot;
process.on("message", async (message) => {
  if (message.config) {
    const { startBacklot } = await import("#backlot/index.js");
    backlot = await startBacklot(message.config);
    process.send({ url: backlot.url, token: backlot.token });
  } else if (message === "measure") process.send(await measure());
  else if (message === "close") {
    await backlot.close();
    await turn();
    process.send({ before, after: { descriptors: descriptors(), resources: resources() } }, () => process.disconnect());
  }
});
