import { randomUUID } from "node:crypto";
import type Docker from "dockerode";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openCompose } from "../support/backlot-image.js";
import { apiOf, type Json } from "../support/cloud.js";
import { describeDocker, docker } from "../support/docker.js";
import { until } from "../support/until.js";

const project = `backlot-test-${randomUUID().slice(0, 8)}`;
const within = { withinMs: 60_000 };
const firstPort = 28_400;

describeDocker("Backlot's own image, by docker compose", () => {
  const token = randomUUID();
  let opened: Awaited<ReturnType<typeof openCompose>>;
  let url: string;
  let api: ReturnType<typeof apiOf>;
  let owner: string;

  const env = { API_PORT: "0", PORTS: `${firstPort}-${firstPort + 19}`, BACKLOT_TOKEN: token, BACKLOT_PRIVATE_POOL: "192.168.32.0/20" };
  const compose = (...words: string[]) => opened.compose(words, env);
  const ours = async () => {
    const filters = { label: [`io.backlot.owner=${owner}`] };
    const [containers, networks, { Volumes }] = await Promise.all([
      docker.listContainers({ all: true, filters }),
      docker.listNetworks({ filters }),
      docker.listVolumes({ filters }),
    ]);
    return { containers, networks, volumes: Volumes ?? [] };
  };
  const up = async () => {
    await compose("up", "-d");
    url = `http://${(await compose("port", "backlot", "4747")).trim()}`;
    api = apiOf(url, token);
    owner = await until(async () => (await api.get("/_backlot/health")).body.owner, { ...within, what: "the API on its published port" });
  };
  const ok = async (asked: Promise<{ status: number; body: Json }>): Promise<Json> => {
    const { status, body } = await asked;
    expect(status, JSON.stringify(body)).toBe(200);
    return body;
  };
  /** Who answered; else what was answered. */
  const page = async (): Promise<string> => {
    const answer = await fetch(`http://127.0.0.1:${firstPort}/`, { headers: { connection: "close" } });
    const text = await answer.text();
    return /instance=(web-\d)/.exec(text)?.[1] ?? `${answer.status} ${text}`;
  };
  const runInside = async (words: string[], binds: string[]): Promise<string> => {
    const container = await docker.createContainer({
      Image: opened.image,
      Hostname: opened.host,
      Cmd: words,
      Tty: true,
      HostConfig: { Binds: ["/var/run/docker.sock:/var/run/docker.sock", ...binds] },
    });
    try {
      await container.start();
      await container.wait();
      return ((await container.logs({ stdout: true, stderr: true })) as Buffer).toString();
    } finally {
      await container.remove({ force: true, v: true });
    }
  };

  beforeAll(async () => {
    opened = await openCompose(project);
    await compose("build");
    await up();
  }, 420_000);
  afterAll(async () => {
    // Nothing of it is left by now, unless a test failed.
    const { removeOwned, ownedThings } = await import("#backlot/runtime/docker/orphans.js");
    for (const things of await ownedThings()) if (things.owner === owner) await removeOwned(things);
    await opened.close();
  });

  const itself = async (): Promise<Docker.ContainerInspectInfo> => {
    const filters = { label: [`com.docker.compose.project=${project}`, "com.docker.compose.service=backlot"] };
    const [row] = await docker.listContainers({ all: true, filters });
    return docker.getContainer(row?.Id ?? "").inspect();
  };

  test("it is published on this machine's loopback alone, and its health is known", async () => {
    await until(async () => (await itself()).State.Health?.Status === "healthy", { withinMs: 30_000, what: "the container's health" });
    const published = Object.entries((await itself()).NetworkSettings.Ports).flatMap(([port, places]) =>
      (places ?? []).map(({ HostIp, HostPort }) => ({ port, HostIp, HostPort })),
    );
    const ofBalancers = Array.from({ length: 20 }, (_, at) => ({ port: `${8000 + at}/tcp`, HostIp: "127.0.0.1", HostPort: String(firstPort + at) }));
    const ofApi = { port: "4747/tcp", HostIp: "127.0.0.1", HostPort: new URL(url).port };
    const inOrder = (ports: typeof published) => ports.toSorted((a, b) => a.port.localeCompare(b.port));
    expect(inOrder(published)).toEqual(inOrder([ofApi, ...ofBalancers]));
  });

  test("the balanced service through the published ports, by a relay that was chosen by trying", async () => {
    const balancer = await ok(api.post("/v4/balancers", { region: "us-east", label: "web" }));
    const config = await ok(api.post(`/v4/balancers/${balancer.id}/configs`, { port: 8000, check: "connection" }));
    const nodes: Json[] = [];
    for (const label of ["web-1", "web-2"]) {
      const wanted = {
        region: "us-east",
        type: "g6-nanode-1",
        image: "cloud/debian12",
        root_pass: "Correct-horse-1",
        private_ip: true,
        script_id: 1,
      };
      const { id } = await ok(api.post("/v4/cloud/instances", { ...wanted, label }));
      const { address } = (await ok(api.get(`/v4/cloud/instances/${id}/ips`))).ipv4.private[0];
      nodes.push(await ok(api.post(`/v4/balancers/${balancer.id}/configs/${config.id}/nodes`, { label, address: `${address}:80` })));
    }
    const path = `/v4/balancers/${balancer.id}/configs/${config.id}`;
    await until(async () => (await api.get(path)).body.nodes_status.up === 2, { ...within, what: "both nodes up" });
    expect(new Set([await page(), await page()])).toEqual(new Set(["web-1", "web-2"]));

    const row = (await api.get("/_backlot/capabilities")).body.rows.find(({ subject }: Json) => subject === "Dialling of private addresses");
    expect(row.note).toMatch(/cannot be dialled from here; us-east: [\d.]+ port 4750/);
    const [relay] = (await ours()).containers.filter(({ Labels }) => Labels["io.backlot.relay"] === "us-east");
    expect(Object.keys(relay?.NetworkSettings.Networks ?? {}).sort()).toEqual([`backlot-${owner.slice(0, 8)}-us-east`, `${project}_default`].sort());
    expect(relay?.Ports.filter(({ PublicPort }) => PublicPort)).toEqual([]);

    const [victim] = (await ours()).containers.filter(({ Labels }) => Labels["io.backlot.instance"] === "1");
    await docker.getContainer(victim?.Id ?? "").kill();
    await until(async () => (await api.get(path)).body.nodes_status.down === 1, { ...within, what: "the killed one down" });
    expect([await page(), await page()]).toEqual(["web-2", "web-2"]);
    await until(async () => (await api.get(path)).body.nodes_status.up === 2, { ...within, what: "the watchdog's work" });
  });

  test("killed and started again it goes on, with the same relay; its doctor is content; stopped it ends by itself and leaves no relay", async () => {
    const relayOf = async () => (await ours()).containers.find(({ Labels }) => Labels["io.backlot.relay"])?.Id;
    const before = await relayOf();
    await compose("kill", "-s", "SIGKILL");
    await up();
    await until(async () => /^web-/.test(await page()), { ...within, what: "a page again" });
    expect(await relayOf()).toBe(before);
    const said = JSON.parse(await compose("exec", "-T", "backlot", "backlot", "doctor", "--json"));
    const problems = said.findings.filter(({ level, check }: Json) => level === "problem" && check !== "leftovers");
    expect(problems).toEqual([]);
    await compose("stop");
    expect((await itself()).State).toMatchObject({ Status: "exited", ExitCode: 0 });
    expect(await relayOf()).toBeUndefined();
    await up();
    await until(async () => /^web-/.test(await page()), { ...within, what: "a page after the stop" });
  });

  test("what it leaves when it is thrown away: clean there says it first and removes it all, clean here leaves it alone, nothing of strangers goes", async () => {
    const { id } = await ok(api.post("/v4/volumes", { label: "data", region: "us-east", size: 10, cloud_id: 2 }));
    await until(async () => (await api.get(`/v4/volumes/${id}`)).body.io_ready, { ...within, what: "the volume" });
    await compose("kill", "-s", "SIGKILL");
    const images = await docker.listImages({ filters: { label: ["io.backlot.guest"], reference: ["backlot/guest"] } });
    const [image] = images.flatMap(({ RepoTags }) => RepoTags ?? []);
    const lookAlikes = [
      await docker.createContainer({ name: `backlot-${owner.slice(0, 8)}-9`, Image: image ?? "", Labels: {} }),
      await docker.createContainer({
        Image: image ?? "",
        Labels: { "io.backlot.owner": randomUUID(), "io.backlot.state": "/nowhere", "io.backlot.host": "another" },
      }),
    ];
    const lookAlikeNetwork = await docker.createNetwork({ Name: `backlot-${owner.slice(0, 8)}-strange` });
    try {
      // With its state it has an owner.
      expect(await runInside(["clean"], [`${project}_state:/var/lib/backlot`])).toContain("Nothing to clean");
      const { containers, networks, volumes } = await ours();
      expect([containers.length, networks.length, volumes.length]).toEqual([3, 2, 1]);

      const dry = await runInside(["clean", "--dry-run"], []);
      for (const { Names } of containers) expect(dry).toContain(`would remove container ${Names[0]?.slice(1)} `);
      for (const { Name } of networks) expect(dry).toContain(`would remove network ${Name} `);
      expect(dry).toContain(`would remove volume ${volumes[0]?.Name} with its data`);
      expect((await ours()).containers).toHaveLength(3);

      const { cleanMachine } = await import("#backlot/index.js");
      const here = (await cleanMachine({ dryRun: true })).filter(({ what, reason }) => `${what} ${reason}`.includes(owner));
      expect(here).toEqual([{ what: expect.any(String), removed: false, unknown: true, reason: expect.stringContaining(opened.host) }]);

      const done = await runInside(["clean"], []);
      expect(done).toContain("removed container");
      expect(await ours()).toEqual({ containers: [], networks: [], volumes: [] });
      for (const stranger of lookAlikes) expect((await stranger.inspect()).State.Status).toBe("created");
      expect((await lookAlikeNetwork.inspect()).Name).toContain("strange");
    } finally {
      for (const stranger of lookAlikes) await stranger.remove({ force: true });
      await lookAlikeNetwork.remove();
    }
  });
});
