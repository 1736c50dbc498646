import { type AddressInfo, createServer, type Socket } from "node:net";
import type Docker from "dockerode";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Json, startCloud, type TestCloud } from "../support/cloud.js";
import { containerOf, describeDocker, docker, openPlot, run } from "../support/docker.js";
import { until } from "../support/until.js";

describeDocker("changes to an instance on a Docker engine", () => {
  let cloud: TestCloud;
  let owner: string;

  beforeAll(async () => {
    cloud = await startCloud({ runtime: "docker", speed: 100 });
    owner = (await cloud.api.get("/_backlot/health")).body.owner;
  });
  afterAll(async () => {
    for (const { id } of (await cloud.api.get("/v4/cloud/instances")).body.data) await cloud.api.del(`/v4/cloud/instances/${id}`);
    await until(async () => (await cloud.api.get("/v4/cloud/instances")).body.results === 0, { withinMs: 30_000, what: "no instance" });
    const left = await docker.listContainers({ all: true, filters: { label: [`io.backlot.owner=${owner}`] } });
    const images = await docker.listImages({ filters: { label: [`io.backlot.owner=${owner}`] } });
    await cloud.close();
    expect([left, images]).toEqual([[], []]);
  });

  const path = (id: number, rest = "") => `/v4/cloud/instances/${id}${rest}`;
  const post = async (id: number, verb: string, body: object = {}): Promise<Json> => {
    const answer = await cloud.api.post(path(id, `/${verb}`), body);
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    return answer.body;
  };
  const reaches = (id: number, wanted: string): Promise<Json> =>
    until(
      async () => {
        const { body } = await cloud.api.get(path(id));
        return body.status === wanted && body;
      },
      { withinMs: 60_000, what: `instance ${id} ${wanted}` },
    );
  const create = async (more: object = {}): Promise<number> => {
    const wanted = { region: "us-east", type: "g6-nanode-1", image: "cloud/debian12", root_pass: "Correct-horse-1", ...more };
    const { body } = await cloud.api.post("/v4/cloud/instances", wanted);
    return body.id;
  };
  const box = async (id: number): Promise<Docker.Container> => {
    const found = await containerOf(owner, id);
    if (!found) throw new Error(`instance ${id} has no container`);
    return found;
  };
  const shell = async (id: number, command: string): Promise<string> => (await run(await box(id), ["sh", "-c", command])).text.trim();

  test("a resize changes the limits of the same container, and its files stay", async () => {
    const id = await create();
    await reaches(id, "running");
    const before = await (await box(id)).inspect();
    expect([before.HostConfig.Memory, before.HostConfig.NanoCpus]).toEqual([1024 * 2 ** 20, 1e9]);
    await shell(id, "echo precious >/root/mark");
    await post(id, "resize", { type: "g6-standard-2", allow_auto_disk_resize: false });
    await reaches(id, "running");
    const after = await (await box(id)).inspect();
    const { NCPU } = (await docker.info()) as { NCPU: number };
    expect([after.Id, after.HostConfig.Memory, after.HostConfig.NanoCpus]).toEqual([before.Id, 4096 * 2 ** 20, Math.min(2, NCPU) * 1e9]);
    expect(after.State.StartedAt).not.toBe(before.State.StartedAt);
    expect(await shell(id, "cat /root/mark")).toBe("precious");

    await post(id, "resize", { type: "g6-standard-1", migration_type: "warm" });
    await reaches(id, "running");
    const warm = await (await box(id)).inspect();
    expect([warm.HostConfig.Memory, warm.HostConfig.NanoCpus, warm.State.StartedAt]).toEqual([2048 * 2 ** 20, 1e9, after.State.StartedAt]);
  });

  test("a clone has the files, its own addresses and host, and none of the source's hand-over; a rebuild has nothing", async () => {
    const userData = Buffer.from("#cloud-config of both").toString("base64");
    const id = await create({ script_id: 1, script_data: {}, metadata: { user_data: userData } });
    await reaches(id, "running");
    expect(await shell(id, "cat /etc/backlot/user-data")).toBe("#cloud-config of both");
    await until(async () => (await shell(id, "cat /var/lib/backlot/script-exit")) === "0", { withinMs: 30_000, what: "the script's end" });
    await shell(id, "echo precious >/root/mark");
    const clone = await post(id, "clone", { region: "eu-west", type: "g6-nanode-1", label: "the-clone" });
    await reaches(clone.id, "offline");
    await reaches(id, "running");
    await post(clone.id, "boot");
    const { ipv4 } = await reaches(clone.id, "running");
    expect(await shell(clone.id, "cat /root/mark; hostname; . /etc/backlot/machine.env; echo $BACKLOT_INSTANCE $BACKLOT_PUBLIC_ADDRESS")).toBe(
      `precious\nthe-clone\n${clone.id} ${ipv4[0]}`,
    );
    expect(await shell(clone.id, "ls /etc/backlot/script /var/lib/backlot/script-exit 2>&1 | grep -c 'No such'")).toBe("2");
    expect(await shell(clone.id, "ps -eo args | grep -c '[h]ello-web'")).not.toBe("0");

    await post(id, "rebuild", { image: "cloud/debian12", root_pass: "Correct-horse-2" });
    await reaches(id, "running");
    expect(await shell(id, "ls /root/mark 2>&1")).toContain("No such");
    expect(await shell(clone.id, "cat /root/mark")).toBe("precious");
  });

  test("a password set while off is root's at the next boot, once; rescue starts sshd and no service", async () => {
    const id = await create({ script_id: 1, script_data: {} });
    await reaches(id, "running");
    await until(async () => (await shell(id, "cat /var/lib/backlot/script-exit")) === "0", { withinMs: 30_000, what: "the script's end" });
    const hash = () => shell(id, "grep ^root: /etc/shadow | cut -d: -f2");
    const first = await hash();
    await post(id, "shutdown");
    await reaches(id, "offline");
    await post(id, "password", { root_pass: "Correct-horse-9" });
    await until(async () => (await cloud.api.post(path(id, "/rescue"), {})).status === 200, { what: "the rescue" });
    await reaches(id, "running");
    const second = await hash();
    expect(second).not.toBe(first);
    expect(await shell(id, "ls /etc/backlot/root-pass 2>&1")).toContain("No such");
    expect(await shell(id, "ps -eo args")).not.toContain("hello-web");
    expect(await shell(id, "ps -eo args")).toContain("sshd");
    await post(id, "reboot");
    await reaches(id, "running");
    expect(await hash()).toBe(second);
    await until(async () => (await shell(id, "ps -eo args")).includes("hello-web"), { what: "the service again" });
  });

  test("public bytes are counted in their month, and a reboot loses none", async () => {
    const id = await create({ script_id: 1, script_data: {} });
    const { ipv4 } = await reaches(id, "running");
    const page = () => fetch(`http://${ipv4[0]}/`, { signal: AbortSignal.timeout(2_000) }).then((answer) => answer.text());
    const text = await until(page, { withinMs: 30_000, what: "the page" });
    const count = 200;
    for (let turn = 0; turn < count; turn += 1) await page();
    const now = new Date();
    const month = `${now.getUTCFullYear()}/${now.getUTCMonth() + 1}`;
    const carried = async (): Promise<Json> => (await cloud.api.get(path(id, `/transfer/${month}`))).body;
    const before = await until(
      async () => {
        const body = await carried();
        return body.bytes_out > count * text.length && body;
      },
      { withinMs: 30_000, what: "the bytes of the pages" },
    );
    // Headers and acknowledgements, but nothing twice: the engine's own counters are the bound.
    const stats = (await (await box(id)).stats({ stream: false })) as unknown as { networks: Record<string, { tx_bytes: number }> };
    const sent = Object.values(stats.networks).reduce((sum, { tx_bytes }) => sum + tx_bytes, 0);
    expect(before.bytes_out).toBeLessThanOrEqual(sent);
    for (let turn = 0; turn < count; turn += 1) await page();
    await post(id, "reboot");
    await reaches(id, "running");
    const after = await carried();
    expect(after.bytes_out).toBeGreaterThan(2 * count * text.length);
    expect(after.bytes_total).toBe(after.bytes_in + after.bytes_out);
    const { data } = await until(
      async () => {
        const { status, body } = await cloud.api.get(path(id, "/stats"));
        return status === 200 && body.data.netv4.out.some(([, bits]: [number, number]) => bits > 0) && body;
      },
      { withinMs: 30_000, what: "a graph" },
    );
    expect(data.netv4.private_out.every(([, bits]: [number, number]) => bits === 0)).toBe(true);
    expect((await cloud.api.get(path(id, "/transfer"))).body.used).toBeGreaterThanOrEqual(after.bytes_total);
    // The account's figures are made of these.
    const { transfer } = (await cloud.api.get("/_backlot/costs")).body;
    const [ours, ...others] = transfer.filter((entry: Json) => entry.type === "instance" && entry.id === id);
    expect([ours.bytes_out, others]).toEqual([expect.any(Number), []]);
    expect(ours.bytes_out).toBeGreaterThanOrEqual(after.bytes_out);
  });

  test("a move to another region keeps the container and changes its network", async () => {
    const id = await create({ private_ip: true });
    await reaches(id, "running");
    const before = await (await box(id)).inspect();
    await post(id, "migrate", { region: "eu-west" });
    const { ipv4 } = await reaches(id, "running");
    const after = await (await box(id)).inspect();
    expect(after.Id).toBe(before.Id);
    expect(Object.keys(after.NetworkSettings.Networks).sort()).toEqual([expect.stringContaining("eu-west"), expect.stringContaining("public")]);
    expect(
      Object.values(after.NetworkSettings.Networks)
        .map((network) => network.IPAddress)
        .sort(),
    ).toEqual([...ipv4].sort());
  });
});

describeDocker("a boot that is given up", () => {
  // A silent registry is given 20 s: whoever waits for it comes too late.
  test("does not wait for an image that is still being fetched", { timeout: 10_000 }, async () => {
    const asked: Socket[] = [];
    // A registry that takes connections and says nothing.
    const registry = createServer((socket) => void asked.push(socket.on("error", () => undefined)));
    await new Promise<void>((resolve) => registry.listen(0, "127.0.0.1", resolve));
    const { port } = registry.address() as AddressInfo;
    const plot = await openPlot({ imageMap: { "cloud/slow": { family: "apt", oci: `127.0.0.1:${port}/slow:1` } } });
    const giveUp = new AbortController();
    const boot = plot.driver.ensure(plot.spec({ image: "cloud/slow" }), giveUp.signal).catch((error: unknown) => error);
    try {
      await until(() => asked.length > 0, { what: "the engine at the registry" });
      const reason = new Error("deleted");
      giveUp.abort(reason);
      expect(await boot).toBe(reason);
      await plot.driver.remove(1);
      expect(registry.listening).toBe(true);
    } finally {
      for (const socket of asked) socket.destroy();
      registry.close();
      await boot;
      await plot.close();
    }
  });
});
