import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Docker from "dockerode";
import { docker as shared } from "./docker.js";
import { until } from "./until.js";

/** An engine of a test's own, to be stopped, stunned and filled, while the one that everybody uses is left alone. Needs root. */
export interface OwnEngine {
  /** For `DOCKER_HOST`. */
  host: string;
  docker: Docker;
  /** Where it keeps everything; a file system of its own. */
  data: string;
  /** Copies an image of the shared engine to it. */
  take(tag: string): Promise<void>;
  signal(name: NodeJS.Signals): void;
  /** Ends it; its containers end with it, as they do with `systemctl stop docker`. */
  stop(): Promise<void>;
  start(): Promise<void>;
  close(): Promise<void>;
}

/**
 * `size` of its disk, as mount(8) has it. It makes no firewall rules, which would be the shared engine's too, and has a bridge of its own: with
 * `--bridge none` dockerd would remove `docker0`, and the shared engine could start nothing on its default network any more.
 */
export const openOwnEngine = async (size: string): Promise<OwnEngine> => {
  const folder = mkdtempSync(join(tmpdir(), "backlot-engine-"));
  const data = join(folder, "data");
  const socket = join(folder, "engine.sock");
  mkdirSync(data);
  const bridge = `backlot${process.pid}`;
  execFileSync("ip", ["link", "add", bridge, "type", "bridge"]);
  execFileSync("ip", ["addr", "add", `172.31.${process.pid % 256}.1/24`, "dev", bridge]);
  execFileSync("mount", ["-t", "tmpfs", "-o", `size=${size}`, "backlot-engine", data]);
  const docker = new Docker({ socketPath: socket });
  let daemon: ChildProcess | undefined;

  const start = async (): Promise<void> => {
    const log = openSync(join(folder, "log"), "a");
    const places = ["--data-root", data, "--exec-root", join(folder, "exec"), "--pidfile", join(folder, "pid")];
    const quiet = ["--bridge", bridge, "--iptables=false", "--ip-forward=false", "--ip-masq=false"];
    daemon = spawn("dockerd", ["-H", `unix://${socket}`, ...places, ...quiet], { stdio: ["ignore", log, log] });
    closeSync(log);
    const { pid } = daemon;
    await until(() => docker.ping(), { withinMs: 60_000, what: `the engine ${pid}` }).catch((error) => {
      throw new Error(`${error.message}\n${readFileSync(join(folder, "log"), "utf8").slice(-2_000)}`);
    });
  };
  const stop = async (): Promise<void> => {
    if (!daemon || daemon.exitCode !== null || daemon.signalCode !== null) return;
    daemon.kill("SIGCONT");
    daemon.kill("SIGTERM");
    await once(daemon, "exit");
  };
  await start();
  return {
    host: `unix://${socket}`,
    docker,
    data,
    take: async (tag) => {
      const progress = await docker.loadImage(await shared.getImage(tag).get());
      for await (const _ of progress) {
        // read to its end: then it is there
      }
    },
    signal: (name) => void daemon?.kill(name),
    stop,
    start,
    close: async () => {
      const boxes = await docker.listContainers({ all: true });
      await Promise.all(boxes.map(({ Id }) => docker.getContainer(Id).remove({ force: true, v: true })));
      for (const { Id, Name } of await docker.listNetworks()) if (!["bridge", "host", "none"].includes(Name)) await docker.getNetwork(Id).remove();
      await stop();
      execFileSync("ip", ["link", "del", bridge]);
      execFileSync("umount", ["--recursive", data]);
      rmSync(folder, { recursive: true, force: true });
    },
  };
};
