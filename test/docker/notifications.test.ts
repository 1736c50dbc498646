import { mkdtemp, rm } from "node:fs/promises";
import { connect, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { type OwnProcess, started } from "../soak/own-process.js";
import { commandLineGround, type Json, startCloud, type TestCloud } from "../support/cloud.js";
import { limitTo, openLine } from "../support/descriptors.js";
import { describeDocker } from "../support/docker.js";
import { type EngineDoor, openEngineDoor } from "../support/engine-door.js";
import { until } from "../support/until.js";

/** A socket of ours in front of the engine's: closing it is what a stopped engine looks like, and the real one is left alone. */
const openRelay = async (path: string, engine: string): Promise<{ stop(): Promise<void> }> => {
  const sockets = new Set<Socket>();
  const kept = (socket: Socket): Socket => {
    sockets.add(socket);
    socket.on("error", () => socket.destroy());
    socket.on("close", () => sockets.delete(socket));
    return socket;
  };
  const server: Server = createServer({ allowHalfOpen: true }, (near) => {
    const far = kept(connect({ path: engine, allowHalfOpen: true }));
    kept(near).pipe(far).pipe(near);
    near.on("close", () => far.destroy());
    far.on("close", () => near.destroy());
  });
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(path, () => resolve()));
  return {
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
};

const before = process.env.DOCKER_HOST;
const engine = before?.startsWith("unix://") ? before.slice("unix://".length) : "/var/run/docker.sock";

describeDocker("what the account's notifications say of the engine", () => {
  let folder: string;
  let relay: { stop(): Promise<void> };
  let cloud: TestCloud;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "backlot-relay-"));
    relay = await openRelay(join(folder, "engine.sock"), engine);
    process.env.DOCKER_HOST = `unix://${join(folder, "engine.sock")}`;
    cloud = await startCloud({ runtime: "docker", imageFallback: "cloud/debian12" });
  });
  afterAll(async () => {
    await cloud.close();
    if (before === undefined) delete process.env.DOCKER_HOST;
    else process.env.DOCKER_HOST = before;
    await relay.stop();
    await rm(folder, { recursive: true, force: true });
  });

  const notices = async (): Promise<Json[]> => (await cloud.api.get("/v4/account/notifications")).body.data;

  test("an engine that stops is told within seconds, with cause and remedy, and no more once it is back", async () => {
    expect(await notices()).toEqual([]);
    await relay.stop();
    // The first word of it may be that of a question that was cut off.
    const isTold = (notice: Json) => notice.type === "outage" && /does not answer .*engine\.sock.*ensure-engine\.sh/.test(notice.message);
    const told = await until(async () => (await notices()).find(isTold), { what: "the outage" });
    expect(told).toMatchObject({ severity: "critical", entity: null, until: null });
    expect(told.when).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$/);
    relay = await openRelay(join(folder, "engine.sock"), engine);
    await until(async () => (await notices()).length === 0, { what: "no notice" });
  });

  test("an image that another one stands in for is told as long as it runs", async () => {
    const wanted = { region: "us-east", type: "g6-nanode-1", image: "cloud/slackware15.0", root_pass: "Correct-horse-1", label: "stand-in" };
    const { id } = (await cloud.api.post("/v4/cloud/instances", wanted)).body;
    const told = await until(async () => (await notices()).find((notice) => notice.entity?.id === id), { withinMs: 60_000, what: "the substitute" });
    expect(told).toMatchObject({ severity: "minor", type: "notice", entity: { type: "instance", label: "stand-in" } });
    expect(told.message).toMatch(/cloud\/slackware15\.0 cannot be had .* runs cloud\/debian12 instead/);
    await cloud.api.del(`/v4/cloud/instances/${id}`);
    await until(async () => (await cloud.api.get(`/v4/cloud/instances/${id}`)).status === 404, { withinMs: 30_000, what: "the end of it" });
    expect(await notices()).toEqual([]);
  });
});

describeDocker("a Backlot that is out of descriptors", () => {
  const token = "a-token-of-my-own-choice";
  const create = { region: "us-east", type: "g6-nanode-1", image: "cloud/debian12", root_pass: "Correct-horse-1", label: "web" };
  let folder: string;
  let door: EngineDoor;
  let backlot: OwnProcess;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "backlot-descriptors-"));
    door = await openEngineDoor();
    const { privatePool, balancerAddresses } = await commandLineGround();
    const words = ["--runtime", "docker", "--private-pool", privatePool, "--balancer-addresses", balancerAddresses, "--dns-port", "off"];
    backlot = await started([...words, "--speed", "50", "--state", folder, "--token", token], { env: { DOCKER_HOST: door.host } });
  });
  afterAll(async () => {
    limitTo(backlot.pid, 1_024);
    for (const { id } of (await backlot.api.get("/v4/cloud/instances")).body.data) await backlot.api.del(`/v4/cloud/instances/${id}`);
    await until(async () => (await backlot.api.get("/v4/cloud/instances")).body.results === 0, { withinMs: 30_000, what: "no instance" });
    await backlot.stop();
    await door.close();
    await rm(folder, { recursive: true, force: true });
  });

  test("calls no engine silent that answers: what waits for it goes on waiting, and the limit is told instead of an outage", async () => {
    const line = openLine(backlot.url, token);
    onTestFinished(line.close);
    const path = "/v4/cloud/instances";
    const { id } = (await line.ask("POST", path, create)).body;
    const reaches = (status: string) =>
      until(async () => (await line.ask("GET", `${path}/${id}`)).body.status === status, { withinMs: 30_000, what: status });
    await reaches("running");
    const notices = async (): Promise<Json[]> => (await line.ask("GET", "/v4/account/notifications")).body.data;
    expect(await notices()).toEqual([]);

    const stop = door.hold(/\/containers\/\w+\/stop\b/);
    onTestFinished(stop.letGo);
    expect((await line.ask("POST", `${path}/${id}/shutdown`)).status).toBe(200);
    await until(() => stop.held() === 1, { withinMs: 30_000, what: "a call that takes long" });
    const list = door.hold(/\/containers\/json\?/);
    onTestFinished(list.letGo);
    const looking = line.ask("GET", `/_backlot/instances/${id}`);
    await until(() => list.held() > 0, { what: "another" });
    limitTo(backlot.pid, 3);
    // It is answered after five seconds: long enough for a silent engine to be given up.
    const limit = /^This machine refused it \(.*EMFILE.*\); raise the open file limit of the user Backlot runs as/;
    const looked = await looking;
    expect([looked.status, looked.body.errors[0].reason]).toEqual([503, expect.stringMatching(limit)]);
    const refused = await line.ask("POST", `/_backlot/instances/${id}/kill`);
    expect([refused.status, refused.body.errors[0].reason]).toEqual([503, expect.stringMatching(limit)]);
    const shutdown = async () => (await line.ask("GET", "/v4/account/events")).body.data.find(({ action }: Json) => action === "instance_shutdown");
    expect((await shutdown()).status).toBe("started");
    expect(await notices()).toEqual([
      expect.objectContaining({
        label: "The docker runtime cannot be asked",
        message: expect.stringMatching(/EMFILE.*raise the open file limit/),
        severity: "critical",
      }),
    ]);

    limitTo(backlot.pid, 1_024);
    list.letGo();
    stop.letGo();
    await reaches("offline");
    expect((await shutdown()).status).toBe("finished");
    await until(async () => (await notices()).length === 0, { what: "no notice" });
  });
});
