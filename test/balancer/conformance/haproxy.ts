import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe } from "vitest";
import { until } from "../../support/until.js";
import { converse } from "./wire.js";

/** A port nobody has, for a program that cannot be told to take any. */
const freePort = (): Promise<number> =>
  new Promise((resolve, reject) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address() as { port: number };
      server.close((error) => (error ? reject(error) : resolve(port)));
    });
  });

const hasHaproxy = spawnSync("haproxy", ["-v"]).status === 0;

/** A suite over HAProxy: skipped, and said, where it is not installed; run (and so failed) all the same with BACKLOT_REQUIRE_HAPROXY=1. */
export const describeHaproxy = (name: string, body: () => void): void => {
  if (!hasHaproxy) console.warn(`SKIPPED: ${name}. Run \`sudo apt-get install haproxy\`, then the tests again.`);
  describe.runIf(hasHaproxy || process.env.BACKLOT_REQUIRE_HAPROXY === "1")(name, body);
};

export interface Haproxy {
  port: number;
  close(): void;
}

/** HAProxy, set up as plainly as ours, in front of one node. */
export const startHaproxy = async (backend: number): Promise<Haproxy> => {
  const folder = mkdtempSync(join(tmpdir(), "backlot-haproxy-"));
  const port = await freePort();
  const lines = [
    "global",
    "  nbthread 1",
    "  maxconn 1000",
    "defaults",
    "  mode http",
    "  timeout connect 5s",
    "  timeout client 30s",
    "  timeout server 30s",
    "  option forwardfor",
    "frontend front",
    `  bind 127.0.0.1:${port}`,
    "  http-request set-header X-Forwarded-Proto http",
    "  default_backend back",
    "backend back",
    `  server one 127.0.0.1:${backend}`,
  ];
  writeFileSync(join(folder, "haproxy.cfg"), `${lines.join("\n")}\n`);
  const program = spawn("haproxy", ["-db", "-f", join(folder, "haproxy.cfg")], { stdio: "ignore" });
  await until(async () => (await converse(port, [], { wanted: 0, closing: false, methods: ["GET"], half: false })).stillOpen);
  return {
    port,
    close: () => {
      program.kill("SIGKILL");
      rmSync(folder, { recursive: true, force: true });
    },
  };
};
