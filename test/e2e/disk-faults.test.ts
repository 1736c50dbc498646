import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdirSync, mkdtempSync, openSync, readdirSync, rmSync, writeSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { type OwnProcess, started } from "../soak/own-process.js";
import { type Answer, commandLineGround, type Json } from "../support/cloud.js";
import { limitTo, openLine } from "../support/descriptors.js";
import { until } from "../support/until.js";

const isRoot = process.getuid?.() === 0;
let root: string;
let words: string[];
const left: Array<() => Promise<void> | void> = [];

beforeAll(async () => {
  root = mkdtempSync(join(tmpdir(), "backlot-disk-"));
  const { privatePool, balancerAddresses } = await commandLineGround();
  words = ["--runtime", "process", "--private-pool", privatePool, "--balancer-addresses", balancerAddresses, "--dns-port", "off", "--speed", "50"];
});
afterEach(async () => {
  for (const close of left.splice(0).reverse()) await close();
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** A mount namespace of its own, so that what is mounted is gone with the process, however it ends. `script`: what mounts `$0`. */
const namespace = (state: string, script: string): string[] => [
  "unshare",
  ...(isRoot ? ["--mount"] : ["--user", "--map-root-user", "--mount"]),
  "sh",
  "-ec",
  `${script} && exec "$@"`,
  state,
];
/** A path as a process in a mount namespace of its own sees it. */
const seenBy = ({ pid }: OwnProcess, path: string): string => `/proc/${pid}/root${path}`;

const fill = (path: string): void => {
  const file = openSync(path, "a");
  try {
    for (const size of [65_536, 4_096, 1]) {
      try {
        for (;;) writeSync(file, Buffer.alloc(size));
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
      }
    }
  } finally {
    closeSync(file);
  }
};

const labelsOf = async ({ api }: OwnProcess): Promise<string[]> => {
  const { status, body } = await api.get("/v4/balancers");
  expect(status).toBe(200);
  return body.data.map(({ label }: Json) => label);
};
const make = (backlot: OwnProcess, label: string): Promise<Answer> => backlot.api.post("/v4/balancers", { label, region: "us-east" });
const refused = (answer: Answer, reason: RegExp): void => {
  expect([answer.status, answer.body.errors?.length]).toEqual([503, 1]);
  expect(answer.body.errors[0].reason).toMatch(reason);
};

test("a full disk: changes are refused with 503, the file and the remedy; what is there is shown; room makes it well", async () => {
  const state = join(root, "full");
  const before = namespace(state, 'mkdir -p "$0" && mount -t tmpfs -o size=4m,mode=0700 backlot "$0"');
  const backlot = await started([...words, "--state", state], { before });
  left.push(() => backlot.kill());
  const ballast = seenBy(backlot, join(state, "ballast"));
  expect((await make(backlot, "before")).status).toBe(200);
  for (const round of [1, 2]) {
    fill(ballast);
    const labels = await labelsOf(backlot);
    for (let n = 0; n < 30; n += 1) {
      const answer = await make(backlot, `full-${round}-${n}`);
      if (answer.status === 200)
        labels.push(`full-${round}-${n}`); // the rest of the journal's last block
      else
        refused(
          answer,
          /^The change was not saved because \S+\/journal\.1\.jsonl cannot be written \(ENOSPC: .*\); free some space on that disk and try again\.$/,
        );
    }
    expect(labels.length).toBeLessThan(round * 25);
    expect(await labelsOf(backlot)).toEqual(labels);
    await until(async () =>
      (await backlot.api.get("/v4/account/notifications")).body.data.some(
        (notice: Json) => notice.label === "The disk is nearly full" && notice.severity === "critical",
      ),
    );
    rmSync(ballast);
    expect((await make(backlot, `free-${round}`)).status).toBe(200);
    expect(await labelsOf(backlot)).toEqual([...labels, `free-${round}`]);
  }
});

test.skipIf(!isRoot)(
  "a disk that becomes read-only: 503 with the cause, memory as it was; mounted again, every acknowledged change is there",
  async () => {
    const state = join(root, "frozen");
    const image = join(root, "frozen.ext4");
    execFileSync("truncate", ["-s", "16M", image]);
    execFileSync("mkfs.ext4", ["-q", image]);
    mkdirSync(state);
    const mount = 'mount -o loop "$1" "$0" && shift && chmod 0700 "$0"';
    const before = [...namespace(state, mount), image];
    const backlot = await started([...words, "--state", join(state, "in")], { before });
    left.push(() => backlot.kill());
    expect((await make(backlot, "one")).status).toBe(200);
    // What the kernel does to a file system that has errors.
    execFileSync("nsenter", ["-t", String(backlot.pid), "-m", "mount", "-o", "remount,abort", state]);
    const answers = [await make(backlot, "two"), await make(backlot, "three")];
    for (const answer of answers)
      refused(answer, /journal\.1\.jsonl cannot be written \((EROFS|EIO): .*\); (make that file system writable|check that disk) and try again\.$/);
    expect(await labelsOf(backlot)).toEqual(["one"]);
    await backlot.kill();
    const again = await started([...words, "--state", join(state, "in")], { before });
    left.push(() => again.kill());
    expect(await labelsOf(again)).toEqual(["one"]);
    expect((await make(again, "four")).status).toBe(200);
  },
);

test("out of descriptors: what is there is shown and nothing that lives is called dead; what needs one says so, and comes by itself when there are some", async () => {
  const token = "a-token-of-my-own-choice";
  const backlot = await started([...words, "--state", join(root, "descriptors"), "--token", token]);
  left.push(() => backlot.kill());
  const line = openLine(backlot.url, token);
  left.push(line.close);
  const create = { region: "us-east", type: "g6-nanode-1", image: "cloud/debian12", root_pass: "Curtain-7-Call" };
  const { body: lives } = await line.ask("POST", "/v4/cloud/instances", { ...create, label: "lives" });
  const { body: later } = await line.ask("POST", "/v4/cloud/instances", { ...create, label: "later", booted: false });
  const { body: balancer } = await line.ask("POST", "/v4/balancers", { label: "web", region: "us-east" });
  left.push(async () => {
    for (const { id } of [lives, later]) await backlot.api.del(`/v4/cloud/instances/${id}`);
    await until(async () => (await backlot.api.get("/v4/cloud/instances")).body.results === 0, { what: "no instance" });
  });
  const reaches = (id: number, status: string) =>
    until(async () => (await line.ask("GET", `/v4/cloud/instances/${id}`)).body.status === status, { what: `instance ${id} ${status}` });
  await reaches(lives.id, "running");
  await reaches(later.id, "offline");
  const { body: place } = await line.ask("GET", `/_backlot/instances/${lives.id}`);

  left.push(() => limitTo(backlot.pid, 1_024));
  limitTo(backlot.pid, 3);
  expect((await line.ask("GET", "/v4/cloud/instances")).body.results).toBe(2);
  // The journal is open: what it can take is durable.
  expect((await line.ask("PUT", `/v4/balancers/${balancer.id}`, { label: "renamed" })).status).toBe(200);
  const looked = await line.ask("GET", `/_backlot/instances/${lives.id}`);
  refused(looked, /EMFILE.*raise the open file limit of the user Backlot runs as/);
  const { body: config } = await line.ask("POST", `/v4/balancers/${balancer.id}/configs`, { port: 21_080 });
  const configPath = `/v4/balancers/${balancer.id}/configs/${config.id}`;
  const failed = await until(async () => {
    const { body } = await line.ask("GET", configPath);
    return body.listener.status === "failed" && body;
  });
  expect(failed.listener.reason).toMatch(/EMFILE|too many open files|open file limit/);
  expect((await line.ask("POST", `/v4/cloud/instances/${later.id}/boot`)).status).toBe(200);
  const event = await until(async () => {
    const { body } = await line.ask("GET", "/v4/account/events");
    return body.data.find(({ action, status, entity }: Json) => action === "instance_boot" && status === "failed" && entity.id === later.id);
  });
  expect(event.message).toMatch(/EMFILE|too many open files/);
  expect((await line.ask("GET", `/v4/cloud/instances/${lives.id}`)).body.status).toBe("running");

  limitTo(backlot.pid, 1_024);
  await until(async () => (await line.ask("GET", configPath)).body.listener.status === "open", { what: "the listener" });
  expect((await line.ask("GET", `/_backlot/instances/${lives.id}`)).body.pid).toBe(place.pid);
  expect((await backlot.api.post(`/v4/cloud/instances/${later.id}/boot`)).status).toBe(200);
  await reaches(later.id, "running");
  expect(readdirSync(`/proc/${backlot.pid}/fd`).length).toBeLessThan(200);
});

test("out of descriptors: a node that cannot be asked is not called down, by checks or by requests, and serves on", async () => {
  const token = "a-token-of-my-own-choice";
  const backlot = await started([...words, "--state", join(root, "unasked"), "--token", token]);
  left.push(() => backlot.kill());
  const line = openLine(backlot.url, token);
  left.push(line.close);
  // An address that no instance is given, and where it really is.
  const address = `192.168.${Number(/192\.168\.(\d+)\./.exec(words[3] ?? "")?.[1]) + 15}.200`;
  const { body: place } = await line.ask("GET", `/_backlot/dial?address=${address}&port=8080`);
  const node = createServer((_request, answer) => void answer.setHeader("Connection", "close").end("here"));
  node.listen(place.port, place.host);
  await once(node, "listening");
  left.push(() => void node.close());
  const { body: balancer } = await line.ask("POST", "/v4/balancers", { label: "web", region: "us-east" });
  const path = `/v4/balancers/${balancer.id}/configs`;
  const check = { check: "http", check_path: "/", check_interval: 5, check_timeout: 3, check_attempts: 1 };
  const { body: config } = await line.ask("POST", path, { port: 21_080, nodes: [{ label: "one", address: `${address}:8080` }], ...check });
  const { data: nodes } = (await line.ask("GET", `${path}/${config.id}/nodes`)).body;
  const status = async () => (await line.ask("GET", `${path}/${config.id}/nodes/${nodes[0].id}`)).body.status;
  await until(async () => (await status()) === "UP", { what: "a node that is up" });
  await until(async () => (await line.ask("GET", `${path}/${config.id}`)).body.listener.status === "open", { what: "the listener" });
  const visitor = openLine(`http://${balancer.ipv4}:21080`, "");
  left.push(visitor.close);
  const visit = async () => {
    const { status: code, body } = await visitor.ask("GET", "/");
    return [code, body];
  };
  expect(await visit()).toEqual([200, "here"]);

  left.push(() => limitTo(backlot.pid, 1_024));
  limitTo(backlot.pid, 3);
  expect(await visit()).toEqual([503, expect.stringMatching(/one .* could not be asked: this machine has no file descriptor left.*EMFILE/)]);
  const probes = `/_backlot/nodes/${nodes[0].id}/probes`;
  const unasked = async () =>
    (await line.ask("GET", probes)).body.probes.filter(({ reason }: Json) => /could not be asked.*EMFILE/.test(reason)).length;
  await until(async () => (await unasked()) > 2, { what: "checks that could not be made" });
  expect(await status()).toBe("UP");
  limitTo(backlot.pid, 1_024);
  expect(await visit()).toEqual([200, "here"]);
});
