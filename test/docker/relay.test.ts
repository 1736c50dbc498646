import { execFileSync } from "node:child_process";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { Agent, request } from "node:http";
import { connect } from "node:net";
import type Docker from "dockerode";
import { afterAll, afterEach, beforeAll, expect, onTestFinished, test } from "vitest";
import { type RelayDoor, RelayedSocket } from "#backlot/kernel/relay.js";
import { configPath, createBalancer, createConfig, createNode, listening, nodePath, type Place } from "../api/world.js";
import { type Json, startCloud, type TestCloud } from "../support/cloud.js";
import { addressIn, containerOf, describeDocker, docker, openPlot, type Plot, run } from "../support/docker.js";
import { waysInto } from "../support/intruder.js";
import { until } from "../support/until.js";

const within = { withinMs: 30_000 };

/** What it is like where containers cannot be dialled: nothing of this machine reaches the range but the engine's own way to a published port. */
const wallOff = (range: string): (() => void) => {
  const rule = ["OUTPUT", "-d", range, "-p", "tcp", "!", "--dport", "4750", "-j", "DROP"];
  execFileSync("iptables", ["-I", ...rule]);
  return () => void execFileSync("iptables", ["-D", ...rule]);
};

const relaysOf = (owner: string) => docker.listContainers({ all: true, filters: { label: [`io.backlot.owner=${owner}`, "io.backlot.relay"] } });

const secretOf = async (id: string): Promise<string> => (await run(docker.getContainer(id), ["cat", "/etc/backlot-relay/secret"])).text.trim();

const doorOf = async (owner: string): Promise<RelayDoor> => {
  const [relay] = await relaysOf(owner);
  if (!relay) throw new Error("there is no relay");
  return { host: "127.0.0.1", port: relay.Ports.find(({ PublicPort }) => PublicPort)?.PublicPort ?? 0, secret: await secretOf(relay.Id) };
};

/** How a connection begins: `connect`, or the code of its error. */
const beginning = (socket: RelayedSocket): Promise<string> =>
  new Promise((resolve) => {
    socket.once("connect", () => resolve("connect"));
    socket.once("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
  }).finally(() => socket.destroy()) as Promise<string>;

const get = (place: Place, agent: Agent | false = false): Promise<{ status: number; text: string; reason: string }> =>
  new Promise((resolve, reject) => {
    const outgoing = request({ host: place.host, port: place.port, agent }, (incoming) => {
      const chunks: Buffer[] = [];
      incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
      incoming.on("error", reject);
      incoming.on("end", () =>
        resolve({ status: incoming.statusCode ?? 0, text: Buffer.concat(chunks).toString(), reason: incoming.rawHeaders.join(" ") }),
      );
    });
    outgoing.on("error", reject);
    outgoing.end();
  });

describeDocker("a cloud whose containers cannot be dialled", () => {
  let cloud: TestCloud;
  let owner: string;
  let open: () => void;
  let instances: Array<{ id: number; address: string }>;

  const ok = async (asked: Promise<{ status: number; body: Json }>): Promise<Json> => {
    const { status, body } = await asked;
    expect(status, JSON.stringify(body)).toBe(200);
    return body;
  };
  const nodeIs = (node: Json, status: string) =>
    until(async () => (await cloud.api.get(nodePath(node))).body.status === status, { ...within, what: `node ${node.id} ${status}` });
  const lastReason = async (node: Json): Promise<string> => (await cloud.api.get(`/_backlot/nodes/${node.id}/probes`)).body.probes.at(-1)?.reason;
  const balanced = async (more: object, port: number): Promise<{ config: Json; place: Place; nodes: Json[] }> => {
    const { id } = await createBalancer(cloud);
    const config = await createConfig(cloud, id, { check: "connection", ...more });
    const nodes: Json[] = [];
    for (const { address } of instances) nodes.push(await createNode(cloud, config, `${address}:${port}`));
    const { listener } = await listening(cloud, config);
    return { config, nodes, place: { host: listener.address, port: listener.port } };
  };
  /** Has a program run in every guest, in the background. */
  const serve = async (program: string): Promise<void> => {
    for (const { id } of instances) {
      const exec = await (await containerOf(owner, id))?.exec({ Cmd: ["python3", "-c", program] });
      await exec?.start({ Detach: true });
    }
  };

  beforeAll(async () => {
    cloud = await startCloud({ runtime: "docker", dial: "relay" });
    open = wallOff(cloud.config.privatePool);
    owner = (await cloud.api.get("/_backlot/health")).body.owner;
    const wanted = { region: "us-east", type: "g6-nanode-1", image: "cloud/debian12", root_pass: "Correct-horse-1", private_ip: true, script_id: 1 };
    instances = [];
    for (const label of ["web-1", "web-2"]) {
      const { id } = await ok(cloud.api.post("/v4/cloud/instances", { ...wanted, label }));
      await until(async () => (await cloud.api.get(`/v4/cloud/instances/${id}`)).body.status === "running", { ...within, what: label });
      const { private: own } = (await ok(cloud.api.get(`/v4/cloud/instances/${id}/ips`))).ipv4;
      instances.push({ id, address: own[0].address });
    }
  });
  afterAll(async () => {
    for (const { id } of (await cloud.api.get("/v4/cloud/instances")).body.data) await cloud.api.del(`/v4/cloud/instances/${id}`);
    await until(async () => (await cloud.api.get("/v4/cloud/instances")).body.results === 0, { ...within, what: "no instance" });
    const filters = { label: [`io.backlot.owner=${owner}`] };
    const left = [await docker.listContainers({ all: true, filters }), await docker.listNetworks({ filters })];
    await cloud.close();
    open();
    expect(left).toEqual([[], []]);
  });

  test("no address of a container answers here, and the balanced service works: both nodes, one killed, one drained", async () => {
    const { address } = instances[0] as { address: string };
    const direct = connect({ host: address, port: 80, timeout: 500 });
    direct.on("error", () => {});
    const [event] = await Promise.race([once(direct, "timeout").then(() => ["silent"]), once(direct, "connect").then(() => ["connected"])]);
    direct.destroy();
    expect(event).toBe("silent");

    const { place, nodes } = await balanced({ check: "http", check_path: "/", port: 20_180 }, 80);
    for (const node of nodes) await nodeIs(node, "UP");
    const pages = async () => {
      const answers = await Promise.all(Array.from({ length: 8 }, () => get(place)));
      expect(answers.map(({ status }) => status)).toEqual(Array(8).fill(200));
      return new Set(answers.map(({ text }) => /instance=(web-\d)/.exec(text)?.[1]));
    };
    expect(await pages()).toEqual(new Set(["web-1", "web-2"]));

    await ok(cloud.api.put(nodePath(nodes[1]), { mode: "drain" }));
    await until(async () => (await pages()).size === 1 && (await pages()).has("web-1"), { ...within, what: "web-2 drained" });
    await ok(cloud.api.put(nodePath(nodes[1]), { mode: "accept" }));

    await (await containerOf(owner, (instances[0] as { id: number }).id))?.kill({ signal: "SIGKILL" });
    await nodeIs(nodes[0], "DOWN");
    expect(await pages()).toEqual(new Set(["web-2"]));
    await nodeIs(nodes[0], "UP"); // the watchdog
    await until(async () => (await pages()).size === 2, { ...within, what: "both again" });
  });

  test("a port where nobody listens is refused, an address nobody has is not reachable: as dialled directly", async () => {
    const { config, nodes, place } = await balanced({ port: 20_181, check_attempts: 1 }, 81);
    for (const node of nodes) await nodeIs(node, "DOWN");
    expect(await lastReason(nodes[0])).toBe("connection refused");
    expect((await get(place)).status).toBe(503);
    // Without checks it is tried, and the client reads why not.
    await ok(cloud.api.put(configPath(config), { check: "none" }));
    const answer = await until(async () => /refused the connection/.test((await get(place)).text) && (await get(place)), {
      ...within,
      what: "a tried node",
    });
    expect(answer.status).toBe(503);
    const nobody = (instances[0] as { address: string }).address.replace(/\d+$/, (last) => String(Number(last) + 6));
    expect(await beginning(new RelayedSocket("tcp", { host: nobody, port: 80 }, await doorOf(owner)))).toBe("EHOSTUNREACH");
  });

  test("tcp keeps half-closed connections and every byte; udp keeps datagrams apart and their answers", async () => {
    await serve(`
import socket, threading
listener = socket.create_server(("0.0.0.0", 7001), backlog=50)
def one(peer):
    heard = b""
    while chunk := peer.recv(65536): heard += chunk
    peer.sendall(b"%d " % len(heard) + heard)
    peer.close()
def udp():
    box = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); box.bind(("0.0.0.0", 7001))
    while True:
        data, source = box.recvfrom(65536); box.sendto(b"%d " % len(data) + data, source)
threading.Thread(target=udp, daemon=True).start()
while True:
    peer, _ = listener.accept(); threading.Thread(target=one, args=(peer,), daemon=True).start()
`);
    const tcp = await balanced({ protocol: "tcp", port: 20_182 }, 7001);
    for (const node of tcp.nodes) await nodeIs(node, "UP");
    const sent = Buffer.alloc(3_000_000, "backlot ");
    const client = connect({ ...tcp.place, allowHalfOpen: true });
    client.end(sent); // the node answers only to the end of what it was sent
    const chunks: Buffer[] = [];
    for await (const chunk of client) chunks.push(chunk as Buffer);
    expect(Buffer.concat(chunks).equals(Buffer.concat([Buffer.from(`${sent.length} `), sent]))).toBe(true);

    const udp = await balanced({ protocol: "udp", port: 20_183, udp_check_port: 7001 }, 7001);
    for (const node of udp.nodes) await nodeIs(node, "UP");
    const box = createSocket("udp4");
    const heard: string[] = [];
    box.on("message", (bytes) => heard.push(bytes.toString().slice(0, 12)));
    for (const size of [1, 1200, 9000]) box.send(Buffer.alloc(size, "x"), udp.place.port, udp.place.host);
    await until(() => heard.length === 3, { ...within, what: `three answers, not ${heard}` });
    box.close();
    expect(heard.map((text) => Number(text.split(" ")[0])).sort((a, b) => a - b)).toEqual([1, 1200, 9000]);
  });

  test("who has not the secret is not let in, and who has it gets nowhere else; the secret shows nowhere", async () => {
    const [relay] = await relaysOf(owner);
    const door = await doorOf(owner);
    expect(relay?.Ports.filter(({ PublicPort }) => PublicPort).map(({ IP }) => IP)).toEqual(["127.0.0.1"]);
    const target = { host: (instances[0] as { address: string }).address, port: 80 };
    expect(await beginning(new RelayedSocket("tcp", target, door))).toBe("connect");
    expect(await beginning(new RelayedSocket("tcp", target, { ...door, secret: "0".repeat(48) }))).toBe("ERELAY");
    const silent = connect(door);
    silent.write(`GET / HTTP/1.1\r\nHost: x\r\n\r\n${" ".repeat(300)}`);
    const said: Buffer[] = [];
    silent.on("data", (chunk) => said.push(chunk));
    silent.on("error", () => {});
    await once(silent, "close");
    expect(said).toEqual([]);
    const gateway = target.host.replace(/\d+$/, (last) => String(Math.floor(Number(last) / 16) * 16 + 1));
    for (const host of [gateway, "127.0.0.1", "172.17.0.1", "198.18.0.1", "8.8.8.8"])
      expect(await beginning(new RelayedSocket("tcp", { host, port: 4750 }, door))).toBe("ERELAY");
    expect(JSON.stringify(await docker.getContainer(relay?.Id ?? "").inspect())).not.toContain(door.secret);
    expect(
      JSON.stringify((await run(docker.getContainer(relay?.Id ?? ""), ["sh", "-c", "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ"])).text),
    ).not.toContain(door.secret);
    const { body } = await cloud.api.get(`/_backlot/dial?address=${target.host}&port=80`);
    expect(body).toEqual({ ...target, relay: { host: "127.0.0.1", port: door.port } });
    const row = (await cloud.api.get("/_backlot/capabilities")).body.rows.find(({ subject }: Json) => subject === "Dialling of private addresses");
    expect(row.note).toContain(`us-east: 127.0.0.1 port ${door.port}`);
    expect(row.note).not.toContain(door.secret);
  });

  test("a guest, which shares the relay's network, is not let in either, nor reaches the port it is published at", async () => {
    const [relay] = await relaysOf(owner);
    const door = await doorOf(owner);
    const guest = (await containerOf(owner, (instances[0] as { id: number }).id)) as Docker.Container;
    const host = Object.values(relay?.NetworkSettings.Networks ?? {})[0]?.IPAddress ?? "";
    const target = `${(instances[1] as { address: string }).address} 80`;
    const program = `
import socket, sys
for secret in sys.argv[1:]:
    for verb in ("tcp", "udp", "hold"):
        peer = socket.create_connection(("${host}", 4750), 10)
        try:
            peer.sendall(f"{secret} {verb} ${target}\\n".encode())
            print(repr(peer.recv(1)))
        except ConnectionError:
            print(repr(b""))
`;
    // The last is what it would be with it.
    const secrets = ["", "0".repeat(48), door.secret.slice(0, -1), `${door.secret}0`, door.secret.toUpperCase(), door.secret];
    const said = (await run(guest, ["python3", "-c", program, ...secrets])).text.trim().split("\n");
    expect(said).toEqual([...Array(15).fill("b''"), ...Array(3).fill("b'+'")]);
    const { Networks } = (await guest.inspect()).NetworkSettings;
    const places = ["127.0.0.1", "172.17.0.1", ...Object.values(Networks).map(({ Gateway }) => Gateway)];
    expect(
      await waysInto(
        guest,
        places.map((each) => ({ host: each, port: door.port })),
      ),
    ).toEqual([]);
  });

  test("a relay that dies takes its nodes down with the reason, another takes its place, and connections that are kept notice", async () => {
    const { nodes, place } = await balanced({ check: "http", check_path: "/", port: 20_184 }, 80);
    for (const node of nodes) await nodeIs(node, "UP");
    await serve(`
import socket
box = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); box.bind(("0.0.0.0", 7002))
while True: box.sendto(*box.recvfrom(65536))
`);
    const udp = await balanced({ protocol: "udp", port: 20_185, check: "none" }, 7002);
    const box = createSocket("udp4");
    onTestFinished(() => void box.close());
    let heard = 0;
    box.on("message", () => (heard += 1));
    const says = (what: string) =>
      until(
        () => {
          box.send("ping", udp.place.port, udp.place.host);
          return heard > 0;
        },
        { ...within, what },
      );
    await says("an answer to a datagram");
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    expect((await get(place, agent)).status).toBe(200);
    const [before] = await relaysOf(owner);
    await docker.getContainer(before?.Id ?? "").kill();
    const reasons = async (node: Json): Promise<string[]> =>
      (await cloud.api.get(`/_backlot/nodes/${node.id}/probes`)).body.probes.map(({ reason }: Json) => reason);
    for (const node of nodes)
      await until(async () => (await reasons(node)).includes("the relay of us-east was lost and is being replaced"), {
        ...within,
        what: "the reason",
      });
    for (const node of nodes) await nodeIs(node, "UP");
    expect((await get(place, agent)).status).toBe(200);
    agent.destroy();
    heard = 0;
    await says("an answer to the client that sent datagrams before the relay was lost");
    const relays = await relaysOf(owner);
    expect(relays).toHaveLength(1);
    expect(relays[0]?.Id).not.toBe(before?.Id);
  });

  test("a relay that cannot be made is a notification with the reason, until there is one", async () => {
    const { nodes } = await balanced({ port: 20_186 }, 80);
    for (const node of nodes) await nodeIs(node, "UP");
    const told = async (): Promise<Json> =>
      (await cloud.api.get("/v4/account/notifications")).body.data.find(({ label }: Json) => label === "Private addresses are out of reach");
    // The relay that died just now may have been told of.
    await until(async () => (await told()) === undefined, { ...within, what: "no notification" });
    const [relay] = await relaysOf(owner);
    const held = docker.getContainer(relay?.Id ?? "");
    const name = relay?.Names[0]?.slice(1) ?? "";
    await held.rename({ name: `${name}-old` });
    const stranger = await docker.createContainer({ name, Image: relay?.Image ?? "", Labels: {} });
    const goAway = () => stranger.remove({ force: true }).catch(() => {});
    onTestFinished(goAway);
    await held.kill();
    // First that it was lost, then why there is no other.
    const notice = await until(
      async () => {
        const found = await told();
        return found?.message.includes(name) && found;
      },
      { ...within, what: "the notification" },
    );
    expect(notice).toMatchObject({ type: "notice", severity: "critical", entity: null });
    expect(notice.message).toMatch(/^Balancers and health checks do not reach the instances of us-east: .* is taken by .* Remove or rename it\.$/);
    for (const node of nodes) await nodeIs(node, "DOWN");
    await goAway();
    for (const node of nodes) await nodeIs(node, "UP");
    await until(async () => (await told()) === undefined, { ...within, what: "no notification" });
  });
});

describeDocker("the driver's way to private addresses", () => {
  const closing: Array<() => Promise<void> | void> = [];
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });
  const plot = async (...overrides: Parameters<typeof openPlot>): Promise<Plot> => {
    const opened = await openPlot(...overrides);
    closing.push(() => opened.close());
    return opened;
  };
  const wayOf = (driver: Plot["driver"]): string =>
    driver.capabilities().rows.find(({ subject }) => subject === "Dialling of private addresses")?.note ?? "";

  test("auto: addresses that answer are dialled, and no relay is made", async () => {
    const { driver, spec, options } = await plot();
    expect(wayOf(driver)).toMatch(/tried with the first machine/);
    await driver.ensure(spec());
    const address = addressIn(options.privatePool, 1);
    expect(driver.dial(address, 80)).toEqual({ host: address, port: 80 });
    expect(wayOf(driver)).toContain(`${address} answered`);
    expect(await relaysOf(options.owner)).toEqual([]);
  });

  test("auto: addresses that are silent are reached by a relay that one start leaves to the next, and --dial direct removes", async () => {
    const { driver, spec, options, again } = await plot();
    closing.push(wallOff(options.privatePool));
    await driver.ensure(spec());
    const address = addressIn(options.privatePool, 1);
    expect(wayOf(driver)).toContain(`${address} cannot be dialled`);
    const reached = driver.dial(address, 22);
    if (!reached?.via || "missing" in reached.via) throw new Error(JSON.stringify(reached));
    expect(await beginning(new RelayedSocket("tcp", reached, reached.via))).toBe("connect");
    const [relay] = await relaysOf(options.owner);

    // As after kill -9: nobody removed it.
    const next = await again({ dial: "relay" });
    expect(next.dial(address, 22)).toEqual(reached);
    expect((await relaysOf(options.owner)).map(({ Id }) => Id)).toEqual([relay?.Id]);

    await driver.close();
    await next.close();
    expect(await relaysOf(options.owner)).toEqual([]);
    const third = await again({ dial: "relay" });
    expect(await relaysOf(options.owner)).toHaveLength(1);
    await again({ dial: "direct" });
    await third.close();
    expect(await relaysOf(options.owner)).toEqual([]);
  });

  test("a relay that nobody holds ends by itself; one that is held does not", async () => {
    const { options, spec, again } = await plot();
    const driver = await again({ dial: "relay" });
    await driver.ensure(spec());
    const [relay] = await relaysOf(options.owner);
    const said = await run(docker.getContainer(relay?.Id ?? ""), [
      "python3",
      "-c",
      `
import socket, subprocess, time
secret = open("/etc/backlot-relay/secret", "rb").read().strip()
relay = subprocess.Popen(["python3", "/etc/backlot-relay/relay.py", "10.0.0.0/8", "4751", "/etc/backlot-relay/secret", "0.6"])
def held():
    while True:
        try: peer = socket.create_connection(("127.0.0.1", 4751)); break
        except ConnectionRefusedError: pass
    peer.sendall(secret + b" hold 0.0.0.0 0\\n")
    assert peer.recv(1) == b"+"
    return peer
peer = held()
try: relay.wait(1.5); print("ended while held")
except subprocess.TimeoutExpired: print("held")
peer.close()
print("ended", relay.wait(20))
`,
    ]);
    expect(said.text.trim().split("\n")).toEqual(["held", "ended 0"]);
  });

  test("a container that has the relay's name and is not ours is not touched, and the reason says so", async () => {
    const { options, again, spec } = await plot();
    const name = `backlot-${options.owner.slice(0, 8)}-us-east-relay`;
    const [image] = (await docker.listImages({ filters: { label: ["io.backlot.guest"] } })).flatMap(({ RepoTags }) => RepoTags ?? []);
    const stranger = await docker.createContainer({ name, Image: image ?? "", Labels: {} });
    closing.push(() => stranger.remove({ force: true }));
    const problems: string[] = [];
    const driver = await again({ dial: "relay", onProblem: (reason) => problems.push(reason) });
    await driver.ensure(spec());
    const reached = driver.dial(addressIn(options.privatePool, 1), 22);
    expect(reached?.via).toEqual({ missing: expect.stringContaining(`${name} is taken`) });
    expect(problems.join()).toContain(`${name} is taken`);
    expect((await stranger.inspect()).State.Status).toBe("created");
    await stranger.remove({ force: true });
    closing.pop();
    await until(() => !("missing" in (driver.dial(addressIn(options.privatePool, 1), 22)?.via ?? {})), { ...within, what: "a relay" });
  });
});
