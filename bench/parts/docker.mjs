// On an engine: a boot beside a bare create + start of the same container, and how soon a death is seen.
import Docker from "dockerode";
import { closing, startCloud, until } from "./cloud.mjs";
import { line, median, timed } from "./figures.mjs";
import { temporaryFolder } from "./folder.mjs";

const boots = 10;
/** The engine and the loops tidy up after a machine went; that is no part of the next figure. */
const settleMs = 250;
/** Asking more often would take from the engine the processor it starts machines with. */
const bootPauseMs = 8;
const deaths = 10;
const bootRatio = 1.3;
const deathMs = 1_000;
const ownerLabel = "io.backlot.owner";
const benchLabel = "io.backlot.bench";

/** The engine's version and processors, or undefined when none answers. */
export const engine = async () => {
  const docker = new Docker();
  try {
    const { ServerVersion, NCPU } = await docker.info({ abortSignal: AbortSignal.timeout(1500) });
    return { version: ServerVersion, cpus: NCPU };
  } catch {
    return undefined;
  }
};

const removeLabelled = async (docker, label) => {
  const filters = { label: [label] };
  for (const { Id } of await docker.listContainers({ all: true, filters })) await docker.getContainer(Id).remove({ force: true, v: true });
  for (const { Id } of await docker.listNetworks({ filters })) await docker.getNetwork(Id).remove();
};

const instanceBody = { region: "us-east", type: "g6-nanode-1", image: "cloud/debian12", root_pass: "Bench-only-1", watchdog_enabled: false };

const openGround = async () => {
  const docker = new Docker();
  // Closed last: what a Backlot that failed left behind goes too.
  let owner;
  const sweep = closing(async () => {
    await removeLabelled(docker, benchLabel);
    if (owner !== undefined) await removeLabelled(docker, `${ownerLabel}=${owner}`);
  });
  const cloud = await startCloud({ runtime: "docker", state: temporaryFolder() });
  owner = (await cloud.ask("GET", "/_backlot/health")).owner;
  const status = async (id) => (await cloud.ask("GET", `/v4/cloud/instances/${id}`)).status;
  const create = async (extra = {}) => {
    const { id } = await cloud.ask("POST", "/v4/cloud/instances", { body: { ...instanceBody, ...extra, booted: false } });
    await until("created", async () => (await status(id)) === "offline");
    return id;
  };
  const boot = async (id) => {
    await cloud.ask("POST", `/v4/cloud/instances/${id}/boot`);
    await until(`instance ${id} runs`, async () => (await status(id)) === "running", { withinMs: 120_000, pauseMs: bootPauseMs });
  };
  const container = async (id) => docker.getContainer((await cloud.ask("GET", `/_backlot/instances/${id}`)).container_id);
  const remove = async (id) => {
    await cloud.ask("DELETE", `/v4/cloud/instances/${id}`);
    await until(`instance ${id} gone`, () =>
      status(id).then(
        () => false,
        () => true,
      ),
    );
  };
  const close = async () => {
    for (const { id } of (await cloud.ask("GET", "/v4/cloud/instances")).data) await remove(id);
    await cloud.close();
    await sweep();
  };
  return { docker, cloud, create, boot, container, remove, close };
};

/** The same image, settings and networks, without Backlot: one create, a connect for each further network, one start. */
const bareBoot = async (docker, seen, at) => {
  const [first, ...others] = Object.keys(seen.NetworkSettings.Networks);
  let container;
  const tookMs = await timed(async () => {
    container = await docker.createContainer({
      name: `backlot-bench-${process.pid}-${at}`,
      Image: seen.Config.Image,
      Hostname: seen.Config.Hostname,
      StopTimeout: seen.Config.StopTimeout,
      OpenStdin: seen.Config.OpenStdin,
      Labels: { [benchLabel]: String(process.pid) },
      HostConfig: seen.HostConfig,
      NetworkingConfig: { EndpointsConfig: { [first]: {} } },
    });
    for (const name of others) await docker.getNetwork(name).connect({ Container: container.id });
    await container.start();
  });
  await container.remove({ force: true, v: true });
  return tookMs;
};

const settled = () => new Promise((resolve) => setTimeout(resolve, settleMs));

/** Ours and bare in turn, so that what else the machine does meets both. */
const bootRow = async (ground, what, extra) => {
  const ours = [];
  const bare = [];
  for (let at = 0; at < boots; at++) {
    const id = await ground.create(extra);
    await settled();
    ours.push(await timed(() => ground.boot(id)));
    const seen = await (await ground.container(id)).inspect();
    await ground.remove(id);
    await settled();
    bare.push(await bareBoot(ground.docker, seen, at));
  }
  return line({
    what,
    figure: median(ours),
    worst: Math.max(...ours),
    unit: "ms",
    baseline: median(bare),
    baselineIs: "bare create + start",
    budgetRatio: bootRatio,
  });
};

const helloWeb = 1;

const deathRow = async (ground) => {
  const { cloud } = ground;
  const ids = await Promise.all(Array.from({ length: deaths }, () => ground.create({ private_ip: true, script_id: helloWeb })));
  await Promise.all(ids.map((id) => ground.boot(id)));
  const rows = await Promise.all(ids.map((id) => cloud.ask("GET", `/v4/cloud/instances/${id}`)));
  const members = rows.map(({ label, ipv4 }) => ({ label, address: `${ipv4.find((each) => each.startsWith("192.168."))}:80` }));
  const balancer = await cloud.ask("POST", "/v4/balancers", { body: { region: "us-east", label: "bench" } });
  const config = await cloud.ask("POST", `/v4/balancers/${balancer.id}/configs`, { body: { port: 8080, check: "connection", nodes: members } });
  const path = `/v4/balancers/${balancer.id}/configs/${config.id}/nodes`;
  await until("every node up", async () => (await cloud.ask("GET", path)).data.every(({ status }) => status === "UP"), { withinMs: 60_000 });
  const nodes = (await cloud.ask("GET", path)).data;
  const seenMs = [];
  for (const id of ids) {
    const { label } = rows.find((row) => row.id === id);
    const node = nodes.find((each) => each.label === label);
    const container = await ground.container(id);
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 300));
    const startMs = performance.now();
    const killed = container.kill({ signal: "SIGKILL" });
    await until(`node ${label} down`, async () => (await cloud.ask("GET", `${path}/${node.id}`)).status === "DOWN");
    seenMs.push(performance.now() - startMs);
    await killed;
  }
  await cloud.ask("DELETE", `/v4/balancers/${balancer.id}`);
  const what = "docker kill is called -> node `DOWN` in the API";
  return line({ what, figure: median(seenMs), worst: Math.max(...seenMs), unit: "ms", budget: deathMs });
};

export const dockerRows = async () => {
  const ground = await openGround();
  // One machine stays, so that both networks do too; its boot makes image and networks ready.
  await ground.boot(await ground.create({ private_ip: true }));
  const plain = await bootRow(ground, "boot of an instance, image present", {});
  const both = await bootRow(ground, "boot with a private address too (2 networks)", { private_ip: true });
  const death = await deathRow(ground);
  await ground.close();
  return [plain, both, death];
};
