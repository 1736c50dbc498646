import { execFileSync } from "node:child_process";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { chmodSync, chownSync, existsSync, mkdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { apiOf, type Json } from "../support/cloud.js";
import { firstLine, openTerminal } from "../support/command-line.js";
import { until } from "../support/until.js";

const terminal = openTerminal();
const closing: Array<() => void> = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) close();
  await terminal.close();
});

interface Finding {
  check: string;
  level: "good" | "note" | "problem";
  text: string;
  remedy: string | null;
}

/** Everything picked so that this machine's own state decides nothing, but for the words given. */
const quietWords = (state: string) => ["--json", "--runtime", "process", "--port", "0", "--dns-port", "0", "--state", state];

const examine = async (
  words: string[] = [],
  env: Record<string, string> = {},
  state = join(terminal.folder(), "state"),
  as: Parameters<typeof terminal.type>[2] = {},
): Promise<Finding[]> => {
  const run = terminal.type(["doctor", ...quietWords(state), ...words], env, as);
  const code = await run.ended;
  const { healthy, findings } = JSON.parse(run.out()) as { healthy: boolean; findings: Finding[] };
  expect(code, run.err()).toBe(healthy ? 0 : 1);
  expect(healthy).toBe(findings.every(({ level }) => level !== "problem"));
  for (const { level, remedy } of findings) expect(typeof remedy === "string").toBe(level !== "good");
  return findings;
};
const of = (findings: Finding[], check: string, level: string) => findings.filter((one) => one.check === check && one.level === level);

test("a machine in order: every check speaks, nothing is a problem, and people read the same", async () => {
  const findings = await examine();
  expect(new Set(findings.map(({ check }) => check))).toEqual(
    new Set(["versions", "engine", "networks", "ports", "resolver", "trust", "leftovers", "clock", "disk"]),
  );
  // Other Backlots' tests may leave things on a shared machine.
  expect(findings.filter(({ level, check }) => level === "problem" && check !== "leftovers")).toEqual([]);
  const run = terminal.type(["doctor", ...quietWords(join(terminal.folder(), "state")).slice(1)]);
  await run.ended;
  expect(run.out()).toMatch(/^ok {7}versions {3}Backlot \S+ on Node\.js/m);
});

test("ports that are taken: who has them, and the command that starts beside them", async () => {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const udp = createSocket("udp4").bind(0, "127.0.0.1");
  await once(udp, "listening");
  closing.push(
    () => server.close(),
    () => udp.close(),
  );
  const { port } = server.address() as AddressInfo;
  const findings = await examine(["--port", String(port), "--dns-port", String(udp.address().port)]);
  const [api, ...more] = of(findings, "ports", "problem");
  expect(more).toEqual([]);
  expect(api?.text).toMatch(new RegExp(`Port ${port} of 127\\.0\\.0\\.1 is taken by \\S+ \\(pid ${process.pid}\\)`));
  const other = /^backlot start --port (\d+)$/.exec(api?.remedy ?? "")?.[1];
  expect(of(await examine(["--port", String(other)]), "ports", "problem")).toEqual([]);
  // A start answers names elsewhere by itself: nothing has to be mended first.
  const names = of(findings, "ports", "note").find(({ text }) => text.includes("names will be answered on a free port"));
  expect(names).toMatchObject({ text: expect.stringContaining("is taken"), remedy: expect.stringMatching(/^backlot start --dns-port \d+$/) });
});

test.runIf(process.getuid?.() === 0)("a neighbour has the balancers' ports: a range where they are free, and nobody is to be killed", async () => {
  const server = createServer().listen(443, "127.130.0.1");
  await once(server, "listening");
  closing.push(() => server.close());
  const taken = (findings: Finding[]) => of(findings, "ports", "note").filter(({ text }) => /^Port \d+ of \S+ is taken/.test(text));
  const [found, ...more] = taken(await examine(["--balancer-addresses", "127.130.0.0/24"]));
  expect(more).toEqual([]);
  expect(found?.text).toMatch(/^Port 443 of 127\.130\.0\.1 is taken/);
  const range = /^backlot start --balancer-addresses (127\.0\.\d+\.0\/24)$/.exec(found?.remedy ?? "")?.[1];
  expect(range, found?.remedy ?? "").toBeDefined();
  expect(taken(await examine(["--balancer-addresses", String(range)]))).toEqual([]);
});

test("a state folder that others can look into, one that is a file's, one that cannot be read: each with its mending", async () => {
  const state = terminal.folder();
  chmodSync(state, 0o755);
  const [open] = of(await examine([], {}, state), "disk", "problem");
  expect(open).toMatchObject({ text: expect.stringContaining("Other users"), remedy: `chmod 700 ${state}` });
  execFileSync("sh", ["-c", open?.remedy ?? ""]);
  expect(statSync(state).mode & 0o777).toBe(0o700);
  expect(of(await examine([], {}, state), "disk", "problem")).toEqual([]);

  const run = terminal.type(["start", "--state", state, "--runtime", "process", "--port", "0", "--dns-port", "off", "--log-level", "silent"]);
  await until(() => run.out().includes("Ctrl-C"), { withinMs: 20_000, what: "the start" });
  run.child.kill("SIGTERM");
  await run.ended;
  writeFileSync(join(state, "state.json"), "{ half");
  const [unreadable] = of(await examine([], {}, state), "disk", "problem");
  expect(unreadable).toMatchObject({ text: expect.stringContaining("cannot be read"), remedy: `mv ${state} ${state}.damaged` });
  execFileSync("sh", ["-c", unreadable?.remedy ?? ""]);
  closing.push(() => rmSync(`${state}.damaged`, { recursive: true, force: true }));
  expect(of(await examine([], {}, state), "disk", "problem")).toEqual([]);

  const file = join(terminal.folder(), "file");
  writeFileSync(file, "");
  expect(of(await examine([], {}, join(file, "state")), "disk", "problem")).toMatchObject([{ text: expect.stringContaining(`${file} is a file`) }]);
});

test.runIf(process.getuid?.() === 0)("a state folder that may not be written: whatever keeps it from this user, what lets it be", async () => {
  const nobody = { uid: 65_534, gid: 65_534 };
  const place = terminal.folder();
  chmodSync(place, 0o755);
  const state = join(place, "state of nobody");
  const unwritable = async () => {
    const findings = await examine([], {}, state, { cwd: "/", ...nobody });
    return of(findings, "disk", "problem").filter(({ text }) => text.includes("cannot be written"));
  };
  /** Its command, run as the user it was said to, sudo being somebody who may. */
  const mend = async (): Promise<string> => {
    const [found, ...more] = await unwritable();
    expect(more).toEqual([]);
    const remedy = found?.remedy ?? "";
    const isRoots = remedy.startsWith("sudo ");
    const words = remedy.replace("sudo ", "").replace("$(id -u)", String(nobody.uid)).replace("$(id -g)", String(nobody.gid));
    execFileSync("sh", ["-c", words], isRoots ? {} : nobody);
    expect(await unwritable()).toEqual([]);
    return remedy;
  };
  // It is to be made in a folder of root's, which stays root's.
  expect(await mend()).toMatch(/^sudo install /);
  expect([statSync(place).uid, statSync(state).uid, statSync(state).mode & 0o777]).toEqual([0, nobody.uid, 0o700]);
  // It is its user's own, and closed.
  chmodSync(state, 0o500);
  expect(await mend()).toMatch(/^chmod /);
  // It is somebody else's.
  chmodSync(state, 0o755);
  chownSync(state, 0, 0);
  expect(await mend()).toMatch(/^sudo chown /);
  // It lies in a folder that is closed to everybody else, or on a disk that takes nothing.
  rmSync(state, { recursive: true });
  chmodSync(place, 0o711);
  mkdirSync(join(place, "closed"), { mode: 0o700 });
  const elsewhere = "export BACKLOT_STATE=/var/tmp/backlot";
  const within = async (folder: string) => of(await examine([], {}, join(folder, "state"), { cwd: "/", ...nobody }), "disk", "problem");
  expect(await within(join(place, "closed"))).toMatchObject([{ text: expect.stringContaining("EACCES"), remedy: elsewhere }]);
  execFileSync("mount", ["-t", "tmpfs", "-o", "ro,size=1g,mode=777", "tmpfs", join(place, "closed")]);
  closing.push(() => execFileSync("umount", [join(place, "closed")]));
  expect(await within(join(place, "closed"))).toMatchObject([{ text: expect.stringContaining("EROFS"), remedy: elsewhere }]);
});

test.runIf(process.getuid?.() === 0)("a disk that is nearly full", async () => {
  const state = join(terminal.folder(), "small");
  mkdirSync(state, { mode: 0o700 });
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=16m,mode=700", "tmpfs", state]);
  closing.push(() => execFileSync("umount", [state]));
  const [full] = of(await examine([], {}, state), "disk", "problem");
  expect(full).toMatchObject({ text: expect.stringMatching(/^\d+ MiB are free/), remedy: expect.stringContaining("BACKLOT_STATE") });
});

test("resolvers that do not answer are a problem, one that knows no name is none", async () => {
  const silent = createSocket("udp4").bind(0, "127.0.0.1");
  await once(silent, "listening");
  closing.push(() => silent.close());
  const at = `127.0.0.1:${silent.address().port}`;
  const [problem] = of(await examine(["--dns-upstream", at]), "resolver", "problem");
  expect(problem).toMatchObject({ text: expect.stringContaining(at), remedy: "backlot start --dns-upstream 1.1.1.1" });
  silent.on("message", (query, from) => {
    const answer = Buffer.from(query);
    answer.writeUInt16BE(0x8183, 2); // an answer, no such name (RFC 1035 section 4.1.1)
    silent.send(answer, from.port, from.address);
  });
  expect(of(await examine(["--dns-upstream", at]), "resolver", "good")).toHaveLength(1);
});

test("trust: a file that is not there, and a certificate that balancers serve and nobody trusts", async () => {
  const [missing] = of(await examine([], { NODE_EXTRA_CA_CERTS: "/nonexistent/ca.pem" }), "trust", "problem");
  expect(missing).toMatchObject({ text: expect.stringContaining("/nonexistent/ca.pem"), remedy: "unset NODE_EXTRA_CA_CERTS" });

  const state = terminal.folder();
  const words = ["start", "--json", "--runtime", "process", "--port", "0", "--dns-port", "off", "--log-level", "silent", "--state", state];
  const run = terminal.type([...words, "--balancer-addresses", "127.0.47.0/24"]);
  const { url, token } = JSON.parse(await firstLine(run));
  const api = apiOf(url, token);
  const folder = terminal.folder();
  const [key, cert] = [join(folder, "key.pem"), join(folder, "cert.pem")];
  const order = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", key, "-out", cert, "-subj", "/C=DE/CN=shop.test"];
  execFileSync("openssl", order, { stdio: "ignore" });
  const balancer = (await api.post("/v4/balancers", { region: "us-east", label: "shop" })).body;
  const [ssl_cert, ssl_key] = [cert, key].map((path) => execFileSync("cat", [path], { encoding: "utf8" }));
  const config = (await api.post(`/v4/balancers/${balancer.id}/configs`, { protocol: "https", port: 20_443, ssl_cert, ssl_key })).body;
  const path = `/v4/balancers/${balancer.id}/configs/${config.id}`;
  await until(async () => (await api.get(path)).body.listener.status === "open", { what: "the listener" });
  const [note] = of(await examine([], {}, state), "trust", "note");
  expect(note?.text).toContain(`config ${config.id} serves at 127.0.47.1 port 20443`);
  const fetched = execFileSync("sh", ["-c", (note?.remedy ?? "").split(" | sudo tee")[0] ?? ""], { encoding: "utf8" });
  expect(fetched.trim()).toBe(ssl_cert?.trim());
});

test("no engine: less than it could be, or a problem where the engine was asked for", async () => {
  const env = { DOCKER_HOST: "unix:///nonexistent/docker.sock" };
  expect(of(await examine(["--runtime", "docker"], env), "engine", "problem")).toMatchObject([{ remedy: "unset DOCKER_HOST" }]);
  expect(of(await examine(["--runtime", "auto"], env), "engine", "note")).toMatchObject([{ text: expect.stringContaining("processes") }]);
});

test("an engine that does not answer is not said to hold anything", async () => {
  const env = { DOCKER_HOST: "tcp://127.0.0.1:1" };
  for (const runtime of ["process", "auto"] as const) {
    const [found, ...more] = (await examine(["--runtime", runtime], env)).filter(({ check }) => check === "leftovers");
    expect(more).toEqual([]);
    // Other Backlots' tests may leave processes on a shared machine.
    if (found?.level === "problem") expect(found.text).not.toContain("Docker engine");
    else expect(found).toMatchObject({ level: runtime === "process" ? "good" : "note", text: expect.stringMatching(/engine could not be asked/) });
  }
  const dry = terminal.type(["clean", "--dry-run"], env);
  expect(await dry.ended).toBe(0);
  expect(dry.out()).toMatch(/^did not look at the Docker engine: The Docker engine does not answer/m);
  expect(dry.out()).not.toMatch(/^(would remove|kept) .*engine/m);
});

test.runIf(process.getuid?.() === 0)("without privileges: ports below 1024 and the engine's socket", async () => {
  const findings = await examine(["--runtime", "auto"], {}, "/tmp/backlot-doctor-nobody", { cwd: "/", uid: 65_534, gid: 65_534 });
  const lowest = Number(execFileSync("cat", ["/proc/sys/net/ipv4/ip_unprivileged_port_start"], { encoding: "utf8" }));
  const notes = of(findings, "ports", "note").filter(({ text }) => text.includes("privileges"));
  expect(notes.map(({ remedy }) => remedy)).toEqual(lowest > 80 ? ["sudo sysctl -w net.ipv4.ip_unprivileged_port_start=80"] : []);
  if (existsSync("/var/run/docker.sock")) expect(of(findings, "engine", "note")[0]?.remedy).toMatch(/usermod -aG docker/);
});

test("a machine whose Backlot is no more is a leftover that clean would remove", async () => {
  const state = terminal.folder();
  const words = ["start", "--json", "--runtime", "process", "--port", "0", "--dns-port", "off", "--log-level", "silent", "--state", state];
  const run = terminal.type([...words, "--private-pool", "192.168.48.0/20"]);
  const { url, token } = JSON.parse(await firstLine(run));
  const api = apiOf(url, token);
  const wanted = { region: "us-east", type: "g6-nanode-1", image: "cloud/debian12", root_pass: "Correct-horse-1", script_id: 1 };
  const { id } = (await api.post("/v4/cloud/instances", wanted)).body as Json;
  // Not before it says that it runs: who dies while a machine starts leaves what is about to end.
  const isRunning = async () => (await api.get(`/v4/cloud/instances/${id}`)).body.status === "running";
  await until(isRunning, { withinMs: 20_000, what: "the machine" });
  const { pid } = (await api.get(`/_backlot/instances/${id}`)).body;
  run.child.kill("SIGKILL");
  await run.ended;
  const clean = async (): Promise<string> => {
    const dry = terminal.type(["clean", "--dry-run"]);
    await dry.ended;
    return dry.out();
  };
  expect(await clean()).not.toContain(state); // it has its state, so it has an owner
  rmSync(state, { recursive: true });
  const line = (await clean()).split("\n").find((each) => each.includes(state)) ?? "";
  expect(line).toMatch(/^would remove machine of instance/);
  const pids = (/processes ([\d ]+)/.exec(line)?.[1] ?? "").split(" ").map(Number);
  expect(pids).toContain(pid);
  // Not by `clean` itself: it would take along what other tests of this machine hold without a state.
  for (const each of pids) process.kill(each, "SIGKILL");
  expect(of(await examine(), "leftovers", "problem").some(({ text }) => text.includes(state))).toBe(false);
});
