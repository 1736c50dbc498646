// Requests per second through the balancer relative to straight to the back end, and what TLS and POST add.
//   npm run build && node bench/balancer.mjs [seconds per row, default 2]
// 16 keep-alive connections, 64-byte answers; client and back end each in a process of their own, the plane in its worker thread.
import { execFileSync, fork } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import http from "node:http";
import https from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openPlane } from "#backlot/balancer/worker-host.js";

const CONNECTIONS = 16;
const seconds = Number(process.argv[2] ?? 2);

const backend = () => {
  const body = "x".repeat(64);
  const server = http.createServer((req, res) => {
    req.resume();
    req.on("end", () => res.end(body));
  });
  server.listen(0, "127.0.0.1", () => process.send(server.address().port));
};

/** Asks as fast as the answers come; sends back how many were good and the sorted latencies' quantiles. */
const client = () =>
  process.on("message", async ({ scheme, port, method }) => {
    const web = scheme === "https" ? https : http;
    const agent = new web.Agent({ keepAlive: true, maxSockets: CONNECTIONS, rejectUnauthorized: false });
    const latencies = [];
    let failed = 0;
    const ask = () =>
      new Promise((resolve) => {
        const startedMs = performance.now();
        const req = web.request({ host: "127.0.0.1", port, agent, method, headers: method === "POST" ? { "Content-Length": 2 } : {} }, (res) => {
          res.resume();
          res.on("end", () => {
            if (res.statusCode === 200) latencies.push(performance.now() - startedMs);
            else failed++;
            resolve();
          });
        });
        req.on("error", () => {
          failed++;
          resolve();
        });
        req.end(method === "POST" ? "hi" : undefined);
      });
    const spin = (untilMs) =>
      Promise.all(
        Array.from({ length: CONNECTIONS }, async () => {
          while (performance.now() < untilMs) await ask();
        }),
      );
    await spin(performance.now() + 500); // warm up
    latencies.length = 0;
    failed = 0;
    const startedMs = performance.now();
    await spin(startedMs + seconds * 1000);
    const perSecond = latencies.length / ((performance.now() - startedMs) / 1000);
    latencies.sort((a, b) => a - b);
    const quantile = (share) => latencies[Math.floor((latencies.length - 1) * share)];
    agent.destroy();
    process.send({ perSecond, p50: quantile(0.5), p99: quantile(0.99), failed });
  });

const main = async () => {
  const folder = mkdtempSync(join(tmpdir(), "backlot-bench-"));
  const children = [];
  const start = (role) => {
    const child = fork(new URL(import.meta.url), [String(seconds)], { env: { ...process.env, BENCH_ROLE: role } });
    children.push(child);
    return child;
  };
  const message = (child) => new Promise((resolve) => child.once("message", resolve));
  const plane = openPlane({ onProblem: (reason) => console.error(reason) });
  try {
    const [keyFile, certFile] = [join(folder, "key.pem"), join(folder, "cert.pem")];
    const subject = ["-subj", "/C=DE/CN=localhost", "-days", "1"];
    execFileSync("openssl", ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", keyFile, "-out", certFile, ...subject], { stdio: "ignore" });
    const tls = { cert: readFileSync(certFile, "utf8"), key: readFileSync(keyFile, "utf8"), cipherSuite: "recommended" };
    const ports = await Promise.all([message(start("backend")), message(start("backend"))]);
    const nodes = ports.map((port, index) => ({
      id: index + 1,
      label: `node-${index + 1}`,
      address: `192.168.128.${index + 2}:80`,
      endpoint: { host: "127.0.0.1", port },
      weight: 50,
      mode: "accept",
      up: true,
    }));
    const common = {
      address: "127.0.0.1",
      port: 0,
      algorithm: "roundrobin",
      stickiness: "none",
      checkPassive: true,
      balancer: 1,
      connThrottle: 0,
      udpSessThrottle: 0,
      proxyProtocol: "none",
      nodes,
    };
    const open = async (protocol) => (await plane.apply(`bench:${protocol}`, { ...common, protocol, tls: protocol === "https" ? tls : null })).port;
    const rows = [
      ["direct, GET", "http", ports[0], "GET"],
      ["http, GET", "http", await open("http"), "GET"],
      ["http, POST", "http", await open("http"), "POST"],
      ["https, GET", "https", await open("https"), "GET"],
      ["tcp, GET", "http", await open("tcp"), "GET"],
    ];
    const asking = start("client");
    let base;
    console.log(`${CONNECTIONS} keep-alive connections, 64-byte answers, ${seconds} s a row, Node ${process.version}\n`);
    console.log("| path | requests/s | of direct | p50 ms | p99 ms | failed |\n| --- | ---: | ---: | ---: | ---: | ---: |");
    for (const [name, scheme, port, method] of rows) {
      asking.send({ scheme, port, method });
      const { perSecond, p50, p99, failed } = await message(asking);
      base ??= perSecond;
      const cells = [perSecond.toFixed(0), `${((perSecond / base) * 100).toFixed(0)} %`, p50?.toFixed(2), p99?.toFixed(2), failed];
      console.log(`| ${name} | ${cells.join(" | ")} |`);
    }
  } finally {
    await plane.close();
    for (const child of children) child.kill();
    rmSync(folder, { recursive: true, force: true });
  }
};

await { backend, client }[process.env.BENCH_ROLE ?? ""]?.();
if (process.env.BENCH_ROLE === undefined) await main();
