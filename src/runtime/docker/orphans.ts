import type { EngineConnection } from "./connection.js";
import { carriedVolumes } from "./container.js";
import { asking, openEngine, tolerating } from "./engine.js";
import { labels, thisHost } from "./labels.js";
import { loopsOf, releaseLoop } from "./loops.js";

/** Everything on the engine that carries one Backlot's labels. */
export interface OwnedThings {
  owner: string;
  /** Where that Backlot keeps its state; "" on a thing that does not say. */
  stateFolder: string;
  /** The machine that folder is on, when it is not this one. */
  elsewhere: string | undefined;
  containers: Array<{ id: string; name: string; running: boolean }>;
  networks: Array<{ id: string; name: string }>;
  /** Copies of disks, and images made from them, by their tag, or by their id when they have none. Guest images belong to no one Backlot. */
  images: string[];
  /** Engine volumes, by name. */
  volumes: string[];
}

/** What every Backlot has on this engine, by owner; whether an owner still lives is the caller's to tell. */
export const ownedThings = async (connection?: EngineConnection): Promise<OwnedThings[]> => {
  const docker = openEngine(connection);
  const label = [labels.owner];
  const [containers, networks, images, { Volumes }] = await asking("list what Backlot made", () =>
    Promise.all([
      docker.listContainers({ all: true, filters: { label } }),
      docker.listNetworks({ filters: { label } }),
      docker.listImages({ filters: { label } }),
      docker.listVolumes({ filters: { label } }),
    ]),
  );
  const here = thisHost();
  const owners = new Map<string, OwnedThings>();
  const of = (on: Record<string, string>): OwnedThings => {
    const owner = on[labels.owner] ?? "";
    const stateFolder = on[labels.state] ?? "";
    const host = on[labels.host] ?? here;
    const key = `${owner}\0${stateFolder}\0${host}`;
    const elsewhere = host === here ? undefined : host;
    const things = owners.get(key) ?? { owner, stateFolder, elsewhere, containers: [], networks: [], images: [], volumes: [] };
    owners.set(key, things);
    return things;
  };
  for (const row of containers) {
    const things = of(row.Labels);
    things.containers.push({ id: row.Id, name: (row.Names[0] ?? "").replace(/^\//, ""), running: row.State === "running" });
    things.volumes.push(...carriedVolumes(row.Labels));
  }
  for (const row of networks) of(row.Labels ?? {}).networks.push({ id: row.Id, name: row.Name });
  for (const row of images) {
    // Engines before 25 name what has no tag `<none>:<none>`, which is no name: two such images share it, and it removes neither.
    const tags = (row.RepoTags ?? []).filter((tag) => tag !== "<none>:<none>");
    of(row.Labels ?? {}).images.push(...(tags.length > 0 ? tags : [row.Id]));
  }
  for (const row of Volumes ?? []) of(row.Labels ?? {}).volumes.push(row.Name);
  return [...owners.values()];
};

/** Removes containers, copies of their disks, networks, then the volumes that were mounted in them with what loop devices are left of them. What is gone already is success; a network that somebody else's container uses stays, as a Fault. */
export const removeOwned = async (things: OwnedThings, connection?: EngineConnection): Promise<void> => {
  const docker = openEngine(connection);
  await asking(`remove what the Backlot ${things.owner} left`, async () => {
    for (const { id } of things.containers) {
      await tolerating([404, 409], () => docker.getContainer(id).remove({ force: true, v: true }));
      await tolerating([404], () => docker.getContainer(id).wait({ condition: "removed" }));
    }
    // 409: another image rests on it, and takes it along when it goes, or somebody's own container does.
    for (const image of things.images) await tolerating([404, 409], () => docker.getImage(image).remove());
    for (const { id } of things.networks) await tolerating([404], () => docker.getNetwork(id).remove());
    // Before their volumes, by whose labels they are found.
    for (const device of await loopsOf(things.volumes)) await releaseLoop(device);
    for (const name of things.volumes) await tolerating([404], () => docker.getVolume(name).remove());
  });
};
