import { reasonOf } from "./kernel/fault.js";
import { stateOwner } from "./store/state-owner.js";

/** One thing that carries our label and has no owner any more. */
export interface Leftover {
  /** For people, e.g. `container backlot-1a2b3c4d-3`. */
  what: string;
  removed: boolean;
  /** Why it could not be removed. */
  reason?: string;
  /** It was left alone, for nobody here can tell whether it has an owner. */
  unknown?: true;
  /** Nobody could look whether there is anything; then `what` is a place. */
  unseen?: true;
}

/** Whether the folder that a thing names is here, and is its Backlot's. */
const hasOwner = async ({ owner, stateFolder }: { owner: string; stateFolder: string }): Promise<boolean> => {
  const found = await stateOwner(stateFolder);
  return typeof found === "object" && found.owner === owner;
};

/** Whether the Backlot that made a thing is no more: its state folder is gone, or another's. A thing that names no folder may be anybody's. */
export const hasNoOwner = async ({ owner, stateFolder }: { owner: string; stateFolder: string }): Promise<boolean> => {
  if (stateFolder === "") return false;
  const found = await stateOwner(stateFolder);
  return found === "gone" || (found !== "unreadable" && found.owner !== owner);
};

const removal = async (whats: readonly string[], dryRun: boolean, remove: () => Promise<void>): Promise<Leftover[]> => {
  if (dryRun) return whats.map((what) => ({ what, removed: false }));
  try {
    await remove();
    return whats.map((what) => ({ what, removed: true }));
  } catch (error) {
    return whats.map((what) => ({ what, removed: false, reason: reasonOf(error) }));
  }
};

const cleanEngine = async (dryRun: boolean): Promise<Leftover[]> => {
  const { engineAnswers } = await import("./runtime/docker/engine.js");
  const answer = await engineAnswers();
  // Without an engine nothing of ours can be on one; with one that does not answer nobody knows.
  if ("reason" in answer) return answer.absent ? [] : [{ what: "the Docker engine", removed: false, unseen: true, reason: answer.reason }];
  const { ownedThings, removeOwned } = await import("./runtime/docker/orphans.js");
  const left: Leftover[] = [];
  const { loopsOf } = await import("./runtime/docker/loops.js");
  for (const things of await ownedThings()) {
    if (things.elsewhere !== undefined) {
      // A container has another name when it is made anew; its state folder goes on, and says whose things these are.
      if (await hasOwner(things)) continue;
      const { containers, images, volumes, networks } = things;
      const what = `${containers.length + images.length + volumes.length + networks.length} things of the Backlot ${things.owner}`;
      const reason = `its state is in ${things.stateFolder} of ${things.elsewhere}, so only a clean there can tell whether it is over; docker rm -f $(docker ps -aq --filter label=io.backlot.owner=${things.owner}) removes its machines`;
      left.push({ what, removed: false, reason, unknown: true });
      continue;
    }
    if (!(await hasNoOwner(things))) continue;
    const whats = [
      ...things.containers.map(({ name, running }) => `container ${name} (${running ? "running" : "stopped"}, state ${things.stateFolder})`),
      ...things.images.map((tag) => `image ${tag} (state ${things.stateFolder})`),
      ...things.volumes.map((name) => `volume ${name} with its data (state ${things.stateFolder})`),
      ...things.networks.map(({ name }) => `network ${name} (state ${things.stateFolder})`),
    ];
    const loops = await loopsOf(things.volumes);
    left.push(
      ...(await removal([...whats, ...loops.map((device) => `loop device ${device} (state ${things.stateFolder})`)], dryRun, () =>
        removeOwned(things),
      )),
    );
  }
  return left;
};

const cleanProcesses = async (dryRun: boolean): Promise<Leftover[]> => {
  const { orphans, removeOrphan } = await import("./runtime/process/orphans.js");
  const left: Leftover[] = [];
  for (const orphan of await orphans(hasNoOwner)) {
    const whats = [`machine of instance ${orphan.instance}, state ${orphan.stateFolder}, processes ${orphan.pids.join(" ")}`];
    left.push(...(await removal(whats, dryRun, () => removeOrphan(orphan))));
  }
  return left;
};

/** `backlot clean`: removes what carries our labels and has no owner any more, on the engine and among the processes of this machine. */
export const cleanMachine = async ({ dryRun }: { dryRun: boolean }): Promise<Leftover[]> => [
  ...(await cleanEngine(dryRun)),
  ...(process.platform === "linux" ? await cleanProcesses(dryRun) : []),
];
