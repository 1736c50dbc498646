import { createSocket } from "node:dgram";
import { createServer, isIP } from "node:net";
import { networkInterfaces } from "node:os";
import type Docker from "dockerode";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { createBalancer, createConfig, isListening, listening } from "../api/world.js";
import { type Json, startCloud, type TestCloud } from "../support/cloud.js";
import { addressIn, containerOf, describeDocker, openPlot, run } from "../support/docker.js";
import { openServer, type Target, waysInto } from "../support/intruder.js";
import { until } from "../support/until.js";

const privateOf = ({ ipv4 }: Json): string => ipv4.find((address: string) => address.startsWith("192.168."));

/** A server of this host, TCP and UDP at one port, that notes who came. */
const hostServer = async (host: string): Promise<{ port: number; came: string[] }> => {
  const came: string[] = [];
  const server = createServer((socket) => {
    came.push(`tcp from ${socket.remoteAddress}`);
    socket.on("error", () => undefined).end();
  });
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(0, host, resolve));
  onTestFinished(() => void server.close());
  const { port } = server.address() as { port: number };
  const box = createSocket(host.includes(":") ? "udp6" : "udp4", (_bytes, from) => {
    came.push(`udp from ${from.address}`);
    box.send("come in", from.port, from.address);
  });
  await new Promise<void>((resolve, reject) => box.once("error", reject).bind(port, host, resolve));
  onTestFinished(() => void box.close());
  return { port, came };
};

/** Wherever in a guest these bytes are: files of any mount, and the mounts, command lines and environments of its processes. */
const placesOf = async (guest: Docker.Container, word: string): Promise<string[]> => {
  const program = `
import glob, os, sys
word = bytes.fromhex(sys.argv[1])  # so that this process is no such place
paths = [path for name in ("environ", "cmdline", "mountinfo") for path in glob.glob("/proc/[0-9]*/" + name)]
for folder, folders, names in os.walk("/"):
    if folder == "/": folders[:] = [name for name in folders if name not in ("proc", "sys")]
    paths += [os.path.join(folder, name) for name in names]
for path in paths:
    try:
        if (path.startswith("/proc/") or os.path.isfile(path) and not os.path.islink(path)) and word in open(path, "rb").read(): print(path)
    except OSError: pass
`;
  const { text, exitCode } = await run(guest, ["python3", "-c", program, Buffer.from(word).toString("hex")]);
  expect(exitCode, text).toBe(0);
  return text.split("\n").filter((line) => line !== "");
};

describeDocker("what an instance cannot reach", () => {
  let cloud: TestCloud;
  let owner: string;
  let guest: Docker.Container;
  let neighbour: Json;
  let abroad: Json;
  /** The gateways of the guest's networks. */
  let gateways: string[];
  /** By what a guest may try to find this host: what leads to it from any guest of ours, and all its addresses. */
  let nearNames: string[];
  let hostNames: string[];

  const create = async (label: string, region: string): Promise<Json> => {
    const body = { region, type: "g6-nanode-1", image: "cloud/debian12", root_pass: "Correct-horse-1", private_ip: true, label };
    const made = await cloud.api.post("/v4/cloud/instances", body);
    expect(made.status, JSON.stringify(made.body)).toBe(200);
    return made.body;
  };
  const boxOf = async ({ id }: Json): Promise<Docker.Container> => (await containerOf(owner, id)) as Docker.Container;
  const gatewaysOf = async (box: Docker.Container): Promise<string[]> =>
    Object.values((await box.inspect()).NetworkSettings.Networks).map((network) => network.Gateway);
  const inside = (...command: string[]) => run(guest, command);

  beforeAll(async () => {
    cloud = await startCloud({ runtime: "docker" });
    owner = (await cloud.api.get("/_backlot/health")).body.owner;
    const first = await create("inside", "us-east");
    neighbour = await create("neighbour", "us-east");
    abroad = await create("abroad", "eu-west");
    for (const { id, label } of [first, neighbour, abroad]) {
      const isRunning = async () => (await cloud.api.get(`/v4/cloud/instances/${id}`)).body.status === "running";
      await until(isRunning, { withinMs: 60_000, what: `${label} running` });
    }
    guest = await boxOf(first);
    gateways = await gatewaysOf(guest);
    expect(gateways.length).toBe(2);
    const named = await inside("getent", "ahosts", "host.docker.internal");
    const own = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
    nearNames = [
      ...new Set([
        ...["127.0.0.1", "127.0.0.2", "localhost", "::1", "::ffff:127.0.0.1", "172.17.0.1"],
        ...named.text.split(/\s+/).filter((word) => isIP(word)),
        ...gateways,
        ...(await gatewaysOf(await boxOf(abroad))),
      ]),
    ];
    hostNames = [
      ...new Set([
        ...nearNames,
        ...own.filter(({ scopeid }) => !scopeid).map(({ address }) => address),
        // An address of one link only is asked for there.
        ...own.filter(({ scopeid }) => scopeid).flatMap(({ address }) => [`${address}%eth0`, `${address}%eth1`]),
      ]),
    ];
  });
  afterAll(async () => {
    for (const { id } of (await cloud.api.get("/v4/cloud/instances")).body.data) await cloud.api.del(`/v4/cloud/instances/${id}`);
    await until(async () => (await cloud.api.get("/v4/cloud/instances")).body.results === 0, { withinMs: 60_000, what: "no instance" });
    await cloud.close();
  });

  test("the host's loopback, by whatever name, protocol, device or route; what the host opens to its networks it does reach", async () => {
    const loopbacks = [await hostServer("127.0.0.1")];
    if (networkInterfaces().lo?.some(({ address }) => address === "::1")) loopbacks.push(await hostServer("::1"));
    const places = hostNames.flatMap((host) => loopbacks.map(({ port }) => ({ host, port })));
    expect(await waysInto(guest, places)).toEqual([]);
    expect(loopbacks.flatMap(({ came }) => came)).toEqual([]);
    const host = gateways[0] ?? "";
    const opened = await hostServer(host);
    const ways = await waysInto(guest, [{ host, port: opened.port }]);
    expect(ways).toEqual(expect.arrayContaining([`tcp ${host} port ${opened.port}`, `udp ${host} port ${opened.port}`]));
    expect(opened.came.length).toBeGreaterThanOrEqual(ways.length);
  });

  test("the API and the balancers, which listen on the loopback", async () => {
    const { id } = await createBalancer(cloud);
    const { listener } = await listening(cloud, await createConfig(cloud, id, { port: 20_190 }));
    const api = Number(new URL(cloud.url).port);
    expect(await isListening({ host: listener.address, port: listener.port })).toBe(true);
    const places = [listener.address, ...hostNames].flatMap((host) => [api, listener.port].map((port) => ({ host, port })));
    expect(await waysInto(guest, places)).toEqual([]);
  });

  test("what leads to the API is nowhere in it: no token, no port, no folder of the state", async () => {
    expect(await placesOf(guest, "BACKLOT_FILE_SYSTEM=")).toContain("/proc/1/environ");
    for (const place of ["/mnt/planted", "/dev/shm/planted"]) {
      await inside("sh", "-c", `echo a-word-that-was-planted >${place}`);
      expect(await placesOf(guest, "a-word-that-was-planted")).toEqual([place]);
      await inside("rm", place);
    }
    for (const word of [cloud.token, `:${new URL(cloud.url).port}/`, cloud.state, "Correct-horse-1"])
      expect(await placesOf(guest, word), word).toEqual([]);
  });

  test("the engine: no socket of it, no port, no device, no right to make a way", async () => {
    const { text: sockets } = await inside(
      "sh",
      "-c",
      "find / -xdev -type s 2>/dev/null; ls /var/run/docker.sock /run/docker.sock /run/containerd 2>/dev/null",
    );
    expect(sockets).not.toMatch(/docker|containerd|podman/);
    const { text: mounts } = await inside("cat", "/proc/self/mountinfo");
    expect(mounts).not.toMatch(/\.sock/);
    expect(
      await waysInto(
        guest,
        nearNames.flatMap((host) => [2375, 2376].map((port) => ({ host, port }))),
      ),
    ).toEqual([]);
    const refused = {
      "a device": "mknod /tmp/disk b 8 0",
      "a mount": "mount -t tmpfs none /mnt",
      "a network device": "ip link add x type dummy",
      "an address": "ip addr add 192.168.254.254/32 dev eth0",
      "a route": `ip route add 192.168.254.254/32 via ${gateways[0]}`,
      "a neighbour": "ip neigh replace 192.168.254.254 lladdr 02:42:00:00:00:01 dev eth0",
      "a setting of the network": "echo 1 >/proc/sys/net/ipv4/conf/all/route_localnet",
      "a program for the kernel": "echo '|/tmp/x' >/proc/sys/kernel/core_pattern",
      "a group of processes": "cd /sys/fs/cgroup; [ -d pids ] && cd pids; mkdir x",
      "a namespace": "unshare --user --map-root-user --net true",
      "a raw packet": 'python3 -c "import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)"',
      "a raw datagram": 'python3 -c "import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)"',
      "a sender that is not its own":
        "python3 -c \"import socket; s = socket.socket(); s.setsockopt(0, socket.IP_TRANSPARENT if hasattr(socket, 'IP_TRANSPARENT') else 19, 1)\"",
    };
    const made: string[] = [];
    for (const [what, command] of Object.entries(refused)) if ((await inside("sh", "-c", command)).exitCode === 0) made.push(what);
    expect(made).toEqual([]);
  });

  test("another region's private network; its own region's it does reach", async () => {
    const places = new Map<Json, Target>();
    for (const instance of [neighbour, abroad]) {
      const place = { host: privateOf(instance), port: 7_070 };
      const exec = await (await boxOf(instance)).exec({ Cmd: ["python3", "-c", openServer(place.host, place.port)] });
      await exec.start({ Detach: true });
      await until(() => isListening(place), { what: `a server in ${instance.label}` });
      places.set(instance, place);
    }
    const near = places.get(neighbour) as Target;
    const ways = await waysInto(guest, [near]);
    expect(ways).toEqual(expect.arrayContaining([`tcp ${near.host} port 7070`, `udp ${near.host} port 7070 by eth1 around the routes`]));
    expect(await waysInto(guest, [places.get(abroad) as Target])).toEqual([]);
    // Both are on the public network, where they do meet: what keeps them apart is which address is asked for.
    const [publicAddress] = abroad.ipv4;
    expect(await waysInto(guest, [{ host: publicAddress, port: 22 }])).toContain(`tcp ${publicAddress} port 22 by eth0 around the routes`);
  });
});

describeDocker("what an instance writes about itself", () => {
  test("is no command for the container that gives it addresses, which has more rights than it", async () => {
    const plot = await openPlot();
    onTestFinished(() => plot.close());
    const [first, second] = [plot.spec(), plot.spec({ privateAddresses: [1, 101].map((index) => addressIn(plot.options.privatePool, index)) })];
    await plot.driver.ensure(first);
    const guest = (await containerOf(plot.options.owner, 1)) as Docker.Container;
    const command = "ip route add 192.0.2.1 dev eth0".replaceAll(" ", "\u0024{IFS}");
    const notes = [`$(${command})`, `\`${command}\``, `10.0.0.1/32;${command};true`, `10.0.0.1/32\n${command};true`, `$(${command})10.0.0.1/32`];
    for (const note of notes) {
      await run(guest, ["python3", "-c", "import sys; open('/var/lib/backlot/extra-addresses', 'w').write(sys.argv[1])", note]);
      const next = await plot.again();
      const refused = await next.ensure(second).then(
        () => undefined,
        (error: unknown) => error,
      );
      expect((await run(guest, ["ip", "route"])).text, note).not.toContain("192.0.2.1");
      expect(refused).toBeUndefined();
      expect((await run(guest, ["ip", "-4", "addr"])).text).toContain(`${second.privateAddresses[1]}/`);
      await next.ensure(first);
    }
  });
});
