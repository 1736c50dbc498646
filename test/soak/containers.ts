import { readdirSync, readFileSync } from "node:fs";
import { ownedThings, removeOwned } from "#backlot/runtime/docker/orphans.js";
import { docker } from "../support/docker.js";
import type { Row, Rows, World } from "./world.js";

const ours = (owner: string) => ({ filters: { label: [`io.backlot.owner=${owner}`] } });

/** Volumes mounted in a container, by label: read from the mount table of its first process. */
const mountedIn = (pid: number): string[] =>
  readFileSync(`/proc/${pid}/mountinfo`, "utf8")
    .split("\n")
    .flatMap((line) => /^\/mnt\/(.+)$/.exec(line.split(" ")[4] ?? "")?.[1] ?? []);

/** Files behind the loop devices of an owner's volumes. */
const loops = (owner: string): string[] =>
  readdirSync("/sys/block").flatMap((name) => {
    try {
      const file = readFileSync(`/sys/block/${name}/loop/backing_file`, "utf8").trim();
      return file.includes(`backlot-${owner.slice(0, 8)}-volume`) ? [`${name} over ${file}`] : [];
    } catch {
      return []; // no loop device, or a free one
    }
  });

interface Box {
  id: string;
  instance: number;
  name: string;
  running: boolean;
  pid: number;
  started: string;
  networks: string[];
}

const boxesOf = async (owner: string): Promise<Box[]> => {
  const rows = await docker.listContainers({ all: true, ...ours(owner) });
  return Promise.all(
    rows.map(async ({ Id, Labels }) => {
      const { State, Name, NetworkSettings } = await docker.getContainer(Id).inspect();
      const instance = Number(Labels["io.backlot.instance"] ?? 0);
      return {
        id: Id,
        instance,
        name: Name,
        running: State.Running,
        pid: State.Pid,
        started: State.StartedAt,
        networks: Object.keys(NetworkSettings.Networks),
      };
    }),
  );
};

const machineProblems = (box: Box | undefined, instance: Row, volumes: readonly Row[]): string[] => {
  const wanted = instance.status === "running" ? volumes.filter(({ cloud_id }) => cloud_id === instance.id).map(({ label }) => label) : [];
  const mounted = box?.running ? mountedIn(box.pid) : [];
  return [
    ...((box?.running ?? false) === (instance.status === "running")
      ? []
      : [`instance ${instance.id} is ${instance.status}, its container ${box?.running ? "runs" : "does not"}`]),
    ...wanted.filter((label) => !mounted.includes(label)).map((label) => `volume ${label} is not mounted in instance ${instance.id}`),
    ...mounted.filter((label) => !wanted.includes(label)).map((label) => `${label} is still mounted in instance ${instance.id}`),
  ];
};

/** Machines, networks, volumes, loop devices and mounts of a state on the engine, asked of the engine and of the kernel. */
export const dockerWorld = (): World => ({
  machineOf: async (owner, instance) =>
    (await boxesOf(owner)).filter((box) => box.instance === instance).map(({ id, started }) => `${id} ${started}`)[0],
  problems: async (owner, { instances, volumes }: Rows) => {
    const boxes = await boxesOf(owner);
    const networks = await docker.listNetworks(ours(owner));
    const kept = (await docker.listVolumes(ours(owner))).Volumes ?? [];
    const images = await docker.listImages(ours(owner));
    const attached = volumes.filter(({ cloud_id }) => instances.some(({ id, status }) => id === cloud_id && status === "running"));
    const devices = loops(owner);
    return [
      ...instances.flatMap((instance) =>
        machineProblems(
          boxes.find((box) => box.instance === instance.id),
          instance,
          volumes,
        ),
      ),
      ...boxes
        .filter((box, at) => boxes.findIndex(({ instance }) => instance === box.instance) !== at)
        .map(({ name }) => `container ${name} is a second one`),
      ...boxes.filter((box) => !instances.some(({ id }) => id === box.instance)).map(({ name }) => `container ${name} belongs to no row`),
      ...networks.filter(({ Name }) => !boxes.some((box) => box.networks.includes(Name))).map(({ Name }) => `network ${Name} is used by nobody`),
      ...kept
        .filter(({ Name }) => !volumes.some(({ id }) => Name.endsWith(`-volume-${id}`)))
        .map(({ Name }) => `engine volume ${Name} belongs to no row`),
      ...volumes.filter(({ id }) => !kept.some(({ Name }) => Name.endsWith(`-volume-${id}`))).map(({ id }) => `volume ${id} has no engine volume`),
      ...images.map(({ Id, RepoTags }) => `image ${RepoTags?.[0] ?? Id} belongs to no row`),
      ...(devices.length === attached.length ? [] : [`${devices.length} loop devices for ${attached.length} mounted volumes: ${devices.join(", ")}`]),
    ];
  },
  close: async (owner) => {
    for (const things of await ownedThings()) if (things.owner === owner) await removeOwned(things);
  },
});
