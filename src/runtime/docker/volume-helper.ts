import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type Docker from "dockerode";
import { Fault } from "../../kernel/fault.js";
import { packageFolder } from "../../kernel/package-folder.js";
import { framesText } from "./boot-log.js";
import { asking, saidBy, tolerating } from "./engine.js";
import { labels, type Owner, ownerLabels } from "./labels.js";

/** What docker/volumes/backlot-volume.py is asked for. Paths are the helper's: engine volumes are at `/volumes/NAME`. */
export type VolumeTask =
  | { do: "ensure"; disk: string; copyOf: string | null; bytes: number; into: string | null; path: string; containers: readonly string[] }
  | { do: "release"; disk: string; containers: readonly string[] }
  | { do: "probe" };

/** Names of processes that still have files of it open after it left their machine, and of those that keep it from growing. */
export type VolumeAnswer = { left: string[]; waits: string[] } | { gone: true };

/**
 * What an engine lets the helper do. `in-use`: everything; `unused`: all but growing a file system that is in use; `none`: no loop devices,
 * so no sizes; `refused`: nothing. With the engine's reason for what it does not.
 */
export type VolumeRights = { growth: "in-use" | "unused" | "none"; reason: string } | { refused: string };

export interface VolumeHelper {
  /** Runs a task with these engine volumes in reach. @throws Fault `unavailable` with the reason */
  run(task: VolumeTask, volumes: readonly string[]): Promise<VolumeAnswer>;
  /** What the engine granted; undefined before the first task. */
  rights(): VolumeRights | undefined;
  /** Why the engine refuses the helper; undefined when it does not. */
  refusal(): Promise<string | undefined>;
  /** Fills an empty engine volume with a copy of another, by a container that has no rights beyond others; one cut off is begun anew. */
  copy(from: string, to: string): Promise<void>;
  /** Removes helpers that a crash left. False: one of them is still at work, ask again. */
  sweep(): Promise<boolean>;
}

interface HelperOptions {
  docker: Docker;
  owner: Owner;
  /** Tag of an image that we built ourselves: what a guest's root may have changed must never run with these rights. */
  image(): Promise<string>;
  /** False asks for no loop devices, as if the engine had none. */
  loopDevices: boolean;
  /** How long a refusal is believed, in ms; 30,000 unless given. */
  refusalMs?: number;
  /** Ids of the helpers there were when this driver was opened: nobody waits for them. */
  left: readonly string[];
}

const program = join(packageFolder, "docker/volumes/backlot-volume.py");

/** What losetup, mkfs, mount and the way into a guest's namespace need. Not `--privileged`: no device but loop, no other capability. */
const capabilities = ["DAC_OVERRIDE", "MKNOD", "SYS_ADMIN", "SYS_CHROOT", "SYS_PTRACE"];
/** Block devices 7:* are loop devices, 10:237 is /dev/loop-control (Linux, admin-guide/devices.txt). */
const deviceRules = ["b 7:* rwm", "c 10:237 rwm"];

/** What the helper is given besides, and whether volumes have a size so. Tried in this order, the first that works is kept. */
const attempts = [
  { growth: "in-use", sized: true, extra: ["SYS_RESOURCE"] },
  { growth: "unused", sized: true, extra: [] },
  { growth: "none", sized: false, extra: [] },
] as const;
type Attempt = (typeof attempts)[number];

/** To copy files with owners, modes and capabilities; of what an engine gives any container. */
const copyCapabilities = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "MKNOD", "SETFCAP"];
/** What is there and not marked is whole. The mark is locked as well, so that two copies of one volume take turns, whoever started them. */
const copyProgram = `set -e
cd /to
[ -e .backlot-copy ] || [ -z "$(ls -A)" ] || exit 0
exec 9>>.backlot-copy
flock 9
[ -e .backlot-copy ] || exit 0
find . -mindepth 1 -maxdepth 1 ! -name .backlot-copy -exec rm -rf {} +
cp -a --reflink=auto /from/. .
sync
rm -rf .backlot-copy`;

const remedy = "Use an engine that grants a container SYS_ADMIN and the host's process namespace, or the process runtime.";

/** Helpers of this owner, at work or not; also those of extra-addresses.ts. */
export const helpersOf = (docker: Docker, { owner }: Owner): Promise<Docker.ContainerInfo[]> =>
  asking("list containers", () => docker.listContainers({ all: true, filters: { label: [`${labels.owner}=${owner}`, labels.helper] } }));

/** Makes and mounts volumes by containers that live for a moment. */
export const volumeHelper = ({ docker, owner, image, loopDevices, left, refusalMs = 30_000 }: HelperOptions): VolumeHelper => {
  let granted: VolumeRights | undefined;
  let grantedMs = 0;
  let probing: Promise<VolumeRights> | undefined;
  let text: Promise<string> | undefined;

  const request = (tag: string, source: string, task: VolumeTask, volumes: readonly string[], { sized, extra }: Attempt) => ({
    Image: tag,
    // -I: nothing of the environment or the folder it stands in changes what this program imports.
    Entrypoint: ["/usr/bin/python3", "-I", "-c"],
    Cmd: [source, JSON.stringify({ ...task, sized })],
    Labels: { ...ownerLabels(owner), [labels.helper]: "volume" },
    HostConfig: {
      Binds: volumes.map((name) => `${name}:/volumes/${name}`),
      NetworkMode: "none",
      PidMode: "host",
      UsernsMode: "host",
      CgroupnsMode: "host" as const,
      CapDrop: ["ALL"],
      CapAdd: [...capabilities, ...extra],
      DeviceCgroupRules: loopDevices ? deviceRules : [],
      SecurityOpt: ["seccomp=unconfined", "apparmor=unconfined"],
    },
  });

  const runOnce = async (task: VolumeTask, volumes: readonly string[], attempt: Attempt): Promise<VolumeAnswer> => {
    text ??= readFile(program, "utf8");
    const { line } = await lastWords(request(await image(), await text, task, volumes, attempt));
    const answer = (line.startsWith("{") ? JSON.parse(line) : { error: line || "it ended without a word" }) as VolumeAnswer | { error: string };
    if ("error" in answer) throw new Fault("unavailable", [{ reason: `The helper that mounts volumes failed: ${answer.error}.` }]);
    return answer;
  };

  /** Runs a container to its end, and removes it. */
  const lastWords = async (asked: Docker.ContainerCreateOptions): Promise<{ line: string; exitCode: number }> => {
    const helper = await docker.createContainer(asked);
    try {
      await helper.start();
      const { StatusCode } = (await helper.wait()) as { StatusCode: number };
      const said = framesText((await helper.logs({ stdout: true, stderr: true })) as Buffer);
      return { line: said.toString().trim().split("\n").pop() ?? "", exitCode: StatusCode };
    } finally {
      await tolerating([404, 409], () => helper.remove({ force: true }));
    }
  };

  const probe = async (): Promise<VolumeRights> => {
    await asking("make the image of the volumes' helper", image);
    let reason = "";
    for (const attempt of attempts) {
      try {
        await runOnce({ do: "probe" }, [], attempt);
        return { growth: attempt.growth, reason };
      } catch (error) {
        // An engine that is gone is no answer.
        await asking("answer", () => docker.ping());
        reason = saidBy(error);
      }
    }
    return { refused: reason };
  };

  /** Tried once and kept when sizes are to be had. What is refused may be for the moment only: an engine under load, no loop device free. */
  const isSettled = (has: VolumeRights): boolean => "growth" in has && has.growth !== "none";
  const rights = async (): Promise<VolumeRights> => {
    if (granted && (isSettled(granted) || performance.now() < grantedMs + refusalMs)) return granted;
    probing ??= probe().finally(() => {
      probing = undefined;
    });
    granted = await probing;
    grantedMs = performance.now();
    return granted;
  };

  return {
    run: async (task, volumes) => {
      const has = await rights();
      if ("refused" in has) {
        throw new Fault("unavailable", [
          { reason: `This Docker engine refuses the helper that makes and mounts volumes: ${has.refused}. ${remedy}` },
        ]);
      }
      return runOnce(task, volumes, attempts.find(({ growth }) => growth === has.growth) ?? attempts[0]);
    },
    rights: () => granted,
    refusal: async () => {
      const has = await rights();
      return "refused" in has ? has.refused : undefined;
    },
    copy: async (from, to) => {
      const { line, exitCode } = await lastWords({
        Image: await image(),
        Entrypoint: ["/bin/sh", "-c", copyProgram],
        Labels: { ...ownerLabels(owner), [labels.helper]: "volume" },
        HostConfig: { Binds: [`${from}:/from:ro`, `${to}:/to:nocopy`], NetworkMode: "none", CapDrop: ["ALL"], CapAdd: copyCapabilities },
      });
      if (exitCode !== 0) throw new Fault("unavailable", [{ reason: `Its data could not be copied: ${line || `exit status ${exitCode}`}.` }]);
    },
    sweep: async () => {
      const known = (await helpersOf(docker, owner)).filter(({ Id }) => left.includes(Id));
      const over = known.filter(({ State }) => State !== "running");
      for (const { Id } of over) await tolerating([404, 409], () => docker.getContainer(Id).remove({ force: true }));
      return over.length === known.length;
    },
  };
};
