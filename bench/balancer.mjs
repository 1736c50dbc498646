// Backlot's balancer beside HAProxy (one thread), nginx (one worker), its own careful lane, a bare http-proxy and the back end itself.
//   npm run bench:balancer [-- SECONDS ROUNDS FILTER]      seconds a measurement (1), rounds (3), rows whose name holds FILTER
// Needs wrk, nginx and openssl, and HAProxy to compare with: apt-get install wrk nginx-light haproxy openssl. One back end, an nginx that serves
// files. Rounds are interleaved: every peer once, then again; medians are shown. Writes docs/balancer.svg when no FILTER is given.
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { isInstalled, makePair, startBackend, startPeers } from "./balancer/peers.mjs";
import { picture } from "./balancer/picture.mjs";

const seconds = Number(process.argv[2] ?? 1);
const rounds = Number(process.argv[3] ?? 3);
const filter = process.argv[4];
const TICK_MS = 10; // of /proc/PID/stat on Linux

const row = (name, scheme, size, connections, more = {}) => ({ name, scheme, size, connections, ...more });
const rows = [
  ...[1, 16, 128, 1000].map((count) => row(`plain, small, ${count}`, "http", "small", count)),
  ...[1, 16, 128].map((count) => row(`plain, 64 KiB, ${count}`, "http", "64-KiB", count)),
  row("plain, 10 MiB, 16", "http", "10-MiB", 16),
  ...[1, 16, 128].map((count) => row(`TLS, small, ${count}`, "https", "small", count)),
  // wrk opens its connections within the time measured, and a thousand handshakes are most of a second.
  row("TLS, small, 1000", "https", "small", 1000, { atLeastSeconds: 5 }),
  ...[16, 128].map((count) => row(`TLS, 64 KiB, ${count}`, "https", "64-KiB", count)),
  row("TLS, 10 MiB, 16", "https", "10-MiB", 16),
  row("a connection per request, 16", "http", "small", 16, { close: true }),
  // So that four processes which start are a small part of it.
  row("TLS handshakes, 4", "https", "small", 4, { handshakes: true, atLeastSeconds: 3 }),
  row("tcp, small, 16", "tcp", "small", 16),
  row("tcp, 64 KiB, 16", "tcp", "64-KiB", 16),
].filter(({ name }) => filter === undefined || name.includes(filter));

const median = (values) => [...values].sort((a, b) => a - b)[values.length >> 1];
const toMs = (text) => {
  const [, value, unit] = /([\d.]+)(us|ms|s)/.exec(text ?? "") ?? [];
  return Number(value) * { us: 0.001, ms: 1, s: 1_000 }[unit];
};
/** Processor time of a process with all its threads, in ms. */
const busyMs = (pid) => {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
};
const rssMb = (pid) => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) / 1_024;

/** Full handshakes and nothing else: wrk resumes every second one. Each process of openssl makes one after the other. */
const shakeHands = async (connections, lastSeconds, port, pid) => {
  const [before, startMs] = [busyMs(pid), performance.now()];
  const words = ["s_time", "-connect", `127.0.0.1:${port}`, "-new", "-tls1_3", "-time", String(Math.max(1, Math.round(lastSeconds)))];
  const said = await Promise.all(Array.from({ length: connections }, () => promisify(execFile)("openssl", words)));
  const counts = said.map(({ stdout }) => Number(/(\d+) connections in \d+ real/.exec(stdout)?.[1] ?? 0));
  const total = counts.reduce((sum, count) => sum + count, 0);
  const perSecond = (total * 1_000) / (performance.now() - startMs);
  return { perSecond, p50: Number.NaN, p99: Number.NaN, cpuUs: ((busyMs(pid) - before) * 1_000) / total, failed: counts.includes(0) };
};

/** One run of wrk against one port. */
const measure = async ({ scheme, size, connections, close, handshakes, atLeastSeconds = 0 }, port, pid) => {
  const lastSeconds = Math.max(seconds, atLeastSeconds);
  if (handshakes) return shakeHands(connections, lastSeconds, port, pid);
  const before = busyMs(pid);
  const words = ["-t1", `-c${connections}`, `-d${lastSeconds}s`, "--timeout", "10s", "--latency", ...(close ? ["-H", "Connection: close"] : [])];
  const url = `${scheme === "https" ? "https" : "http"}://127.0.0.1:${port}/${size}`;
  const { stdout } = await promisify(execFile)("wrk", [...words, url]);
  const spentMs = busyMs(pid) - before;
  const requests = Number(/(\d+) requests in/.exec(stdout)?.[1] ?? 0);
  return {
    perSecond: Number(/Requests\/sec:\s+([\d.]+)/.exec(stdout)?.[1] ?? 0),
    p50: toMs(/50%\s+(\S+)/.exec(stdout)?.[1]),
    p99: toMs(/99%\s+(\S+)/.exec(stdout)?.[1]),
    cpuUs: requests === 0 ? Number.NaN : (spentMs * 1_000) / requests,
    failed: /Non-2xx|connect [1-9]|read [1-9]|write [1-9]/.test(stdout),
  };
};

const main = async () => {
  for (const [name, flag] of [["wrk"], ["nginx"], ["openssl", "version"]]) {
    if (!isInstalled(name, flag)) throw new Error(`${name} is not installed: apt-get install wrk nginx-light haproxy openssl`);
  }
  if (!isInstalled("haproxy")) console.warn("SKIPPED: HAProxy is not installed, so nothing is compared with it.");
  const folder = mkdtempSync(join(tmpdir(), "backlot-bench-"));
  const children = [];
  try {
    const backend = await startBackend(folder);
    children.push(backend.child);
    const started = await startPeers(folder, backend.port, makePair(folder));
    for (const { child } of Object.values(started)) children.push(child);
    const direct = { pid: backend.pid, http: backend.port, tcp: backend.port };
    const peers = { direct, ...started };
    const conditions = `${cpus().length} cores (${cpus()[0]?.model.trim()}), Node ${process.version}, ${rounds} rounds of ${seconds} s, wrk with one thread`;
    console.log(
      `${conditions}\n\n| what | peer | requests/s | of HAProxy | p50 ms | p99 ms | CPU us/request |\n| --- | --- | ---: | ---: | ---: | ---: | ---: |`,
    );
    const shown = [];
    for (const each of rows) {
      const taking = Object.entries(peers).filter(([, peer]) => peer[each.scheme] !== undefined);
      const runs = Object.fromEntries(taking.map(([name]) => [name, []]));
      for (let round = 0; round < rounds; round++) {
        for (const [name, peer] of taking) runs[name].push(await measure(each, peer[each.scheme], peer.pid));
      }
      const of = (name, value) => median(runs[name].map((run) => run[value]));
      const ratios = {};
      for (const [name] of taking) {
        if (runs.haproxy) ratios[name] = of(name, "perSecond") / of("haproxy", "perSecond");
        const figures = [of(name, "perSecond").toFixed(0), ratios[name]?.toFixed(2) ?? "", of(name, "p50").toFixed(2), of(name, "p99").toFixed(2)];
        const failed = runs[name].some((run) => run.failed) ? " (errors)" : "";
        console.log(`| ${each.name} | ${name}${failed} | ${figures.join(" | ")} | ${of(name, "cpuUs").toFixed(0)} |`);
      }
      shown.push({ name: each.name, ratios });
    }
    const memory = Object.entries(started).map(([name, { pid }]) => `${name} ${rssMb(pid).toFixed(0)} MB`);
    console.log(`\nMemory afterwards: ${memory.join(", ")}.`);
    if (filter === undefined && started.haproxy) {
      const names = ["backlot", "haproxy", "nginx", "careful", "http-proxy"];
      writeFileSync(new URL("../docs/balancer.svg", import.meta.url), picture(shown, names, conditions));
    }
  } finally {
    for (const child of children) child.kill();
    rmSync(folder, { recursive: true, force: true });
  }
};

await main();
