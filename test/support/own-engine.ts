import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, copyFileSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Docker from "dockerode";
import { docker as shared } from "./docker.js";
import { until } from "./until.js";

/** An engine of a test's own, to be stopped, stunned and filled, while the one that everybody uses is left alone. Needs root. */
export interface OwnEngine {
  /** For `DOCKER_HOST`. */
  host: string;
  /** Every variable by which a client reaches it. */
  variables: Record<string, string>;
  /** Where it is reached when it is `away`. */
  address: string;
  docker: Docker;
  /** Where it keeps everything; a file system of its own. */
  data: string;
  /** Copies an image of the shared engine to it. */
  take(tag: string): Promise<void>;
  /** Has a rule of iptables(8) where it is; undone by what is returned. Only when it is `away`. */
  rule(table: string, chain: string, ...words: string[]): () => void;
  signal(name: NodeJS.Signals): void;
  /** Ends it; its containers end with it, as they do with `systemctl stop docker`. */
  stop(): Promise<void>;
  start(): Promise<void>;
  close(): Promise<void>;
}

/** Where an engine is: with a `socket` beside us, at a port of our `loopback`, or on a machine `away`, as far as its network goes. */
type Place = "socket" | "loopback" | "away";

const command = (line: string): void => void execFileSync("/bin/sh", ["-c", line], { stdio: ["ignore", "ignore", "pipe"] });

/** A network of its own, with one line to ours: of all that is there only the address `theirs` is reached from here. Gone with its name and its last process. */
const openNetwork = (name: string, ours: string, theirs: string): void => {
  command(`ip netns add ${name} && ip link add ${name} type veth peer name eth0 netns ${name}`);
  command(`ip addr add ${ours}/30 dev ${name} && ip link set ${name} up`);
  command(`ip -n ${name} addr add ${theirs}/30 dev eth0 && ip -n ${name} link set eth0 up && ip -n ${name} link set lo up`);
};

const freePort = async (): Promise<number> => {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
};

/** What DOCKER_CERT_PATH names. One certificate is authority, server and client: nobody else on this machine is to use an engine at a port. */
const makeCertificates = (folder: string, address: string): void => {
  mkdirSync(folder, { mode: 0o700 });
  const at = (name: string): string => join(folder, name);
  const subject = `-subj /CN=engine -addext subjectAltName=IP:${address}`;
  command(`openssl req -x509 -newkey rsa:2048 -nodes -days 2 ${subject} -keyout ${at("key.pem")} -out ${at("cert.pem")}`);
  copyFileSync(at("cert.pem"), at("ca.pem"));
};

/**
 * `size` of its disk, as mount(8) has it. It makes no firewall rules, which would be the shared engine's too, and has a bridge of its own: with
 * `--bridge none` dockerd would remove `docker0`, and the shared engine could start nothing on its default network any more.
 */
export const openOwnEngine = async (size: string, place: Place = "socket"): Promise<OwnEngine> => {
  const folder = mkdtempSync(join(tmpdir(), "backlot-engine-"));
  const data = join(folder, "data");
  const socket = join(folder, "engine.sock");
  mkdirSync(data);
  const name = `backlot${process.pid}`;
  const third = process.pid % 256;
  const address = place === "away" ? `10.254.${third}.2` : "127.0.0.1";
  const port = place === "socket" ? 0 : await freePort();
  const host = place === "socket" ? `unix://${socket}` : `tcp://${address}:${port}`;
  const certificates = join(folder, "certificates");
  if (place !== "socket") makeCertificates(certificates, address);
  if (place === "away") openNetwork(name, `10.254.${third}.1`, address);
  const ip = place === "away" ? `ip -n ${name}` : "ip";
  const bridge = `${name}b`;
  command(`${ip} link add ${bridge} type bridge && ${ip} addr add 172.31.${third}.1/24 dev ${bridge}`);
  execFileSync("mount", ["-t", "tmpfs", "-o", `size=${size}`, "backlot-engine", data]);
  const docker = new Docker({ socketPath: socket });
  let daemon: ChildProcess | undefined;

  const start = async (): Promise<void> => {
    const log = openSync(join(folder, "log"), "a");
    const places = ["--data-root", data, "--exec-root", join(folder, "exec"), "--pidfile", join(folder, "pid")];
    const quiet = ["--bridge", bridge, "--iptables=false", "--ip-forward=false", "--ip-masq=false"];
    const at = (file: string): string => join(certificates, file);
    const secured = ["-H", host, "--tlsverify", `--tlscacert=${at("ca.pem")}`, `--tlscert=${at("cert.pem")}`, `--tlskey=${at("key.pem")}`];
    const words = ["dockerd", "-H", `unix://${socket}`, ...places, ...quiet, ...(place === "socket" ? [] : secured)];
    // nsenter becomes what it runs, so its process is the daemon's.
    const [program = "", ...rest] = place === "away" ? ["nsenter", `--net=/run/netns/${name}`, ...words] : words;
    daemon = spawn(program, rest, { stdio: ["ignore", log, log] });
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
    host,
    variables: { DOCKER_HOST: host, ...(place === "socket" ? {} : { DOCKER_TLS_VERIFY: "1", DOCKER_CERT_PATH: certificates }) },
    address,
    rule: (table, chain, ...words) => {
      const there = (verb: string): void => command(`ip netns exec ${name} iptables -t ${table} ${verb} ${chain} ${words.join(" ")}`);
      there("-I");
      return () => there("-D");
    },
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
      command(place === "away" ? `ip netns del ${name}` : `ip link del ${bridge}`);
      execFileSync("umount", ["--recursive", data]);
      rmSync(folder, { recursive: true, force: true });
    },
  };
};
