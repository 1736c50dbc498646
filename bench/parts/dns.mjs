// Questions a second: Backlot's name server, dnsmasq, and a bare Node UDP echo (what this load generator can drive at most), in one run, in turns.
import { execFileSync, spawn } from "node:child_process";
import { createSocket } from "node:dgram";
import { encode } from "dns-packet";
import { closing, startCloud } from "./cloud.mjs";
import { median } from "./figures.mjs";
import { temporaryFolder } from "./folder.mjs";

const names = 100;
const inFlight = 64;
const roundMs = 700;
const rounds = 3;

const freePort = () =>
  new Promise((resolve) => {
    const socket = createSocket("udp4");
    socket.bind(0, "127.0.0.1", () => {
      const { port } = socket.address();
      socket.close(() => resolve(port));
    });
  });

const question = (at) => encode({ type: "query", id: at, flags: 0x0100, questions: [{ type: "A", name: `h${at % names}.bench.test`, class: "IN" }] });

/** Keeps so many questions in flight; a lost one is asked again after a while. Answers questions a second and how many answers were wrong. */
const load = async (port, { window = inFlight, ms = roundMs } = {}) => {
  const questions = Array.from({ length: window }, (_, at) => question(at));
  const socket = createSocket("udp4");
  socket.on("error", () => {}); // nobody listens yet: it is asked again
  await new Promise((resolve) => socket.connect(port, "127.0.0.1", resolve));
  let answered = 0;
  let wrong = 0;
  const sentMs = new Float64Array(window);
  const spentMs = [];
  const send = (at) => {
    sentMs[at] = performance.now();
    socket.send(questions[at]);
  };
  const startMs = performance.now();
  await new Promise((resolve) => {
    const again = setInterval(() => {
      const nowMs = performance.now();
      if (nowMs - startMs > ms) {
        clearInterval(again);
        return resolve();
      }
      for (let at = 0; at < window; at += 1) if (nowMs - sentMs[at] > 250) send(at);
    }, 20);
    socket.on("message", (bytes) => {
      const at = bytes.readUInt16BE(0);
      answered += 1;
      if ((bytes[3] & 0xf) !== 0) wrong += 1;
      if (window === 1) spentMs.push(performance.now() - sentMs[at]);
      send(at);
    });
    for (let at = 0; at < window; at += 1) send(at);
  });
  const perSecond = answered / ((performance.now() - startMs) / 1000);
  socket.close();
  return { perSecond, wrong, oneMs: spentMs.length > 0 ? median(spentMs) : undefined };
};

const echo = () =>
  new Promise((resolve) => {
    const source = `const s=require("dgram").createSocket("udp4");s.on("message",(m,r)=>s.send(m,r.port,r.address));s.bind(0,"127.0.0.1",()=>console.log(s.address().port));`;
    const child = spawn(process.execPath, ["-e", source], { stdio: ["ignore", "pipe", "inherit"] });
    const close = closing(async () => void child.kill());
    child.stdout.once("data", (data) => resolve({ port: Number(data), close }));
  });

const hasDnsmasq = () => {
  try {
    execFileSync("dnsmasq", ["--version"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
};

const dnsmasq = async () => {
  const port = await freePort();
  const records = Array.from({ length: names }, (_, at) => `--host-record=h${at}.bench.test,192.0.2.${at}`);
  const words = [`--port=${port}`, "--keep-in-foreground", "--listen-address=127.0.0.1", "--bind-interfaces", "--no-resolv", "--no-hosts"];
  const child = spawn("dnsmasq", [...words, "--conf-file=/dev/null", "--pid-file=", "--user=", ...records], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  const died = new Promise((resolve) => child.once("exit", resolve));
  const close = closing(() => {
    child.kill();
    return died;
  });
  const { wrong } = await load(port, { window: 1, ms: 300 });
  if (child.exitCode !== null || wrong > 0) throw new Error("dnsmasq does not answer as it should");
  return { port, close };
};

/** Prints its own table: more is better here, unlike in the others. */
export const printDns = async () => {
  const cloud = await startCloud({ runtime: "process", state: temporaryFolder(), args: ["--dns-port", "0"] });
  const domain = await cloud.ask("POST", "/v4/domains", { body: { type: "master", domain: "bench.test", soa_email: "a@bench.test" } });
  for (let at = 0; at < names; at += 1)
    await cloud.ask("POST", `/v4/domains/${domain.id}/records`, { body: { type: "A", name: `h${at}`, target: `192.0.2.${at}` } });
  const { dns } = await cloud.ask("GET", "/_backlot/health");
  const peers = [["Backlot", dns.port]];
  const closers = [];
  if (hasDnsmasq()) {
    const opened = await dnsmasq();
    closers.push(opened.close);
    peers.push(["dnsmasq", opened.port]);
  } else console.log("dnsmasq is not installed (apt-get install dnsmasq-base): its row is left out");
  const bare = await echo();
  closers.push(bare.close);
  peers.push(["bare Node UDP echo (the generator's own limit)", bare.port]);

  const seen = new Map(peers.map(([name]) => [name, { perSecond: [], oneMs: [] }]));
  for (const [, port] of peers) await load(port, { ms: 300 });
  for (let round = 0; round < rounds; round += 1) {
    for (const [name, port] of peers) {
      const many = await load(port);
      if (many.wrong > 0) throw new Error(`${name} gave ${many.wrong} wrong answers`);
      seen.get(name).perSecond.push(many.perSecond);
      seen.get(name).oneMs.push((await load(port, { window: 1, ms: 250 })).oneMs);
    }
  }
  for (const close of closers) await close();
  await cloud.close();
  const reference = seen.get("dnsmasq") && median(seen.get("dnsmasq").perSecond);
  console.log(`\nnames: A records over UDP, ${inFlight} questions in flight, ${rounds} rounds of ${roundMs} ms in turns (medians)`);
  for (const [name, { perSecond, oneMs }] of seen) {
    const rate = median(perSecond);
    const ratio = reference ? `, ${(rate / reference).toFixed(2)} times dnsmasq` : "";
    console.log(`  ${name}: ${Math.round(rate).toLocaleString("en")} a second${ratio}; one at a time ${(median(oneMs) * 1000).toFixed(0)} µs`);
  }
};
