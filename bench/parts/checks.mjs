// What 1,000 nodes under health check cost and whether their rhythm holds; how soon the API answers while the balancer is saturated.
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { promisify } from "node:util";
import { closing, startCloud, until } from "./cloud.mjs";
import { line, median, timed } from "./figures.mjs";
import { temporaryFolder } from "./folder.mjs";

const nodes = 1_000;
const intervalMs = 5_000;
/** Long enough that a full garbage collection, which takes as much as two seconds of checks, weighs what it does in the long run. */
const watchedMs = 60_000;
/** Until V8 has compiled what runs 200 times a second. */
const warmMs = 20_000;
const loadSeconds = 5;
/** Of /proc/PID/stat on Linux. */
const tickMs = 10;
const idle = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const busyMs = (pid) => {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  return (Number(fields[11]) + Number(fields[12])) * tickMs;
};

/** A server in a process of its own: /small answers 64 bytes, /big 10 MiB. */
const backEnd = `
const small = Buffer.alloc(64, 120), big = Buffer.alloc(10 * 1024 * 1024, 120);
const server = require("node:http").createServer((request, response) => {
  const body = request.url === "/big" ? big : small;
  response.writeHead(200, { "Content-Length": body.length }).end(body);
});
server.listen(Number(process.argv[1]), process.argv[2], () => process.stdout.write("listening"));
`;
/** For machines without wrk: so many connections that ask again and again. */
const asker = `
const http = require("node:http");
const [url, connections, seconds] = process.argv.slice(1);
const agent = new http.Agent({ keepAlive: true });
const endMs = Date.now() + Number(seconds) * 1000;
const ask = () => Date.now() < endMs ? http.get(url, { agent }, (answer) => answer.resume().on("end", ask)).on("error", ask) : agent.destroy();
for (let n = 0; n < Number(connections); n++) ask();
`;

const startBackEnd = async ({ host, port }) => {
  const child = spawn(process.execPath, ["-e", backEnd, String(port), host], { stdio: ["ignore", "pipe", "inherit"] });
  const end = closing(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill();
    await once(child, "exit");
  });
  await Promise.race([once(child.stdout, "data"), once(child, "exit").then(() => Promise.reject(new Error("the back end did not start")))]);
  return end;
};

const run = promisify(execFile);
/** Loads `url`; how much went through, in words, where wrk tells it. */
const load = async (url, connections) => {
  try {
    const { stdout } = await run("wrk", ["-t1", `-c${connections}`, `-d${loadSeconds}s`, "--timeout", "10s", url]);
    return `${/Requests\/sec:\s+(\d+)/.exec(stdout)?.[1]}/s, ${/Transfer\/sec:\s+(\S+)/.exec(stdout)?.[1]}/s`;
  } catch (error) {
    if (error.code !== "ENOENT") throw error;
    await run(process.execPath, ["-e", asker, url, String(connections), String(loadSeconds)]);
    return undefined;
  }
};

const instanceBody = { region: "us-east", type: "g6-nanode-1", image: "cloud/debian12", root_pass: "Bench-only-1", private_ip: true };

/** A running instance with a back end on its private address, and a balancer. */
const startGround = async () => {
  const cloud = await startCloud({ runtime: "process", state: temporaryFolder(), args: ["--on-exit", "stop", "--speed", "1"] });
  const { id, ipv4 } = await cloud.ask("POST", "/v4/cloud/instances", { body: instanceBody });
  await until("the instance runs", async () => (await cloud.ask("GET", `/v4/cloud/instances/${id}`)).status === "running");
  const address = ipv4.find((each) => each.startsWith("192.168."));
  const stopBackEnd = await startBackEnd(await cloud.ask("GET", `/_backlot/dial?address=${address}&port=18000`));
  const balancer = await cloud.ask("POST", "/v4/balancers", { body: { region: "us-east", label: "bench" } });
  const createConfig = (body) => cloud.ask("POST", `/v4/balancers/${balancer.id}/configs`, { body });
  const close = async () => {
    await cloud.ask("DELETE", `/v4/balancers/${balancer.id}`);
    await stopBackEnd();
    await cloud.close();
  };
  return { cloud, address, createConfig, close };
};

const allUp = (cloud, config, count) =>
  until(
    `${count} nodes up`,
    async () => (await cloud.ask("GET", `/v4/balancers/${config.balancer_id}/configs/${config.id}`)).nodes_status.up === count,
    { pauseMs: 100 },
  );

/** How far each gap between two checks of a node is from the interval, in ms. */
const driftOf = (probes) => {
  const times = probes.map(({ time }) => Date.parse(time));
  return times.slice(1).map((time, at) => Math.abs(time - times[at] - intervalMs));
};

export const checkRows = async () => {
  const { cloud, address, createConfig, close } = await startGround();
  const idleMs = busyMs(cloud.pid);
  await idle(3_000);
  const idleShare = ((busyMs(cloud.pid) - idleMs) / 3_000) * 100;
  const members = Array.from({ length: nodes }, (_, at) => ({ label: `node-${at}`, address: `${address}:18000` }));
  const check = { check: "http", check_path: "/small", check_interval: intervalMs / 1_000, check_timeout: 3 };
  const config = await createConfig({ port: 20_080, ...check, nodes: members });
  await allUp(cloud, config, nodes);
  await idle(warmMs);
  const [beforeMs, startMs] = [busyMs(cloud.pid), performance.now()];
  await idle(watchedMs);
  const share = ((busyMs(cloud.pid) - beforeMs) / (performance.now() - startMs)) * 100;
  const drifts = [];
  const { data } = await cloud.ask("GET", `/v4/balancers/${config.balancer_id}/configs/${config.id}/nodes?page_size=500`);
  for (const { id } of data.filter((_, at) => at % 10 === 0)) {
    drifts.push(...driftOf((await cloud.ask("GET", `/_backlot/nodes/${id}/probes`)).probes.slice(1)));
  }
  await close();
  return [
    line({
      what: `${nodes} nodes under an http check at 5 s, of one core`,
      figure: share,
      unit: "%",
      baseline: idleShare,
      baselineIs: "without",
      budget: 3,
    }),
    line({ what: "the same: a gap between two checks, off its 5 s", figure: median(drifts), worst: Math.max(...drifts), unit: "ms" }),
  ];
};

const p99 = (values) => values.toSorted((a, b) => a - b)[Math.floor((values.length - 1) * 0.99)];

export const apiUnderLoadRows = async () => {
  const { cloud, address, createConfig, close } = await startGround();
  const config = await createConfig({ port: 20_080, check: "connection", nodes: [{ label: "node-0", address: `${address}:18000` }] });
  await allUp(cloud, config, 1);
  const { listener } = await until("the listener is open", async () => {
    const now = await cloud.ask("GET", `/v4/balancers/${config.balancer_id}/configs/${config.id}`);
    return now.listener.status === "open" && now;
  });
  const trivial = () => timed(() => cloud.ask("GET", "/v4/regions/us-east"));
  for (let n = 0; n < 100; n++) await trivial();
  const quiet = [];
  for (let n = 0; n < 300; n++) quiet.push(await trivial());
  const lines = [];
  // So few of the big ones that one is whole every now and then also on a slow machine: wrk counts whole answers.
  for (const [path, name, connections] of [
    ["small", "64-byte", 64],
    ["big", "10 MiB", 8],
  ]) {
    const took = [];
    let running = true;
    const loading = load(`http://${listener.address}:${listener.port}/${path}`, connections).finally(() => {
      running = false;
    });
    await idle(500);
    while (running) {
      took.push(await trivial());
      await idle(5);
    }
    const through = await loading;
    const rate = through === undefined ? "" : ` (${through})`;
    lines.push(
      line({
        what: `p99 of GET /v4/regions/us-east, balancer full of ${name} answers${rate}`,
        figure: p99(took),
        worst: Math.max(...took),
        unit: "ms",
        baseline: p99(quiet),
        baselineIs: "p99 without load",
        budget: 25,
      }),
    );
  }
  await close();
  return lines;
};
