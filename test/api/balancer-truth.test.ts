import { readdirSync, readFileSync } from "node:fs";
import { Agent, type IncomingMessage, request, type ServerResponse } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import { afterEach, expect, it } from "vitest";
import { type Json, startCloud, type TestCloud } from "../support/cloud.js";
import { until } from "../support/until.js";
import {
  closeWorld,
  configPath,
  createBalancer,
  createConfig,
  createInstance,
  createNode,
  dial,
  httpServer,
  instanceIn,
  listening,
  nodePath,
  nodesStatus,
  type Opened,
  type Place,
  placeOfListener,
  unheldAddress,
} from "./world.js";

const closing: Array<() => Promise<void> | void> = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
  await closeWorld();
});

/** Clients of the load that runs while the world changes; every third comes with a new connection each time. */
const CLIENTS = 9;
/** Requests of one comparison, half of them over kept connections. */
const ASKED = 80;

interface Told {
  status: number;
  text: string;
}

const ask = (place: Place, path: string, agent: Agent | false, more: { method?: string; headers?: Record<string, string> } = {}): Promise<Told> =>
  new Promise((resolve, reject) => {
    const outgoing = request({ ...place, path, agent, ...more }, (incoming) => {
      const chunks: Buffer[] = [];
      incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
      incoming.on("error", reject);
      incoming.on("end", () => resolve({ status: incoming.statusCode ?? 0, text: Buffer.concat(chunks).toString() }));
    });
    outgoing.on("error", reject);
    outgoing.end();
  });

/** A server of the test's own, behind a node: it counts what it is asked, and can keep who asks waiting. */
const ownServer = async (place: Place, name: string) => {
  const seen = new Map<string, number>();
  const held: ServerResponse[] = [];
  let holding = false;
  const serve = (incoming: IncomingMessage, response: ServerResponse): void => {
    if (incoming.headers["user-agent"] === "backlot-check") return void response.end();
    const path = incoming.url ?? "";
    seen.set(path, (seen.get(path) ?? 0) + 1);
    if (holding && path.startsWith("/held")) held.push(response);
    else response.end(name);
  };
  let opened: Opened | undefined;
  const revive = async () => {
    opened = await httpServer(place, serve);
  };
  await revive();
  return {
    seen: (path: string) => seen.get(path) ?? 0,
    held,
    hold: () => {
      holding = true;
    },
    release: () => {
      holding = false;
      for (const response of held.splice(0)) response.end(name);
    },
    revive,
    kill: async () => opened?.close(),
  };
};

/** Every process of the machine that has this address, asked of the kernel. */
const processesAt = (address: string): number[] =>
  readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        const environ = readFileSync(`/proc/${pid}/environ`, "latin1").split("\0");
        return environ.some((entry) => entry.startsWith("BACKLOT_BIND_ADDRESSES=") && entry.slice(23).split(" ").includes(address));
      } catch {
        return false; // it ended, or is not ours to read
      }
    })
    .map(Number);

const signal = (pids: readonly number[], name: NodeJS.Signals): void => {
  for (const pid of pids) {
    try {
      process.kill(pid, name);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
    }
  }
};

/** GETs without end from several clients until it is stopped; whoever waits then goes on waiting. */
const startLoad = (place: Place) => {
  const agent = new Agent({ keepAlive: true });
  const failures: string[] = [];
  let [stopped, asked, waiting] = [false, 0, 0];
  const client = async (turn: number): Promise<void> => {
    while (!stopped) {
      asked += 1;
      waiting += 1;
      const told = await ask(place, "/load", turn % 3 === 0 ? false : agent).catch((error: Error) => ({ status: 0, text: error.message }));
      waiting -= 1;
      if (told.status !== 200) failures.push(`${told.status} ${told.text}`);
      await pause(5); // the load is bounded; nothing waits for this
    }
  };
  const running = Promise.all(Array.from({ length: CLIENTS }, (_, turn) => client(turn)));
  return {
    waiting: () => waiting,
    stop: () => {
      stopped = true;
    },
    /** What went wrong, in words, once the last answer has come. */
    end: async () => {
      stopped = true;
      await running;
      agent.destroy();
      return { failures, asked };
    },
  };
};

const startWorld = async (cloud: TestCloud) => {
  const balancer = await createBalancer(cloud);
  // 600 ms at this speed: a busy machine alone takes no node out.
  const check = { check: "http", check_path: "/", check_interval: 31, check_timeout: 30, check_attempts: 2 };
  const config = await createConfig(cloud, balancer.id, { port: 20_500, ...check });
  const instance = await createInstance(cloud, { private_ip: true, script_id: 1, script_data: {}, watchdog_enabled: false, label: "scripted" });
  const own = async (label: string) => {
    const address = unheldAddress(cloud);
    const server = await ownServer(await dial(cloud, address, 8080), label);
    return { label, server, node: await createNode(cloud, config, `${address}:8080`, { label }) };
  };
  const members = [await own("ada"), await own("ben"), await own("cyd")] as const;
  const address: string = instance.ipv4.find((each: string) => each.startsWith("192.168."));
  const scripted = { label: "scripted", node: await createNode(cloud, config, `${address}:8000`, { label: "scripted" }) };
  await instanceIn(cloud, instance.id, "running");
  await nodesStatus(cloud, config, 4, 0);
  const place = placeOfListener(await listening(cloud, config));

  const nodes = async (): Promise<Json[]> => (await cloud.api.get(`${configPath(config)}/nodes`)).body.data;
  const counted = async (): Promise<Map<number, Json>> => {
    const { configs } = (await cloud.api.get("/_backlot/stats")).body;
    const { nodes: counters } = configs.find((each: Json) => each.config_id === config.id);
    return new Map(counters.map((each: Json) => [each.node_id, each]));
  };
  const labelOf = (text: string): string => /instance=(\S+)/.exec(text)?.[1] ?? text;

  /** Asks `ASKED` times and compares who answered with what the API says, what the servers saw and what Backlot counted. */
  let comparisons = 0;
  const compare = async (takers: readonly string[]): Promise<void> => {
    comparisons += 1;
    const path = `/comparison-${comparisons}`;
    const now = await nodes();
    const taking = now.filter((node) => node.status === "UP" && node.mode === "accept").map((node) => node.label);
    expect(taking.sort()).toEqual([...takers].sort());
    const before = await counted();
    const agent = new Agent({ keepAlive: true, maxSockets: 4 });
    const told = await Promise.all(Array.from({ length: ASKED }, (_, turn) => ask(place, path, turn % 2 === 0 && agent)));
    agent.destroy();
    expect(told.filter(({ status }) => status !== 200)).toEqual([]);
    const answers = new Map<string, number>();
    for (const { text } of told) answers.set(labelOf(text), (answers.get(labelOf(text)) ?? 0) + 1);
    // Every node that the API calls up got some, and nobody else did.
    expect([...answers.keys()].sort()).toEqual([...takers].sort());
    for (const { label, server } of members) expect([label, server.seen(path)]).toEqual([label, answers.get(label) ?? 0]);
    // An answer's last byte may reach its client before it is entered.
    const after = await counted();
    for (const { id, label } of now) {
      const more = (after.get(id)?.requests ?? 0) - (before.get(id)?.requests ?? 0);
      expect([label, more]).toEqual([label, answers.get(label) ?? 0]);
    }
  };

  const loads: Array<ReturnType<typeof startLoad>> = [];
  /** Changes the world under load, waits for the API's word, and lets the load run dry but for those who wait for a node that is stopped. */
  const underLoad = async (change: () => Promise<unknown>, up: number, stopped?: Json): Promise<void> => {
    const load = startLoad(place);
    loads.push(load);
    await change();
    await nodesStatus(cloud, config, up, 4 - up);
    load.stop();
    await until(
      async () => {
        const counters = [...(await counted())];
        const waiting = loads.reduce((sum, each) => sum + each.waiting(), 0);
        const openAt = (wanted: boolean) => counters.reduce((sum, [id, { open }]) => sum + ((id === stopped?.id) === wanted ? open : 0), 0);
        return openAt(false) === 0 && openAt(true) === waiting;
      },
      { what: "an end of what is under way" },
    );
  };
  const put = (node: Json, change: object) => cloud.api.put(nodePath(node), change);
  const ends = () => Promise.all(loads.map((load) => load.end()));
  const machine = (await dial(cloud, address, 8000)).host;
  return { instance, machine, members, scripted, place, counted, compare, underLoad, put, ends };
};

it.each(["on", "off"] as const)("requests go where the API says that nodes are up, whatever happens to them (fast lane %s)", async (fastLane) => {
  const cloud = await startCloud({ fastLane });
  closing.push(() => cloud.close());
  const { instance, machine, members, scripted, compare, underLoad, put, ends } = await startWorld(cloud);
  const [ada, ben, cyd] = members;
  await compare(["ada", "ben", "cyd", "scripted"]);

  await underLoad(() => ada.server.kill(), 3);
  await compare(["ben", "cyd", "scripted"]);
  await underLoad(() => put(ben.node, { mode: "drain" }), 3);
  await compare(["cyd", "scripted"]);

  const stopped = processesAt(machine);
  expect(stopped.length).toBeGreaterThan(0);
  closing.push(() => signal(stopped, "SIGCONT"));
  await underLoad(async () => signal(stopped, "SIGSTOP"), 2, scripted.node);
  await compare(["cyd"]);
  await underLoad(() => ada.server.revive(), 3, scripted.node);
  await compare(["ada", "cyd"]);
  await underLoad(async () => signal(stopped, "SIGCONT"), 4);
  await compare(["ada", "cyd", "scripted"]);

  await underLoad(() => put(cyd.node, { mode: "reject" }), 3);
  await compare(["ada", "scripted"]);
  await underLoad(() => cloud.api.post(`/_backlot/instances/${instance.id}/kill`), 2);
  await compare(["ada"]);
  await underLoad(() => put(ben.node, { mode: "accept" }), 2);
  await compare(["ada", "ben"]);
  await underLoad(() => put(cyd.node, { mode: "accept" }), 3);
  await underLoad(() => cloud.api.post(`/v4/cloud/instances/${instance.id}/boot`), 4);
  await compare(["ada", "ben", "cyd", "scripted"]);

  const ended = await ends();
  expect(ended.flatMap(({ failures }) => failures)).toEqual([]);
  expect(ended.reduce((sum, { asked }) => sum + asked, 0)).toBeGreaterThan(CLIENTS * ended.length);
});

it.each(["on", "off"] as const)(
  "a node that dies with requests in hand costs only those that must not be sent twice (fast lane %s)",
  async (fastLane) => {
    const cloud = await startCloud({ fastLane });
    closing.push(() => cloud.close());
    const { members, place, compare, put, scripted, counted } = await startWorld(cloud);
    const [ada] = members;
    // The machine's own server cannot be made to wait.
    await put(scripted.node, { mode: "reject" });
    await compare(["ada", "ben", "cyd"]);
    for (const { server } of members) server.hold();
    const agent = new Agent({ keepAlive: true });
    closing.push(() => agent.destroy());
    const gets = Array.from({ length: 60 }, (_, turn) => ask(place, "/held", turn % 2 === 0 && agent));
    const posts = Array.from({ length: 6 }, (_, turn) => ask(place, `/held/${turn}`, false, { method: "POST" }));
    const inHand = () => members.map(({ server }) => server.held.length);
    await until(() => inHand().reduce((sum, count) => sum + count) === 66, { what: "66 requests in hand" });
    const seenPosts = () => posts.map((_, turn) => members.map(({ server }) => server.seen(`/held/${turn}`)));
    const atAda = seenPosts().map(([count]) => count === 1);
    expect(atAda.filter(Boolean).length).toBeGreaterThan(0);
    const errorsBefore = (await counted()).get(ada.node.id)?.errors;

    await ada.server.kill();
    for (const { server } of members) server.release();
    expect((await Promise.all(gets)).filter(({ status }) => status !== 200)).toEqual([]);
    expect((await Promise.all(posts)).map(({ status }) => status)).toEqual(atAda.map((lost) => (lost ? 502 : 200)));
    // Nobody was sent one twice.
    expect(seenPosts().map((counts) => counts.reduce((sum, count) => sum + count))).toEqual(posts.map(() => 1));
    expect((await counted()).get(ada.node.id)?.errors).toBeGreaterThan(errorsBefore);
  },
);

it("a client that a draining node knows stays there, and nobody else comes", async () => {
  const cloud = await startCloud();
  closing.push(() => cloud.close());
  const balancer = await createBalancer(cloud);
  const config = await createConfig(cloud, balancer.id, {
    port: 20_501,
    check: "connection",
    check_interval: 2,
    check_timeout: 1,
    stickiness: "http_cookie",
  });
  const members = await Promise.all(
    ["ada", "ben"].map(async (label) => {
      const address = unheldAddress(cloud);
      await httpServer(await dial(cloud, address, 8080), label);
      return createNode(cloud, config, `${address}:8080`, { label });
    }),
  );
  await nodesStatus(cloud, config, 2, 0);
  const place = placeOfListener(await listening(cloud, config));
  const [ada] = members;
  await cloud.api.put(nodePath(ada), { mode: "drain" });
  const cookie = { Cookie: `NB_SRVID=n${ada.id}` };
  await until(async () => (await ask(place, "/", false)).text === "ben" && (await ask(place, "/", false)).text === "ben", { what: "the drain" });
  expect((await cloud.api.get(nodePath(ada))).body).toMatchObject({ mode: "drain", status: "UP" });
  const known = await Promise.all(Array.from({ length: 20 }, () => ask(place, "/", false, { headers: cookie })));
  const fresh = await Promise.all(Array.from({ length: 20 }, () => ask(place, "/", false)));
  expect(new Set(known.map(({ text }) => text))).toEqual(new Set(["ada"]));
  expect(new Set(fresh.map(({ text }) => text))).toEqual(new Set(["ben"]));
});
