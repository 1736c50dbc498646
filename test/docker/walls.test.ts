import { createServer, type Server } from "node:net";
import type Docker from "dockerode";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Json, startCloud, type TestCloud } from "../support/cloud.js";
import { containerOf, describeDocker, docker, run } from "../support/docker.js";
import { until } from "../support/until.js";

describeDocker("what an instance cannot reach", () => {
  let cloud: TestCloud;
  let owner: string;
  let guest: Docker.Container;
  let neighbour: Json;
  let abroad: Json;
  /** Addresses by which a guest may know its host. */
  let gateways: string[];
  const servers: Server[] = [];

  const create = async (label: string, region: string): Promise<Json> => {
    const body = { region, type: "g6-nanode-1", image: "cloud/debian12", root_pass: "Correct-horse-1", private_ip: true, label };
    const made = await cloud.api.post("/v4/cloud/instances", body);
    expect(made.status, JSON.stringify(made.body)).toBe(200);
    return made.body;
  };
  const inside = (...command: string[]) => run(guest, command);

  /** What a TCP client in the guest learns of a place: `open`, or why not. */
  const knock = async (host: string, port: number): Promise<string> => {
    const program = `
import socket, sys
try:
    socket.create_connection(("${host}", ${port}), 2).close()
    print("open")
except OSError as error:
    print(type(error).__name__)
`;
    return (await inside("python3", "-c", program)).text.trim();
  };

  /** A server of this host that counts who came. */
  const hostServer = async (host: string): Promise<{ port: number; came(): number }> => {
    let came = 0;
    const server = createServer((socket) => {
      came += 1;
      socket.on("error", () => undefined).end();
    });
    await new Promise<void>((resolve, reject) => server.once("error", reject).listen(0, host, resolve));
    servers.push(server);
    return { port: (server.address() as { port: number }).port, came: () => came };
  };

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
    guest = (await containerOf(owner, first.id)) as Docker.Container;
    const { NetworkSettings } = await guest.inspect();
    gateways = Object.values(NetworkSettings.Networks).map((network) => network.Gateway);
    expect(gateways.length).toBe(2);
  });
  afterAll(async () => {
    for (const server of servers) server.close();
    for (const { id } of (await cloud.api.get("/v4/cloud/instances")).body.data) await cloud.api.del(`/v4/cloud/instances/${id}`);
    await until(async () => (await cloud.api.get("/v4/cloud/instances")).body.results === 0, { withinMs: 60_000, what: "no instance" });
    await cloud.close();
  });

  test("the host's loopback, by whatever address; what the host opens to its networks it does reach", async () => {
    const loopback = await hostServer("127.0.0.1");
    const opened = await hostServer(gateways[0] ?? "");
    for (const host of ["127.0.0.1", "127.0.0.2", "localhost", "host.docker.internal", "172.17.0.1", ...gateways]) {
      expect(await knock(host, loopback.port), host).not.toBe("open");
    }
    expect(loopback.came()).toBe(0);
    expect(await knock(gateways[0] ?? "", opened.port)).toBe("open");
    expect(opened.came()).toBe(1);
  });

  test("the API and the balancers, which listen on the loopback; and it holds no token", async () => {
    const { port } = new URL(cloud.url);
    for (const host of ["127.0.0.1", "172.17.0.1", ...gateways]) expect(await knock(host, Number(port)), host).not.toBe("open");
    // As bytes in every file and environment of the guest, the state's folder name included: nothing there leads to the API.
    for (const word of [cloud.token, `:${port}/`]) {
      const { text } = await inside(
        "sh",
        "-c",
        `grep -rlsF -- '${word}' /etc /root /home /run /tmp /var /opt /srv 2>/dev/null; cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep -F -- '${word}'`,
      );
      expect(
        text
          .trim()
          .split("\n")
          .filter((line) => line !== "" && !line.includes("/proc/")),
        word,
      ).toEqual([]);
    }
  });

  test("the engine: no socket of it, no port, no device, no way to make one", async () => {
    const { text: sockets } = await inside(
      "sh",
      "-c",
      "find / -xdev -type s 2>/dev/null; ls /var/run/docker.sock /run/docker.sock /run/containerd 2>/dev/null",
    );
    expect(sockets).not.toMatch(/docker|containerd|podman/);
    const { text: mounts } = await inside("cat", "/proc/self/mountinfo");
    expect(mounts).not.toMatch(/\.sock|backlot\/state/);
    for (const host of ["127.0.0.1", "172.17.0.1", ...gateways])
      for (const port of [2375, 2376]) expect(await knock(host, port), `${host}:${port}`).not.toBe("open");
    expect((await inside("mknod", "/tmp/disk", "b", "8", "0")).exitCode).not.toBe(0);
    expect((await inside("mount", "-t", "tmpfs", "none", "/mnt")).exitCode).not.toBe(0);
    expect((await inside("ip", "link", "add", "x", "type", "dummy")).exitCode).not.toBe(0);
  });

  test("another region's private network; its own region's it does reach", async () => {
    const privateOf = ({ ipv4 }: Json): string => ipv4.find((address: string) => address.startsWith("192.168."));
    // sshd runs in every instance.
    await until(async () => (await knock(privateOf(neighbour), 22)) === "open", { withinMs: 30_000, what: "a neighbour's sshd" });
    await until(async () => (await docker.getContainer((await containerOf(owner, abroad.id))?.id ?? "").inspect()).State.Running, { what: "abroad" });
    expect(await knock(privateOf(abroad), 22)).not.toBe("open");
    // With the route laid by hand as well, were it allowed to.
    await inside("ip", "route", "add", `${privateOf(abroad)}/32`, "via", gateways[0] ?? "");
    expect(await knock(privateOf(abroad), 22)).not.toBe("open");
  });
});
