import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { afterEach, expect, test } from "vitest";
import { closeLater, closeOpened } from "./support.js";

afterEach(closeOpened);

const linux = process.platform === "linux";
/** From this port on everybody may listen; below it a process needs the capability. */
const firstFree = linux ? Number(readFileSync("/proc/sys/net/ipv4/ip_unprivileged_port_start", "utf8")) : 1024;
/** An address nobody else uses, where there are several. */
const address = linux ? "127.94.17.3" : "127.0.0.1";

const script = `
  import { openPlane } from "#backlot/balancer/worker-host.js";
  const plane = openPlane();
  const spec = (port) => ({ address: "${address}", port, protocol: "http", tls: null, algorithm: "roundrobin", stickiness: "none", checkPassive: true, nodes: [] });
  const states = [];
  for (const [key, port] of [["a", 80], ["b", 443], ["a", 80]]) states.push(await plane.apply(key, spec(port)));
  console.log(JSON.stringify(states));
  await plane.close();
`;

test("a port that needs privileges we lack is offset, and the state says so", async () => {
  const node = [process.execPath, "--input-type=module", "-e", script];
  const [command = "", ...args] = process.getuid?.() === 0 ? ["setpriv", "--bounding-set=-net_bind_service", ...node] : node;
  const child = spawn(command, args, { cwd: new URL("../..", import.meta.url), stdio: ["ignore", "pipe", "inherit"] });
  closeLater(() => void child.kill());
  let out = "";
  child.stdout.on("data", (chunk) => {
    out += chunk;
  });
  await new Promise<void>((resolve, reject) => child.once("close", () => resolve()).once("error", reject));
  const real = (port: number) => ({ status: "open", address, port: port < firstFree ? port + 8000 : port });
  expect(JSON.parse(out)).toEqual([real(80), real(443), real(80)]);
});
