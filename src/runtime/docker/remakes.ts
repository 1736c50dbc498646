import { randomUUID } from "node:crypto";
import type Docker from "dockerode";
import { carriedVolumes, type EngineMounts, engineMounts, mountRequest, type SeenContainer } from "./container.js";
import { asking, statusOf, tolerating } from "./engine.js";
import { jsonLines } from "./json-lines.js";
import { isVolumeName, labels, nameSafe, type Owner, ownerLabels } from "./labels.js";

const repository = "backlot/remade";

/** An image of more layers than this is made one layer before it grows further: the engine takes 125, and what was deleted stays in those below. */
const mostLayers = 40;

/** Machines made anew from their own disks: a container's mounts are fixed when it is made. */
export interface Remakes {
  /**
   * The same machine with these engine volumes of ours mounted instead: name, labels, limits, networks, addresses, and all that is on its disk.
   * It must be stopped, and is never started here. Until the new one is there the old one is; a crash in between leaves both, and `settle` tells.
   */
  remake(container: SeenContainer, mounts: EngineMounts): Promise<SeenContainer>;
  /** One container a file system, the one that goes on. A crash may have left two, and the other is removed. */
  settle(containers: readonly SeenContainer[]): Promise<SeenContainer[]>;
  /** What rests with a machine that is gone: its image, and its carried volumes. What something still uses stays. */
  drop(container: SeenContainer): Promise<void>;
  /** Removes the images, and carried volumes, that a crash left without their machine. */
  sweep(): Promise<void>;
}

/** Made of a disk, in the order that they were made in; the engine's clock. */
interface Made {
  container: SeenContainer;
  createdAt: number;
  isLive: boolean;
  finishedAt: number;
}

export const engineRemakes = (docker: Docker, owner: Owner, layers = mostLayers): Remakes => {
  const removeVolumes = async (names: readonly string[]): Promise<void> => {
    for (const name of names) await tolerating([404, 409], () => docker.getVolume(name).remove());
  };

  /** False: a machine rests on it. */
  const removeImage = async (tag: string): Promise<boolean> => {
    let isGone = true;
    await tolerating([404], () =>
      docker
        .getImage(tag)
        .remove()
        .catch((error) => {
          if (statusOf(error) !== 409) throw error;
          isGone = false;
        }),
    );
    return isGone;
  };

  /** One layer more, or all of it in one. What is mounted is not in it either way. */
  const keepDisk = async (box: Docker.Container, image: string, tag: string, carried: string): Promise<void> => {
    const [repo, name] = tag.split(":");
    const stays = { ...ownerLabels(owner), [labels.remade]: "yes", [labels.carried]: carried };
    const changes = Object.entries(stays).map(([label, value]) => `LABEL ${label}=${JSON.stringify(value)}`);
    const { Layers } = (await docker.getImage(image).inspect()).RootFS;
    if ((Layers?.length ?? 0) <= layers) return void (await box.commit({ repo, tag: name, pause: true, changes } as never));
    const answer = await docker.importImage((await box.export()) as never, { repo, tag: name, changes });
    for await (const line of jsonLines<{ error?: string }>(answer as NodeJS.ReadableStream)) if (line.error) throw new Error(line.error.trim());
  };

  const makeFrom = async (
    tag: string,
    { Config, HostConfig, NetworkSettings }: Docker.ContainerInspectInfo,
    name: string,
    mounts: EngineMounts,
    carried: string,
  ): Promise<string> => {
    const places = Object.entries(NetworkSettings.Networks).map(([network, { IPAMConfig }]) => ({
      network,
      settings: IPAMConfig ? { IPAMConfig } : {},
    }));
    const [first, ...others] = places;
    const made = await docker.createContainer({
      ...Config,
      name,
      Image: tag,
      Labels: { ...Config.Labels, [labels.remade]: "yes", [labels.carried]: carried },
      HostConfig: { ...HostConfig, Mounts: mountRequest(mounts), ...(first ? { NetworkMode: first.network } : {}) },
      NetworkingConfig: { EndpointsConfig: first ? { [first.network]: first.settings } : {} },
    } as Docker.ContainerCreateOptions);
    for (const { network, settings } of others) await docker.getNetwork(network).connect({ Container: made.id, EndpointConfig: settings });
    return made.id;
  };

  const remove = async (id: string): Promise<void> => {
    const box = docker.getContainer(id);
    // Not by force: should somebody have started it meanwhile, it is not to be lost.
    await tolerating([404], () => box.remove());
    await tolerating([404], () => box.wait({ condition: "removed" }));
  };

  const drop = async ({ image, isRemade, carried }: SeenContainer): Promise<void> => {
    if (!isRemade) return;
    await removeVolumes(carried);
    if (image.startsWith(`${repository}:`)) await removeImage(image);
  };

  const replace = async (old: SeenContainer, mounts: EngineMounts): Promise<SeenContainer> => {
    const box = docker.getContainer(old.id);
    const now = await box.inspect();
    const others = [...engineMounts(now.Mounts)].filter(([name]) => !isVolumeName(owner.owner, name));
    const carried = others.map(([name]) => name);
    const wanted = new Map([...others, ...mounts]);
    const tag = `${repository}:${nameSafe(old.fingerprint).slice(0, 40)}-${randomUUID().slice(0, 8)}`;
    await keepDisk(box, now.Image, tag, carried.join(" "));
    let id: string;
    try {
      id = await makeFrom(tag, now, `${old.name}-next`, wanted, carried.join(" "));
    } catch (error) {
      await removeImage(tag);
      throw error;
    }
    await remove(old.id);
    if (old.isRemade) await removeImage(old.image);
    await docker.getContainer(id).rename({ name: old.name });
    return { ...old, id, image: tag, state: "created", mounts: wanted, isRemade: true, carried };
  };

  const look = async (container: SeenContainer): Promise<Made | undefined> => {
    try {
      const { Created, State } = await docker.getContainer(container.id).inspect();
      const isLive = State.Running || State.Paused;
      return { container, createdAt: Date.parse(Created), isLive, finishedAt: Date.parse(State.FinishedAt) };
    } catch (error) {
      if (statusOf(error) === 404) return undefined;
      throw error;
    }
  };

  const settleOne = async (containers: readonly SeenContainer[]): Promise<SeenContainer[]> => {
    if (containers.length < 2) return [...containers];
    const found = (await Promise.all(containers.map(look))).flatMap((one) => one ?? []).sort((a, b) => a.createdAt - b.createdAt);
    const last = found.at(-1);
    // One that ran after its successor was made has what that has not: somebody started it by hand.
    const goesOn = found.find(({ isLive, finishedAt }) => isLive || finishedAt > (last?.createdAt ?? 0)) ?? last;
    for (const { container } of found) {
      if (container === goesOn?.container) continue;
      await remove(container.id);
      await drop(container);
    }
    return goesOn ? [goesOn.container] : [];
  };

  return {
    remake: (container, mounts) => asking(`make instance ${container.instance} anew with other volumes`, () => replace(container, mounts)),
    settle: async (containers) => {
      const names = new Set(containers.map(({ fingerprint }) => fingerprint));
      const settled: SeenContainer[] = [];
      for (const name of names)
        settled.push(...(await asking("tell a machine from its successor", () => settleOne(containers.filter((one) => one.fingerprint === name)))));
      return settled;
    },
    drop,
    sweep: () =>
      asking("remove what a crash left", async () => {
        const filters = { label: [`${labels.owner}=${owner.owner}`, labels.remade], reference: [repository] };
        for (const row of await docker.listImages({ filters }))
          for (const tag of row.RepoTags ?? []) if (await removeImage(tag)) await removeVolumes(carriedVolumes(row.Labels ?? undefined));
      }),
  };
};
