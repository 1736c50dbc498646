import { dockerWorld } from "./containers.js";
import { type CrashFigures, crashLoop } from "./crash-loop.js";
import { processWorld } from "./processes.js";

export const onProcesses = (cycles: number, seed: number): Promise<CrashFigures> =>
  crashLoop({ runtime: "process", cycles, seed, openWorld: processWorld, writers: 4, mostInstances: 2, latestMs: 700, withinMs: 30_000 });

export const onDocker = (cycles: number, seed: number): Promise<CrashFigures> =>
  crashLoop({ runtime: "docker", cycles, seed, openWorld: dockerWorld, writers: 3, mostInstances: 2, latestMs: 2_500, withinMs: 90_000 });
