import type Docker from "dockerode";
import { asking, statusOf, tolerating } from "./engine.js";
import { labels } from "./labels.js";

const repository = "backlot/disk";

/** File systems kept as images on the engine, by the name that Backlot gave them. Names are random: no two owners have the same. */
export interface FileSystems {
  /** The image of that name, if there is one. */
  tagOf(name: string): Promise<string | undefined>;
  /** Keeps what a container's file system holds now; the container stands still meanwhile. */
  capture(container: Docker.Container, name: string): Promise<void>;
  /** One more name for the same. */
  alias(tag: string, name: string): Promise<void>;
  names(): Promise<string[]>;
  /** What a container still runs from stays until that is gone, and is asked for again. */
  remove(name: string): Promise<void>;
}

const tagFor = (name: string): string => `${repository}:${name}`;

/** Whether a container was made from such an image. */
const isFromFileSystem = (image: string): boolean => image.startsWith(`${repository}:`);

export const fileSystems = (docker: Docker, owner: string): FileSystems => ({
  tagOf: async (name) => {
    try {
      await docker.getImage(tagFor(name)).inspect();
      return tagFor(name);
    } catch (error) {
      if (statusOf(error) === 404) return undefined;
      throw error;
    }
  },
  capture: async (container, name) => {
    // The container's labels go with it, the owner's among them: `names` and `backlot clean` find it by that.
    await asking("keep a copy of a machine's disk", () => container.commit({ repo: repository, tag: name, pause: true }));
  },
  alias: async (tag, name) => {
    await asking("name a copy of a disk", () => docker.getImage(tag).tag({ repo: repository, tag: name }));
  },
  names: async () => {
    const rows = await asking("list images", () => docker.listImages({ filters: { label: [`${labels.owner}=${owner}`], reference: [repository] } }));
    return rows.flatMap((row) => row.RepoTags ?? []).flatMap((tag) => (isFromFileSystem(tag) ? [tag.slice(repository.length + 1)] : []));
  },
  remove: async (name) => {
    await asking("remove a copy of a disk", () => tolerating([404, 409], () => docker.getImage(tagFor(name)).remove()));
  },
});
