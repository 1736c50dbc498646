import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import type Docker from "dockerode";
import { pack } from "tar-stream";
import { Fault } from "../../kernel/fault.js";
import { packageFolder } from "../../kernel/package-folder.js";
import { turns } from "../../kernel/turns.js";
import { captureTag } from "./captures.js";
import type { EngineConnection } from "./connection.js";
import { asking, engineFault, openEngine, saidBy, statusOf } from "./engine.js";
import { guestRecipe, type ImageMap, type ImagePlan, imagePlan, recipeHash } from "./images.js";
import { jsonLines } from "./json-lines.js";
import { labels } from "./labels.js";

const recipeFolder = join(packageFolder, "docker/guest");
const baseScript = join(packageFolder, "docker/base-tarball.sh");

/** A registry that says nothing for this long is not reachable. */
const registrySilenceMs = 20_000;

interface BootImage {
  /** What the engine calls it. */
  tag: string;
  /** The slug booted instead of the asked one. */
  substituted?: string;
  /** Made by us, with our boot program in it; else it runs its own entrypoint. */
  isGuest: boolean;
}

export interface GuestImages {
  /**
   * The image to boot `slug` from, made first if need be (a minute or more, once a machine). A slug is one of the fixture's, one that the
   * settings name (`--image`), or the key of a copy.
   */
  ensure(slug: string): Promise<BootImage>;
  /** A tag that is there, such as a copy of a disk. */
  existing(tag: string): Promise<BootImage>;
  /** The engine said that a tag is gone: look again next time. */
  forget(tag: string): void;
}

export interface GuestImageOptions {
  /** Whose copies are looked for. */
  owner: string;
  /** OCI references by slug, booted as they are. */
  ownImages: Readonly<Record<string, string>>;
  imageMap: ImageMap;
  imageFallback: string | undefined;
  onProgress(line: string): void;
}

export const defaultImageMap = async (): Promise<ImageMap> =>
  JSON.parse(await readFile(join(packageFolder, "fixtures/oci-images.json"), "utf8")) as ImageMap;

interface ProgressLine {
  stream?: string;
  status?: string;
  id?: string;
  error?: string;
}

/** Reads the engine's lines of JSON to their end. The engine answers 200 first and fails later, inside this stream. */
const follow = async (stream: NodeJS.ReadableStream, onLine: (line: ProgressLine) => void): Promise<void> => {
  for await (const line of jsonLines<ProgressLine>(stream)) {
    if (line.error) throw new Error(line.error.trim());
    onLine(line);
  }
};

const inspected = async (docker: Docker, tag: string): Promise<Docker.ImageInspectInfo | undefined> => {
  try {
    return await docker.getImage(tag).inspect();
  } catch (error) {
    if (statusOf(error) === 404) return undefined;
    throw engineFault(`look for the image ${tag}`, error);
  }
};

const has = async (docker: Docker, tag: string): Promise<boolean> => (await inspected(docker, tag)) !== undefined;

const pull = async (docker: Docker, reference: string, onProgress: (line: string) => void): Promise<void> => {
  const silence = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(() => silence.abort(new Error(`the registry said nothing for ${registrySilenceMs / 1000} s`)), registrySilenceMs);
  };
  heard();
  try {
    const stream = await docker.pull(reference, { abortSignal: silence.signal });
    await follow(stream, (line) => {
      heard();
      if (line.status && /complete|Downloaded|up to date/i.test(line.status)) onProgress(`${reference}: ${line.status}`);
    });
  } catch (error) {
    throw silence.signal.aborted ? silence.signal.reason : error;
  } finally {
    clearTimeout(timer);
  }
};

/** Runs docker/base-tarball.sh and hands the tar file to the engine. */
const makeBase = async (
  docker: Docker,
  plan: { localBase: string; suite: string; mirror: string | undefined },
  onProgress: (line: string) => void,
) => {
  const folder = await mkdtemp(join(tmpdir(), "backlot-base-"));
  try {
    const tarball = join(folder, "base.tar");
    const said: string[] = [];
    const child = spawn("bash", [baseScript, plan.suite, tarball, ...(plan.mirror ? [plan.mirror] : [])], { stdio: ["ignore", "ignore", "pipe"] });
    const ended = new Promise<number | null>((resolve, reject) => child.once("error", reject).once("close", (code) => resolve(code)));
    createInterface({ input: child.stderr }).on("line", (line) => {
      said.push(line);
      onProgress(line);
    });
    if ((await ended) !== 0)
      throw new Error(
        said
          .filter((line) => !line.includes("downloading"))
          .slice(-2)
          .join("; ") || "debootstrap could not be run",
      );
    const [repo = "", tag = ""] = plan.localBase.split(":");
    await follow(await docker.importImage(tarball, { repo, tag }), () => {});
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
};

const buildGuest = async (docker: Docker, plan: { guest: string; name: string }, base: string, onProgress: (line: string) => void): Promise<void> => {
  const context = pack();
  for (const { name, content } of guestRecipe(recipeFolder)) context.entry({ name, mode: 0o755 }, content);
  context.finalize();
  let step = "";
  try {
    // version 1 is the classic builder: BuildKit is absent from the engine that Debian 12 ships.
    const stream = await docker.buildImage(Readable.from(context as AsyncIterable<Buffer>), {
      t: plan.guest,
      buildargs: { BASE: base },
      labels: { [labels.guest]: plan.name },
      forcerm: true,
      version: "1",
    });
    await follow(stream, (line) => {
      const text = (line.stream ?? "").trim();
      if (!text.startsWith("Step ")) return;
      step = text.split("\n")[0] ?? text;
      onProgress(`guest ${plan.name}: ${step.slice(0, 120)}`);
    });
  } catch (error) {
    if (statusOf(error) !== undefined) throw error;
    throw new Error(`${saidBy(error)} (in "${step.slice(0, 60)}")`, { cause: error });
  }
};

export const guestImages = (connection: EngineConnection | undefined, options: GuestImageOptions): GuestImages => {
  const docker = openEngine(connection);
  const inTurn = turns<string>();
  const known = new Set<string>();
  const recipe = recipeHash(guestRecipe(recipeFolder));

  const baseOf = async (plan: Exclude<ImagePlan, { reason: string }>): Promise<string> => {
    if (await has(docker, plan.oci)) return plan.oci;
    if (await has(docker, plan.localBase)) return plan.localBase;
    options.onProgress(`guest ${plan.name}: fetching ${plan.oci}`);
    try {
      await pull(docker, plan.oci, options.onProgress);
      return plan.oci;
    } catch (error) {
      const noRegistry = `the registry did not give ${plan.oci} (${saidBy(error)})`;
      if (plan.suite === undefined) throw new Error(noRegistry);
      options.onProgress(`guest ${plan.name}: ${noRegistry}; making it with debootstrap`);
      await makeBase(docker, { localBase: plan.localBase, suite: plan.suite, mirror: plan.mirror }, options.onProgress).catch((failure) => {
        throw new Error(`${noRegistry}, and debootstrap could not make it (${saidBy(failure)})`);
      });
      return plan.localBase;
    }
  };

  const make = async (slug: string): Promise<string> => {
    const plan = imagePlan(options.imageMap, slug, recipe);
    if ("reason" in plan) throw new Fault("unavailable", [{ reason: plan.reason }]);
    const { guest } = plan;
    if (known.has(guest)) return guest;
    return inTurn(guest, async () => {
      if (!known.has(guest) && !(await has(docker, guest))) {
        try {
          const base = await baseOf(plan);
          await buildGuest(docker, plan, base, options.onProgress);
          options.onProgress(`guest ${plan.name}: ready as ${guest}`);
        } catch (error) {
          if (error instanceof Fault) throw error;
          const remedy = "Give this machine a registry or its distribution's archive, or start Backlot with --image-fallback.";
          throw new Fault("unavailable", [{ reason: `The image ${slug} cannot be had: ${saidBy(error)}. ${remedy}` }], { cause: error });
        }
      }
      known.add(guest);
      return guest;
    });
  };

  /** What was made from a guest of ours is a guest, by whomever. */
  const existing = async (tag: string): Promise<BootImage> => {
    const found = await inspected(docker, tag);
    return { tag, isGuest: found?.Config.Labels?.[labels.guest] !== undefined };
  };

  /** Of a copy there is no second: nothing else is booted in its place. */
  const copyOf = async (key: string): Promise<BootImage> => {
    const tag = captureTag(options.owner, key);
    if (await has(docker, tag)) return existing(tag);
    throw new Fault("unavailable", [
      { reason: `The image ${key} is not on the engine any more, so nothing can be made from it. Choose another image.` },
    ]);
  };

  const ownImage = async (slug: string, reference: string): Promise<BootImage> => {
    if (!(await has(docker, reference))) {
      options.onProgress(`image ${slug}: fetching ${reference}`);
      await pull(docker, reference, options.onProgress).catch((error) => {
        const remedy = `Load it into the engine (docker pull, docker load or docker import), or correct --image ${slug}=REFERENCE.`;
        throw new Fault(
          "unavailable",
          [{ reason: `The image ${slug} cannot be had: the registry did not give ${reference} (${saidBy(error)}). ${remedy}` }],
          {
            cause: error,
          },
        );
      });
    }
    return existing(reference);
  };

  const publicImage = async (slug: string): Promise<BootImage> => {
    const reference = Object.hasOwn(options.ownImages, slug) ? options.ownImages[slug] : undefined;
    return reference === undefined ? { tag: await make(slug), isGuest: true } : ownImage(slug, reference);
  };

  return {
    ensure: async (slug) => {
      if (slug.startsWith("private/")) return copyOf(slug);
      try {
        return await publicImage(slug);
      } catch (error) {
        if (options.imageFallback === undefined || options.imageFallback === slug) throw error;
        // An engine that is gone gives no other image either, and must not look like a missing one.
        await asking("answer", () => docker.ping());
        return { ...(await publicImage(options.imageFallback)), substituted: options.imageFallback };
      }
    },
    existing,
    forget: (tag) => {
      known.delete(tag);
    },
  };
};
