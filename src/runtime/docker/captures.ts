import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type Docker from "dockerode";
import { extract, type Header, type Pack, pack } from "tar-stream";
import { Fault } from "../../kernel/fault.js";
import type { Captured, MachineImages } from "../driver.js";
import { asking, engineFault, statusOf, tolerating } from "./engine.js";
import type { FileSystems } from "./file-systems.js";
import { jsonLines } from "./json-lines.js";
import { labels, nameSafe, type Owner, ownerLabels } from "./labels.js";

/** Where a capture of ours is on the engine; `private/7` of the Backlot 1a2b3c4d… is `backlot/private:1a2b3c4d-7`. */
export const captureTag = (owner: string, key: string): string => {
  const [kind = "", ...name] = key.split("/");
  return `backlot/${nameSafe(kind).toLowerCase()}:${nameSafe(owner).slice(0, 8)}-${nameSafe(name.join("-"))}`;
};

/** What belongs to one boot of one machine (docker/guest/backlot-boot): a machine made from a copy begins its own. */
const bootMarks =
  /^(\.dockerenv|var\/lib\/backlot\/.+|etc\/backlot\/(machine\.env|root-pass|script|script\.env|user-data)|var\/log\/backlot-boot\.log|run\/backlot-boot\.fifo)$/;
/** What makes a machine that machine: who knows it could pass for it. */
const identity = /^etc\/(ssh\/ssh_host_[^/]+|shadow-|gshadow-|machine-id)$/;
const passwords = "etc/shadow";
/** A line of some 120 bytes an account. */
const mostPasswordBytes = 1024 * 1024;

const pathIn = (name: string): string => name.replace(/^(\.?\/)+/, "").replace(/(?<!\/)\/+$/, "");

const isLeftOut = (path: string): boolean => bootMarks.test(path) || identity.test(path);

/** Root's password locked, as after `passwd -d` and `-l`; the other accounts stay as they are. */
const withoutRootPassword = (shadow: string): string => shadow.replace(/^root:[^:]*:/m, "root:*:");

const textOf = async (stream: AsyncIterable<Buffer>): Promise<string> => {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
};

/** Copies a file system's archive without what a copy must not have. */
const copyArchive = async (from: NodeJS.ReadableStream, to: Pack): Promise<void> => {
  const reader = extract();
  reader.on("entry", (header: Header, stream, next) => {
    const path = pathIn(header.name);
    if (isLeftOut(path)) {
      stream.on("end", next);
      stream.resume();
    } else if (path === passwords && (header.size ?? 0) > mostPasswordBytes) {
      reader.destroy(
        new Fault("unavailable", [{ reason: `Its /etc/shadow holds ${header.size} bytes, which no machine's does. Mend it, then try again.` }]),
      );
    } else if (path === passwords) {
      textOf(stream as unknown as AsyncIterable<Buffer>).then((text) => {
        const shadow = withoutRootPassword(text);
        to.entry({ ...header, size: Buffer.byteLength(shadow) }, shadow, next);
      }, next);
    } else stream.pipe(to.entry(header, next));
  });
  await pipeline(from, reader as unknown as NodeJS.WritableStream);
  to.finalize();
};

const quoted = (value: string): string => `"${value.replace(/["\\$]/g, "\\$&")}"`;

/** Everything a container is started with, in the engine's words for it; a variable with a line break cannot be said in them. */
const startInstructions = (config: Pick<Docker.ContainerInspectInfo["Config"], "Entrypoint" | "Cmd" | "Env" | "WorkingDir" | "User">): string[] => {
  const list = (word: string, value: string | string[] | null | undefined) =>
    value === null || value === undefined || value.length === 0 ? [] : [`${word} ${JSON.stringify(Array.isArray(value) ? value : [value])}`];
  const variables = (config.Env ?? []).filter((entry) => !entry.includes("\n"));
  return [
    ...list("ENTRYPOINT", config.Entrypoint),
    ...list("CMD", config.Cmd),
    ...variables.map((entry) => `ENV ${entry.slice(0, entry.indexOf("="))}=${quoted(entry.slice(entry.indexOf("=") + 1))}`),
    ...(config.WorkingDir ? [`WORKDIR ${config.WorkingDir}`] : []),
    ...(config.User ? [`USER ${config.User}`] : []),
  ];
};

const mebibytes = (bytes: number): number => Math.ceil(bytes / 2 ** 20);

/** Copies of machines' file systems, as images of the engine. */
export const engineCaptures = (docker: Docker, owner: Owner, { tagOf }: Pick<FileSystems, "tagOf">): MachineImages => {
  const sizeOf = async (key: string): Promise<Captured | undefined> => {
    try {
      const { Size } = await docker.getImage(captureTag(owner.owner, key)).inspect();
      return { key, sizeMb: mebibytes(Size) };
    } catch (error) {
      if (statusOf(error) === 404) return undefined;
      throw engineFault(`look for the image ${key}`, error);
    }
  };

  /**
   * Not `commit`: its layer is what the machine wrote, with the host keys, the password's hash and the marks of its boots, and no call
   * takes a file out of a layer. So the file system is read out, sifted, and read in as a new image.
   */
  const copy = async (container: Docker.Container, key: string): Promise<void> => {
    const { Config } = await container.inspect();
    const stays: Record<string, string> = { ...ownerLabels(owner), [labels.image]: key };
    const guest = Config.Labels?.[labels.guest];
    if (guest !== undefined) stays[labels.guest] = guest;
    const [repo, tag] = captureTag(owner.owner, key).split(":");
    const changes = [...startInstructions(Config), ...Object.entries(stays).map(([name, value]) => `LABEL ${name}=${quoted(value)}`)];
    const sifted = pack();
    const giving = new AbortController();
    const exported = await container.export();
    const sifting = copyArchive(exported, sifted).catch((error) => {
      giving.abort(error);
      throw error;
    });
    const importing = (async () => {
      const answer = await docker.importImage(Readable.from(sifted as AsyncIterable<Buffer>) as never, {
        repo,
        tag,
        changes,
        abortSignal: giving.signal,
      });
      for await (const line of jsonLines<{ error?: string }>(answer as NodeJS.ReadableStream)) if (line.error) throw new Error(line.error.trim());
    })().catch((error) => {
      // Nobody reads on: the source must not wait for it.
      (exported as Readable).destroy?.(error as Error);
      throw error;
    });
    const [sift, given] = await Promise.allSettled([sifting, importing]);
    if (given.status === "rejected") throw giving.signal.aborted ? giving.signal.reason : given.reason;
    if (sift.status === "rejected") throw sift.reason;
  };

  /** The container of a file system; of a copy that was never started one is made for the moment, which never runs. */
  const containerOf = async (instance: number, fingerprint: string): Promise<{ container: Docker.Container; end(): Promise<void> } | undefined> => {
    const label = [`${labels.owner}=${owner.owner}`, `${labels.instance}=${instance}`, `${labels.fingerprint}=${fingerprint}`];
    const [row] = await asking("list containers", () => docker.listContainers({ all: true, filters: { label } }));
    if (row) return { container: docker.getContainer(row.Id), end: async () => {} };
    const tag = await tagOf(fingerprint);
    if (tag === undefined) return undefined;
    // Its image has the labels of the machine that it was made from, and this is none.
    const Labels = { ...ownerLabels(owner), [labels.helper]: "image", [labels.instance]: "", [labels.fingerprint]: "" };
    const container = await docker.createContainer({ Image: tag, Labels, HostConfig: { NetworkMode: "none" } });
    return { container, end: () => tolerating([404, 409], () => container.remove({ force: true, v: true })) };
  };

  return {
    capture: async (instance, fingerprint, key) => {
      const known = await sizeOf(key);
      if (known) return known;
      const source = await containerOf(instance, fingerprint);
      if (!source) return undefined;
      try {
        await asking(`copy the file system of instance ${instance}`, () => copy(source.container, key));
      } finally {
        await source.end();
      }
      const made = await sizeOf(key);
      if (!made) throw new Fault("unavailable", [{ reason: `The image ${key} was made and is gone again: somebody removed it from the engine.` }]);
      return made;
    },
    remove: async (key) => {
      let isGone = true;
      await asking(`remove the image ${key}`, () =>
        tolerating([404], async () => {
          await docker
            .getImage(captureTag(owner.owner, key))
            .remove()
            .catch((error) => {
              if (statusOf(error) !== 409) throw error;
              isGone = false; // a machine was made from it; its file system rests on these layers
            });
        }),
      );
      return isGone;
    },
    list: async () => {
      const label = [`${labels.owner}=${owner.owner}`, labels.image];
      const rows = await asking("list its images", () => docker.listImages({ filters: { label } }));
      return rows.flatMap((row) => {
        const key = row.Labels?.[labels.image];
        return key && row.RepoTags?.includes(captureTag(owner.owner, key)) ? [{ key, sizeMb: mebibytes(row.Size) }] : [];
      });
    },
  };
};
