import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { seenContainer } from "#backlot/runtime/docker/container.js";
import { engineRemakes } from "#backlot/runtime/docker/remakes.js";
import type { RuntimeDriver, VolumeSpec } from "#backlot/runtime/driver.js";
import { apiOf, type Json, startCloud, type TestCloud, testConfig } from "../support/cloud.js";
import { containerOf, describeDocker, docker, openPlot, type Plot, run } from "../support/docker.js";
import { type EngineDoor, openEngineDoor } from "../support/engine-door.js";
import { until } from "../support/until.js";

const within = { withinMs: 30_000 };

const guestOf = async (owner: string, instance: number) => {
  const container = await containerOf(owner, instance);
  if (!container) throw new Error(`there is no instance ${instance}`);
  return container;
};
const shIn = async (owner: string, instance: number, text: string): Promise<string> => {
  const { text: said, exitCode } = await run(await guestOf(owner, instance), ["sh", "-c", text]);
  return exitCode === 0 ? said.trim() : `${said.trim()} (exit status ${exitCode})`;
};
/** What a Backlot has on the engine, guest images left out, which are everybody's. */
const leftOf = async (owner: string) => {
  const filters = { label: [`io.backlot.owner=${owner}`] };
  const { Volumes } = await docker.listVolumes({ filters });
  return {
    containers: (await docker.listContainers({ all: true, filters })).map(({ Names }) => Names[0]),
    images: (await docker.listImages({ all: true, filters })).map(({ Id, RepoTags }) => RepoTags?.[0] ?? Id),
    volumes: (Volumes ?? []).map(({ Name }) => Name),
  };
};
const nothing = { containers: [], images: [], volumes: [] };

describeDocker("a cloud on an engine that refuses the volumes' helper", () => {
  const before = process.env.DOCKER_HOST;
  let door: EngineDoor;
  let cloud: TestCloud;
  let owner: string;
  const wanted = { region: "us-east", type: "g6-nanode-1", image: "cloud/debian12", root_pass: "Correct-horse-1" };

  beforeAll(async () => {
    door = await openEngineDoor();
    process.env.DOCKER_HOST = door.host;
    cloud = await startCloud({ runtime: "docker" });
    owner = (await cloud.api.get("/_backlot/health")).body.owner;
  });
  afterAll(async () => {
    for (const { id } of (await cloud.api.get("/v4/cloud/instances")).body.data) await cloud.api.del(`/v4/cloud/instances/${id}`);
    await until(async () => (await cloud.api.get("/v4/cloud/instances")).body.results === 0, { ...within, what: "no instance" });
    for (const { id } of (await cloud.api.get("/v4/volumes")).body.data) await ok(cloud.api.del(`/v4/volumes/${id}`));
    await until(async () => (await cloud.api.get("/v4/volumes")).body.results === 0, { ...within, what: "no volume" });
    await cloud.close();
    if (before === undefined) delete process.env.DOCKER_HOST;
    else process.env.DOCKER_HOST = before;
    await door.close();
    expect(await leftOf(owner)).toEqual(nothing);
  });

  const ok = async (asked: Promise<{ status: number; body: Json }>): Promise<Json> => {
    const { status, body } = await asked;
    expect(status, JSON.stringify(body)).toBe(200);
    return body;
  };
  const is = (path: string, state: object) =>
    until(
      async () => {
        const { body } = await cloud.api.get(path);
        return Object.entries(state).every(([name, value]) => body[name] === value) && body;
      },
      { ...within, what: `${path} ${JSON.stringify(state)}` },
    );
  const eventOf = async (volume: number, action: string): Promise<Json> => {
    const filter = { "X-Filter": JSON.stringify({ "entity.type": "volume", "entity.id": volume, action }) };
    return until(
      async () => {
        const [event] = (await cloud.api.get("/v4/account/events", filter)).body.data;
        return ["finished", "failed"].includes(event?.status) && event;
      },
      { ...within, what: `the end of ${action}` },
    );
  };
  const instance = async (more: object = {}): Promise<number> => {
    const { id } = await ok(cloud.api.post("/v4/cloud/instances", { ...wanted, ...more }));
    await is(`/v4/cloud/instances/${id}`, { status: "running" });
    return id;
  };
  const reboot = async (id: number): Promise<void> => {
    const { StartedAt } = (await (await guestOf(owner, id)).inspect()).State;
    await ok(cloud.api.post(`/v4/cloud/instances/${id}/reboot`));
    await is(`/v4/cloud/instances/${id}`, { status: "running" });
    expect((await (await guestOf(owner, id)).inspect()).State.StartedAt).not.toBe(StartedAt);
  };
  const sh = (id: number, text: string) => shIn(owner, id, text);
  const isMounted = (id: number, label: string) => sh(id, `grep -c ' /mnt/${label} ' /proc/mounts || true`).then((count) => count === "1");

  it("an attached volume is there from the next boot on, in the same machine; detached, it is elsewhere with its data", async () => {
    const first = await instance({ label: "first", script_id: 1, script_data: { greeting: "Good day" } });
    const second = await instance({ label: "second", booted: true });
    await until(async () => (await sh(first, "cat /var/lib/backlot/script-exit")) === "0", { ...within, what: "the end of the script" });
    const { id } = await ok(cloud.api.post("/v4/volumes", { label: "data", region: "us-east", size: 10 }));
    expect(await eventOf(id, "volume_create")).toMatchObject({
      status: "finished",
      message: expect.stringMatching(/size: not enforced.*authorization denied by plugin guard/),
    });

    await ok(cloud.api.post(`/v4/volumes/${id}/attach`, { cloud_id: first }));
    expect(await eventOf(id, "volume_attach")).toMatchObject({
      status: "finished",
      message: expect.stringMatching(/at \/mnt\/data when instance \d+ boots next.*not enforced/),
    });
    expect(await ok(cloud.api.get(`/v4/volumes/${id}`))).toMatchObject({ cloud_id: first, status: "active", io_ready: false });
    expect(await isMounted(first, "data")).toBe(false);
    const { rows } = (await cloud.api.get("/_backlot/capabilities")).body;
    expect(rows.find(({ subject }: Json) => subject === "Volumes")).toMatchObject({
      real: true,
      note: expect.stringMatching(/boots next. Size: not enforced.*authorization denied by plugin guard/),
    });

    await sh(first, "echo mine >/root/file && chmod 600 /root/file");
    const [oldBox, oldKey] = [await (await guestOf(owner, first)).inspect(), await sh(first, "cat /etc/ssh/ssh_host_ed25519_key.pub")];
    await reboot(first);
    await is(`/v4/volumes/${id}`, { io_ready: true });
    expect(await isMounted(first, "data")).toBe(true);
    expect(await sh(first, "echo kept >/mnt/data/file && cat /mnt/data/file /root/file")).toBe("kept\nmine");
    const newBox = await (await guestOf(owner, first)).inspect();
    expect(newBox.Id).not.toBe(oldBox.Id);
    expect(await sh(first, "cat /etc/ssh/ssh_host_ed25519_key.pub")).toBe(oldKey);
    expect(await sh(first, "grep -c 'ended with exit code' /var/log/backlot-boot.log")).toBe("1");
    const identity = ({ Name, Config, HostConfig, NetworkSettings }: typeof oldBox) => ({
      Name,
      host: Config.Hostname,
      labels: Object.entries(Config.Labels)
        .filter(([name]) => !/remade|carried/.test(name))
        .sort(),
      env: Config.Env,
      limits: [
        HostConfig.Memory,
        HostConfig.NanoCpus,
        HostConfig.PidsLimit,
        HostConfig.CapAdd,
        HostConfig.CapDrop,
        HostConfig.Dns,
        HostConfig.RestartPolicy,
      ],
      addresses: Object.entries(NetworkSettings.Networks)
        .map(([name, { IPAddress }]) => [name, IPAddress])
        .sort(),
    });
    expect(identity(newBox)).toEqual(identity(oldBox));
    const address = (await cloud.api.get(`/v4/cloud/instances/${first}`)).body.ipv4[0];
    expect(identity(newBox).addresses.flat()).toContain(address);

    // A boot that changes nothing keeps the container.
    await reboot(first);
    expect((await (await guestOf(owner, first)).inspect()).Id).toBe(newBox.Id);
    expect(await sh(first, "cat /mnt/data/file")).toBe("kept");

    await ok(cloud.api.post(`/v4/volumes/${id}/resize`, { size: 20 }));
    await is(`/v4/volumes/${id}`, { status: "active", size: 20 });
    const { id: copy } = await ok(cloud.api.post(`/v4/volumes/${id}/clone`, { label: "copied" }));
    await is(`/v4/volumes/${copy}`, { status: "active", size: 20 });

    await ok(cloud.api.post(`/v4/volumes/${id}/detach`));
    expect(await eventOf(id, "volume_detach")).toMatchObject({ status: "finished", message: expect.stringMatching(/until that boots next/) });
    await ok(cloud.api.post(`/v4/volumes/${copy}/attach`, { cloud_id: second }));
    await ok(cloud.api.post(`/v4/volumes/${id}/attach`, { cloud_id: second }));
    await eventOf(copy, "volume_attach");
    await until(async () => (await eventOf(id, "volume_attach")).secondary_entity?.id === second, within);
    await reboot(first);
    await reboot(second);
    expect(await isMounted(first, "data")).toBe(false);
    expect(await sh(first, "ls -A /mnt/data; cat /root/file")).toBe("mine");
    expect(await sh(second, "cat /mnt/data/file /mnt/copied/file")).toMatch(/^kept\s+kept$/);

    // Its machine's end, and Backlot's, leave it.
    await ok(cloud.api.del(`/v4/cloud/instances/${second}`));
    await until(async () => (await cloud.api.get(`/v4/cloud/instances/${second}`)).status === 404, within);
    await is(`/v4/volumes/${id}`, { cloud_id: null });
    await ok(cloud.api.post(`/v4/volumes/${id}/attach`, { cloud_id: first }));
    await until(async () => (await eventOf(id, "volume_attach")).secondary_entity?.id === first, within);
    await cloud.close({ machines: "keep", keepState: true });
    cloud = await startCloud({ runtime: "docker", state: cloud.state });
    await is(`/v4/cloud/instances/${first}`, { status: "running" });
    await reboot(first);
    await is(`/v4/volumes/${id}`, { io_ready: true });
    expect(await sh(first, "cat /mnt/data/file /root/file")).toMatch(/^kept\s+mine$/);
  });

  it("what cannot be is a failed event, and the record stays detached: a file in its place, a boot that has begun", async () => {
    const id = await instance();
    const { id: blocked } = await ok(cloud.api.post("/v4/volumes", { label: "blocked", region: "us-east", size: 10 }));
    await is(`/v4/volumes/${blocked}`, { status: "active" });
    await sh(id, "echo 'in the way' >/mnt/blocked");
    await ok(cloud.api.post(`/v4/volumes/${blocked}/attach`, { cloud_id: id }));
    expect(await eventOf(blocked, "volume_attach")).toMatchObject({ status: "failed", message: expect.stringMatching(/\/mnt\/blocked .*is a file/) });
    await is(`/v4/volumes/${blocked}`, { cloud_id: null, status: "active" });

    const { id: late } = await ok(cloud.api.post("/v4/volumes", { label: "late", region: "us-east", size: 10 }));
    await is(`/v4/volumes/${late}`, { status: "active" });
    await ok(cloud.api.post(`/v4/volumes/${late}/attach`, { cloud_id: id, persist_across_boots: false }));
    expect(await eventOf(late, "volume_attach")).toMatchObject({ status: "failed", message: expect.stringMatching(/this boot only/) });
    await is(`/v4/volumes/${late}`, { cloud_id: null });

    // What came into its way later keeps no machine from booting.
    await ok(cloud.api.post(`/v4/volumes/${late}/attach`, { cloud_id: id }));
    await until(async () => (await eventOf(late, "volume_attach")).status === "finished", within);
    await sh(id, "echo 'in the way' >/mnt/late");
    await reboot(id);
    expect(await sh(id, "cat /mnt/late")).toBe("in the way");
    await until(async () => (await eventOf(late, "volume_attach")).status === "failed", { ...within, what: "the reason" });

    // For one boot, asked before it: there then, and not in the next.
    await ok(cloud.api.post(`/v4/cloud/instances/${id}/shutdown`));
    await is(`/v4/cloud/instances/${id}`, { status: "offline" });
    await ok(cloud.api.post(`/v4/volumes/${blocked}/attach`, { cloud_id: id, persist_across_boots: false }));
    await ok(cloud.api.put(`/v4/volumes/${blocked}`, { label: "once" }));
    await is(`/v4/volumes/${blocked}`, { status: "active" });
    await ok(cloud.api.post(`/v4/cloud/instances/${id}/boot`));
    await is(`/v4/cloud/instances/${id}`, { status: "running" });
    await is(`/v4/volumes/${blocked}`, { io_ready: true });
    expect(await isMounted(id, "once")).toBe(true);
    await reboot(id);
    await is(`/v4/volumes/${blocked}`, { cloud_id: null });
    expect(await isMounted(id, "once")).toBe(false);
  });

  it("a deleted volume goes when no machine has it any more: one that runs at its next boot, one that is off at once", async () => {
    const id = await instance();
    const { id: volume } = await ok(cloud.api.post("/v4/volumes", { label: "gone", cloud_id: id, size: 10 }));
    await is(`/v4/volumes/${volume}`, { status: "active", cloud_id: id });
    await reboot(id);
    await is(`/v4/volumes/${volume}`, { io_ready: true });
    await sh(id, "echo disk >/root/file; echo kept >/mnt/gone/file");
    // Another label is another place, from the next boot on.
    await ok(cloud.api.put(`/v4/volumes/${volume}`, { label: "renamed" }));
    expect(await sh(id, "cat /mnt/gone/file")).toBe("kept");
    await reboot(id);
    expect(await sh(id, "cat /mnt/renamed/file; ls -A /mnt/gone")).toBe("kept");
    await ok(cloud.api.post(`/v4/volumes/${volume}/detach`));
    await is(`/v4/volumes/${volume}`, { cloud_id: null });
    await ok(cloud.api.del(`/v4/volumes/${volume}`));
    const filter = { "X-Filter": JSON.stringify({ "entity.type": "volume", "entity.id": volume, action: "volume_delete" }) };
    await until(async () => /has it until/.test((await cloud.api.get("/v4/account/events", filter)).body.data[0]?.message), {
      ...within,
      what: "the reason",
    });
    await is(`/v4/volumes/${volume}`, { status: "deleting" });
    await ok(cloud.api.post(`/v4/cloud/instances/${id}/shutdown`));
    await is(`/v4/cloud/instances/${id}`, { status: "offline" });
    await until(async () => (await cloud.api.get(`/v4/volumes/${volume}`)).status === 404, { ...within, what: "the end of the volume" });
    expect((await leftOf(owner)).volumes).not.toContain(`backlot-${owner.slice(0, 8)}-volume-${volume}`);
    await ok(cloud.api.post(`/v4/cloud/instances/${id}/boot`));
    await is(`/v4/cloud/instances/${id}`, { status: "running" });
    expect(await sh(id, "cat /root/file")).toBe("disk");
  });
});

describeDocker("Backlot killed while it makes a machine anew", () => {
  it("does it at its next start, whatever the engine grants by then", async () => {
    const door = await openEngineDoor();
    const config = await testConfig({ runtime: "docker" });
    const program = fileURLToPath(new URL("../api/restart-child.mjs", import.meta.url));
    const child = spawn(process.execPath, [program], { stdio: ["pipe", "pipe", "inherit"], env: { ...process.env, DOCKER_HOST: door.host } });
    child.stdin?.end(JSON.stringify(config));
    const [line] = await once(createInterface({ input: child.stdout }), "line");
    const { url, token } = JSON.parse(line) as Json;
    const api = apiOf(url, token);
    const { owner } = (await api.get("/_backlot/health")).body;
    const wanted = { region: "us-east", type: "g6-nanode-1", image: "cloud/debian12", root_pass: "Correct-horse-1" };
    const { id } = (await api.post("/v4/cloud/instances", wanted)).body;
    await until(async () => (await api.get(`/v4/cloud/instances/${id}`)).body.status === "running", within);
    const { id: volume } = (await api.post("/v4/volumes", { label: "data", cloud_id: id, size: 10 })).body;
    await until(async () => (await api.get(`/v4/volumes/${volume}`)).body.status === "active", within);
    await until(async () => (await api.get("/v4/account/events")).body.data.every(({ status }: Json) => status === "finished"), within);
    await shIn(owner, id, "echo written >/root/file && sync");
    const ended = once(child, "exit");
    const shut = door.shutAt("DELETE", /\/containers\//, "done");
    expect((await api.post(`/v4/cloud/instances/${id}/reboot`)).status).toBe(200);
    await shut;
    child.kill("SIGKILL");
    await ended;
    await door.close();

    const again = await startCloud({ runtime: "docker", state: config.state });
    await until(async () => (await again.api.get(`/v4/volumes/${volume}`)).body.io_ready === true, { ...within, what: "the mount" });
    expect(await shIn(owner, id, "cat /root/file; touch /mnt/data/file; grep -c ' /mnt/data ' /proc/mounts")).toMatch(/^written\s+1$/);
    await again.api.del(`/v4/cloud/instances/${id}`);
    await until(async () => (await again.api.get(`/v4/cloud/instances/${id}`)).status === 404, within);
    expect((await again.api.del(`/v4/volumes/${volume}`)).status).toBe(200);
    await until(async () => (await again.api.get(`/v4/volumes/${volume}`)).status === 404, within);
    await again.close();
    expect(await leftOf(owner)).toEqual(nothing);
  });
});

describeDocker("a machine that is made anew for its volumes", () => {
  let plot: Plot;
  let door: EngineDoor;
  beforeEach(async () => {
    door = await openEngineDoor();
    plot = await openPlot({ docker: { socketPath: door.socketPath } });
  });
  afterEach(async () => {
    await door.close();
    await plot.close();
    expect(await leftOf(plot.options.owner)).toEqual(nothing);
  });

  const volume: VolumeSpec = { volume: 1, label: "x", bytes: 2 ** 25, copyOf: null, instance: 1 };
  const volumes = [{ volume: 1, label: "x" }];
  const sh = (text: string) => shIn(plot.options.owner, 1, text);
  /** One container, the image it rests on if any, and the one volume: nothing is left over. */
  const expectOne = async (): Promise<void> => {
    const left = await leftOf(plot.options.owner);
    expect(left.containers).toEqual([`/backlot-${plot.options.owner.slice(0, 8)}-1`]);
    const { Config } = await (await guestOf(plot.options.owner, 1)).inspect();
    expect(left.images.filter((tag) => tag.startsWith("backlot/"))).toEqual([Config.Image]);
  };

  it.each([
    ["before its disk is kept", "POST", /\/commit\?/, "asked"],
    ["when its disk is kept", "POST", /\/commit\?/, "done"],
    ["before its successor is made", "POST", /\/containers\/create\?.*-next\b/, "asked"],
    ["when its successor is made", "POST", /\/containers\/create\?.*-next\b/, "done"],
    ["before it is removed", "DELETE", /\/containers\//, "asked"],
    ["when it is removed", "DELETE", /\/containers\//, "done"],
    ["before its successor has its name", "POST", /\/rename\?/, "asked"],
    ["before its successor starts", "POST", /\/start$/, "asked"],
    ["when its successor starts", "POST", /\/start$/, "done"],
  ] as const)("loses nothing when Backlot dies %s", async (_, method, path, when) => {
    const { driver } = plot;
    await driver.ensure(plot.spec());
    await sh("echo written >/root/file && sync");
    await driver.volumes.ensure(volume);
    const shut = door.shutAt(method, path, when);
    const dying = expect(driver.ensure(plot.spec({ volumes, boots: 2 }))).rejects.toThrow();
    await shut;
    await dying;

    const next = openEngineDoor();
    const after = await plot.again({ docker: { socketPath: (await next).socketPath } });
    try {
      await after.ensure(plot.spec({ volumes, boots: 2 }));
      expect(await sh("cat /root/file; echo here >/mnt/x/file; grep -c ' /mnt/x ' /proc/mounts")).toMatch(/^written\s+1$/);
      expect(await sh("cat /var/lib/backlot/boots")).toBe("2");
      await expectOne();
      // And once more, from a machine that was made anew itself.
      await after.ensure(plot.spec({ boots: 3 }));
      expect(await sh("cat /root/file; ls -A /mnt/x")).toBe("written");
      await expectOne();
      await after.volumes.ensure({ ...volume, instance: null });
      await after.volumes.remove(1);
      await after.remove(1);
    } finally {
      await after.close();
      await (await next).close();
    }
  });

  it("started by somebody between its copy and its end, it is what it was then", async () => {
    const { driver } = plot;
    await driver.ensure(plot.spec());
    await driver.volumes.ensure(volume);
    const shut = door.shutAt("DELETE", /\/containers\//, "asked");
    const dying = expect(driver.ensure(plot.spec({ volumes, boots: 2 }))).rejects.toThrow();
    await shut;
    await dying;
    const named = docker.getContainer(`backlot-${plot.options.owner.slice(0, 8)}-1`);
    await named.start();
    await run(named, ["sh", "-c", "echo later >/root/file && sync"]);
    await named.stop({ t: 1 });
    const after = await plot.again({ docker: undefined });
    await after.ensure(plot.spec({ boots: 2 }));
    expect(await sh("cat /root/file")).toBe("later");
    expect((await leftOf(plot.options.owner)).images).toEqual([]);
    expect((await leftOf(plot.options.owner)).containers).toHaveLength(1);
  });

  it("keeps what its image keeps on engine volumes of its own, which end with the machine", async () => {
    await plot.driver.ensure(plot.spec());
    const builder = await docker.createContainer({ Image: await guestImage(), Entrypoint: ["true"] });
    await plot.driver.remove(1);
    const own = `backlot-test/own:${plot.options.owner}`;
    const [repo, tag] = own.split(":");
    await builder.commit({ repo, tag, changes: ["VOLUME /srv/own", 'ENTRYPOINT ["sleep","infinity"]'] } as never);
    await builder.remove();
    const driver = await plot.again({ ownImages: { "cloud/own": own } });
    const theirs = async () =>
      (await (await guestOf(plot.options.owner, 1)).inspect()).Mounts.find(({ Destination }) => Destination === "/srv/own")?.Name ?? "";
    try {
      const spec = plot.spec({ image: "cloud/own" });
      await driver.ensure(spec);
      await sh("echo rows >/srv/own/table");
      const name = await theirs();
      await driver.volumes.ensure(volume);
      await driver.ensure({ ...spec, volumes, boots: 2 });
      expect(await sh("cat /srv/own/table; touch /mnt/x/file && echo fine")).toMatch(/^rows\s+fine$/);
      await driver.ensure({ ...spec, boots: 3 });
      expect(await sh("cat /srv/own/table")).toBe("rows");
      expect(await theirs()).toBe(name);
      await driver.remove(1);
      await expect(docker.getVolume(name).inspect()).rejects.toMatchObject({ statusCode: 404 });
      await driver.volumes.remove(1);
    } finally {
      await driver.close();
      await plot.driver.remove(1);
      await docker.getImage(own).remove();
    }
  });

  it("has one layer again before the engine takes no more of them", async () => {
    await plot.driver.ensure(plot.spec());
    await sh("echo written >/root/file && ln /root/file /root/link && setcap cap_net_raw+ep /bin/cat 2>/dev/null; rm -f /etc/motd");
    await plot.driver.ensure(plot.spec({ running: false }));
    const [row] = await docker.listContainers({ all: true, filters: { label: [`io.backlot.owner=${plot.options.owner}`] } });
    const seen = row && seenContainer(row);
    if (!seen) throw new Error("there is no machine");
    await engineRemakes(docker, plot.options, 0).remake(seen, new Map());
    const { Image } = await (await guestOf(plot.options.owner, 1)).inspect();
    expect((await docker.getImage(Image).inspect()).RootFS.Layers).toHaveLength(1);
    await plot.driver.ensure(plot.spec({ boots: 2 }));
    expect(await sh("cat /root/file; stat -c %h /root/link; ls /etc/motd 2>/dev/null; cat /var/lib/backlot/boots")).toMatch(/^written\s+2\s+2$/);
    expect(await sh("ps -o comm= -p 1")).toBe("tini");
    await expectOne();
    await plot.driver.remove(1);
  });

  it("a copy of a volume that was cut off is begun anew, and one that is whole is left alone", async () => {
    const { driver } = plot;
    await driver.volumes.ensure(volume);
    await driver.ensure(plot.spec({ volumes }));
    await sh("mkdir /mnt/x/folder && echo data >/mnt/x/folder/file && chown 7:8 /mnt/x/folder/file");
    const second = `backlot-${plot.options.owner.slice(0, 8)}-volume-2`;
    await driver.volumes.ensure({ ...volume, volume: 2, label: "y", copyOf: 1, instance: null });
    const inside = async (text: string): Promise<string> => {
      const box = await docker.createContainer({
        Image: await guestImage(),
        Entrypoint: ["sh", "-c", text],
        Labels: { "io.backlot.owner": plot.options.owner },
        HostConfig: { Binds: [`${second}:/v`], NetworkMode: "none" },
      });
      try {
        await box.start();
        await box.wait();
        return ((await box.logs({ stdout: true })) as Buffer).subarray(8).toString().trim();
      } finally {
        await box.remove({ force: true });
      }
    };
    expect(await inside("cat /v/folder/file; stat -c %u:%g /v/folder/file; ls -A /v")).toMatch(/^data\s[\s\S]*7:8\s[\s\S]*folder$/);
    await inside("rm -r /v/folder; touch /v/own");
    const again: RuntimeDriver = await plot.again();
    await again.volumes.ensure({ ...volume, volume: 2, label: "y", copyOf: 1, instance: null });
    expect(await inside("ls -A /v")).toBe("own");
    await inside("touch /v/.backlot-copy");
    await (await plot.again()).volumes.ensure({ ...volume, volume: 2, label: "y", copyOf: 1, instance: null });
    expect(await inside("ls -A /v")).toBe("folder");
    await driver.remove(1);
  });

  const guestImage = async (): Promise<string> => (await (await guestOf(plot.options.owner, 1)).inspect()).Config.Image;
});
