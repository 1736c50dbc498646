import { statfs } from "node:fs/promises";
import type { Disposable } from "../kernel/closers.js";
import { Fault } from "../kernel/fault.js";
import type { Cloud } from "../resources/cloud.js";
import type { Notices } from "../resources/notifications/notices.js";
import type { RuntimeDriver } from "../runtime/driver.js";
import { openLoop } from "./loop.js";

interface SurroundingsOptions {
  cloud: Cloud;
  driver: Pick<RuntimeDriver, "name" | "outage" | "unreached">;
  stateFolder: string;
  onFailure(key: number, error: unknown): void;
}

/** How often the runtime and the disk are asked, in real ms: a stopped engine is told within this time. */
const askEveryMs = 2_000;
const leastFreeBytes = 512 * 1024 * 1024;

type Said = Parameters<Notices["note"]>[1];

/** What to say of a runtime that does not answer. Pure. */
const outageNotice = (runtime: string, reason: string | undefined): Said =>
  reason === undefined
    ? undefined
    : {
        label: `The ${runtime} runtime does not answer`,
        message: `Nothing can be created, booted, stopped or deleted until it does, and instances are shown as they were last seen. ${reason}`,
        type: "outage",
        severity: "critical",
        entity: null,
      };

/** What to say when the runtime cannot even be asked. Pure. */
const lackNotice = (runtime: string, reason: string | undefined): Said =>
  reason === undefined
    ? undefined
    : {
        label: `The ${runtime} runtime cannot be asked`,
        message: `Nothing can be created, booted, stopped or deleted, and instances are shown as they were last seen. ${reason}`,
        type: "notice",
        severity: "critical",
        entity: null,
      };

/** What to say of regions whose private addresses are out of reach. Pure. */
const unreachedNotice = (unreached: ReturnType<RuntimeDriver["unreached"]>): Said =>
  unreached.length === 0
    ? undefined
    : {
        label: "Private addresses are out of reach",
        message: `Balancers and health checks do not reach the instances of ${unreached.map(({ region }) => region).join(", ")}: ${unreached.map(({ reason }) => reason.replace(/\.$/, "")).join("; ")}.`,
        type: "notice",
        severity: "critical",
        entity: null,
      };

/** What to say of the disk that the state is on: critical when the next commit may fail. Pure. */
export const diskNotice = (freeBytes: number, folder: string): Said => {
  if (freeBytes >= leastFreeBytes) return undefined;
  const mib = Math.floor(freeBytes / 1024 ** 2);
  return {
    label: "The disk is nearly full",
    message: `${mib} MiB are free where the state is kept (${folder}). When it is full every change is refused; make room there.`,
    type: "notice",
    severity: mib < 16 ? "critical" : "major",
    entity: null,
  };
};

/** How long what happened to the balancers is worth knowing, in real ms: it is over when it is told. */
const toldForMs = 15 * 60_000;

/** What to say when the thread that carries all balancers was lost. Pure. */
export const balancersNotice = (reason: string, nowMs: number): Said => ({
  label: "The balancers were interrupted",
  message: reason,
  type: "notice",
  severity: "major",
  entity: null,
  untilMs: nowMs + toldForMs,
});

/** `outage`: why the runtime does not answer; `lack`: why it could not be asked. */
const ask = async (driver: Pick<RuntimeDriver, "outage">): Promise<{ outage?: string | undefined; lack?: string }> => {
  try {
    return { outage: await driver.outage() };
  } catch (error) {
    if (error instanceof Fault) return { lack: error.message };
    throw error;
  }
};

/** Looks at what Backlot stands on, and tells the account's notifications when it is in a bad way. */
export const openSurroundings = ({ cloud, driver, stateFolder, onFailure }: SurroundingsOptions): Disposable => {
  const loop = openLoop({
    clock: cloud.clock,
    concurrency: 1,
    onFailure,
    reconcile: async () => {
      const { outage, lack } = await ask(driver);
      // What could not be asked leaves what was told of it.
      if (lack === undefined) cloud.notices.note("runtime", outageNotice(driver.name, outage));
      cloud.notices.note("lack", lackNotice(driver.name, lack));
      // Without its runtime nothing is reached, and that is told already.
      cloud.notices.note("unreached", unreachedNotice((outage ?? lack) === undefined ? driver.unreached() : []));
      const { bavail, bsize } = await statfs(stateFolder);
      cloud.notices.note("disk", diskNotice(bavail * bsize, stateFolder));
      return askEveryMs;
    },
  });
  loop.poke(1);
  return loop;
};
