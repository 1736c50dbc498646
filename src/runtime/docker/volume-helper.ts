import { readFile } from "node:fs/promises";
import type Docker from "dockerode";
import { Fault, reasonOf } from "../../kernel/fault.js";
import { framesText } from "./boot-log.js";
import { asking, tolerating } from "./engine.js";
import { labels, type Owner, ownerLabels } from "./labels.js";

/** What docker/volumes/backlot-volume.py is asked for. Paths are the helper's: engine volumes are at `/volumes/NAME`. */
export type VolumeTask =
  | { do: "ensure"; disk: string; copyOf: string | null; bytes: number; into: string | null; path: string; containers: readonly string[] }
  | { do: "release"; disk: string; containers: readonly string[] }
  | { do: "probe" };

/** Names of processes that still have files of it open after it left their machine, and of those that keep it from growing. */
export type VolumeAnswer = { left: string[]; waits: string[] } | { gone: true };

export interface VolumeHelper {
  /** Runs a task with these engine volumes in reach. @throws Fault `unavailable` with the reason */
  run(task: VolumeTask, volumes: readonly string[]): Promise<VolumeAnswer>;
  /** What the engine granted; undefined before the first task. */
  rights(): VolumeRights | undefined;
  /** Removes helpers that a crash left. */
  sweep(): Promise<void>;
}

/** `in-use`: everything; `unused`: all but growing a file system that is in use; `refused`: nothing, and why. */
export type VolumeRights = { growth: "in-use" | "unused" } | { refused: string };

const program = new URL("../../../docker/volumes/backlot-volume.py", import.meta.url);

/** What losetup, mkfs, mount and the way into a guest's namespace need. Not `--privileged`: no device but loop, no other capability. */
const capabilities = ["DAC_OVERRIDE", "MKNOD", "SYS_ADMIN", "SYS_CHROOT", "SYS_PTRACE"];
/** Block devices 7:* are loop devices, 10:237 is /dev/loop-control (Linux, admin-guide/devices.txt). */
const deviceRules = ["b 7:* rwm", "c 10:237 rwm"];

const helperRequest = (owner: Owner, image: string, text: string, task: VolumeTask, volumes: readonly string[], extra: readonly string[]) => ({
  Image: image,
  // -I: nothing of the environment or the folder it stands in changes what this program imports.
  Entrypoint: ["/usr/bin/python3", "-I", "-c"],
  Cmd: [text, JSON.stringify(task)],
  Labels: { ...ownerLabels(owner), [labels.helper]: "volume" },
  HostConfig: {
    Binds: volumes.map((name) => `${name}:/volumes/${name}`),
    NetworkMode: "none",
    PidMode: "host",
    CgroupnsMode: "host" as const,
    CapDrop: ["ALL"],
    CapAdd: [...capabilities, ...extra],
    DeviceCgroupRules: deviceRules,
    SecurityOpt: ["seccomp=unconfined", "apparmor=unconfined"],
  },
});

/**
 * @param image tag of an image that we built ourselves: what a guest's root may have changed must never run with these rights
 */
export const volumeHelper = (docker: Docker, owner: Owner, image: () => Promise<string>): VolumeHelper => {
  let rights: VolumeRights | undefined;
  let probing: Promise<VolumeRights> | undefined;
  let text: Promise<string> | undefined;
  const inFlight = new Set<string>();

  const runOnce = async (task: VolumeTask, volumes: readonly string[], extra: readonly string[]): Promise<VolumeAnswer> => {
    text ??= readFile(program, "utf8");
    const tag = await image();
    const helper = await docker.createContainer(helperRequest(owner, tag, await text, task, volumes, extra));
    inFlight.add(helper.id);
    try {
      await helper.start();
      await helper.wait();
      const said = framesText((await helper.logs({ stdout: true, stderr: true })) as Buffer)
        .toString()
        .trim();
      const line = said.split("\n").pop() ?? "";
      const answer = (line.startsWith("{") ? JSON.parse(line) : { error: line || "it ended without a word" }) as VolumeAnswer | { error: string };
      if ("error" in answer) throw new Fault("unavailable", [{ reason: `The helper that mounts volumes failed: ${answer.error}.` }]);
      return answer;
    } finally {
      await tolerating([404, 409], () => helper.remove({ force: true }));
      inFlight.delete(helper.id);
    }
  };

  /** Tried once and kept: what an engine grants does not change while it runs. An engine that is gone is no answer. */
  const probe = async (): Promise<VolumeRights> => {
    await asking("answer", () => docker.ping());
    await asking("make the image of the volumes' helper", image);
    try {
      await runOnce({ do: "probe" }, [], ["SYS_RESOURCE"]);
      return { growth: "in-use" };
    } catch (first) {
      try {
        await runOnce({ do: "probe" }, [], []);
        return { growth: "unused" };
      } catch (second) {
        await asking("answer", () => docker.ping());
        return { refused: reasonOf(second) || reasonOf(first) };
      }
    }
  };

  const granted = async (): Promise<VolumeRights> => {
    if (rights) return rights;
    probing ??= probe().finally(() => {
      probing = undefined;
    });
    rights = await probing;
    return rights;
  };

  return {
    run: async (task, volumes) => {
      const has = await granted();
      if ("refused" in has) {
        const remedy = "Use an engine that grants SYS_ADMIN, loop devices and the host's process namespace to a container, or the process runtime.";
        throw new Fault("unavailable", [
          { reason: `This Docker engine refuses the helper that makes and mounts volumes: ${has.refused}. ${remedy}` },
        ]);
      }
      return runOnce(task, volumes, has.growth === "in-use" ? ["SYS_RESOURCE"] : []);
    },
    rights: () => rights,
    sweep: async () => {
      const filters = { label: [`${labels.owner}=${owner.owner}`, labels.helper], status: ["created", "exited", "dead"] };
      for (const { Id } of await asking("list containers", () => docker.listContainers({ all: true, filters })))
        if (!inFlight.has(Id)) await tolerating([404, 409], () => docker.getContainer(Id).remove({ force: true }));
    },
  };
};
