// A Backlot of our own, started as people start it: the built command line in a process of its own, asked over HTTP only.
import { spawn } from "node:child_process";
import http from "node:http";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const cli = fileURLToPath(new URL("../../dist/bin/cli.js", import.meta.url));
/** Ranges that a Backlot with its defaults, or a test, does not use. */
const ranges = ["--private-pool", "192.168.16.0/20", "--balancer-addresses", "127.0.9.0/24"];
const startWithinMs = 20_000;
const stopWithinMs = 20_000;

/** Everything that is to be closed, whatever happens; the last opened first. */
const open = new Set();

/** Registers a way to close something; the answer closes it once, now. */
export const closing = (close) => {
  let closed;
  const once = () => {
    open.delete(once);
    closed ??= close();
    return closed;
  };
  open.add(once);
  return once;
};

export const closeAll = async () => {
  for (const close of [...open].reverse()) await close().catch((error) => console.error(`while cleaning up: ${error.message}`));
};

/** One request over a kept connection. Answers the parsed body; anything but 200 is an error that quotes the answer. */
const asker = (url, token) => {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 256 });
  const { hostname, port } = new URL(url);
  const ask = (method, path, { body, headers = {} } = {}) =>
    new Promise((resolve, reject) => {
      const payload = body === undefined ? undefined : JSON.stringify(body);
      const type = payload === undefined ? {} : { "content-type": "application/json", "content-length": Buffer.byteLength(payload) };
      const request = http.request(
        { agent, hostname, port, method, path, headers: { authorization: `Bearer ${token}`, ...type, ...headers } },
        (response) => {
          const chunks = [];
          response.on("data", (chunk) => chunks.push(chunk));
          response.on("error", reject);
          response.on("end", () => {
            const text = Buffer.concat(chunks).toString();
            if (response.statusCode === 200) resolve(JSON.parse(text));
            else reject(new Error(`${method} ${path} was answered ${response.statusCode} ${text.slice(0, 300)}`));
          });
        },
      );
      request.on("error", reject);
      request.end(payload);
    });
  return { ask, hangUp: () => agent.destroy() };
};

const ended = (child) => (child.exitCode === null && child.signalCode === null ? new Promise((resolve) => child.once("exit", resolve)) : undefined);

/** Stops a child we started: asks, and after a while does not ask. */
const stopChild = async (child) => {
  const gone = ended(child);
  if (!gone) return;
  child.kill("SIGTERM");
  const hard = setTimeout(() => child.kill("SIGKILL"), stopWithinMs);
  await gone;
  clearTimeout(hard);
};

/**
 * Starts Backlot on a state folder.
 * @returns readyMs from spawn to the first line on standard output; `ask(method, path, { body, headers })`; `close()`
 */
export const startCloud = async ({ runtime, state, args = [] }) => {
  const startMs = performance.now();
  const words = ["start", "--json", "--port", "0", "--runtime", runtime, "--state", state, "--log-level", "error", ...ranges, ...args];
  const child = spawn(process.execPath, [cli, ...words], { stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  child.stderr.on("data", (chunk) => {
    said = (said + chunk).slice(-2000);
  });
  const kill = closing(() => stopChild(child));
  const lines = createInterface({ input: child.stdout });
  const first = await new Promise((resolve) => {
    lines.once("line", resolve);
    child.once("exit", () => resolve(undefined));
    setTimeout(() => resolve(undefined), startWithinMs).unref();
  });
  const readyMs = performance.now() - startMs;
  if (first === undefined) {
    await kill();
    throw new Error(`Backlot did not start: ${said.trim() || "it said nothing"}`);
  }
  const { url, token, pid } = JSON.parse(first);
  const { ask, hangUp } = asker(url, token);
  const close = async () => {
    hangUp();
    await kill();
  };
  return { readyMs, url, token, pid, ask, close };
};

/** Asks until `check` is content; the pause is what a figure measured so can be off by. */
export const until = async (what, check, { withinMs = 30_000, pauseMs = 5 } = {}) => {
  const endMs = performance.now() + withinMs;
  for (;;) {
    const value = await check();
    if (value) return value;
    if (performance.now() > endMs) throw new Error(`${what}: not within ${withinMs} ms`);
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
};
