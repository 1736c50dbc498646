import { describe, expect, test } from "vitest";
import { leastconn, roundrobin, source, usableNodes } from "#backlot/balancer/algorithm.js";
import { Roster } from "#backlot/balancer/roster.js";
import { cookieNode, nodeCookie, STICKY_IDLE_MS, StickTable } from "#backlot/balancer/stickiness.js";
import { node, spec } from "./support.js";

const none: ReadonlySet<number> = new Set();
const ids = (nodes: readonly { id: number }[]) => nodes.map(({ id }) => id);

/** The ids chosen in `count` turns. */
const turns = (weights: number[], count: number): string => {
  const nodes = weights.map((weight, index) => node(index + 1, 1, { weight }));
  const balance = new Map<number, number>();
  let chosen = "";
  for (let turn = 0; turn < count; turn++) {
    const next = roundrobin(nodes, balance);
    if (!next) throw new Error("nobody");
    chosen += next.id;
  }
  return chosen;
};

describe("usable nodes", () => {
  const all = [node(1, 1), node(2, 1, { up: false }), node(3, 1, { mode: "reject" }), node(4, 1, { mode: "drain" }), node(5, 1, { mode: "backup" })];

  test("accept and up", () => expect(ids(usableNodes(all, none))).toEqual([1]));
  test("backup only when no accept node is left", () => {
    expect(ids(usableNodes(all, new Set([1])))).toEqual([5]);
    expect(ids(usableNodes(all.slice(1), none))).toEqual([5]);
    expect(ids(usableNodes(all.slice(1, 4), none))).toEqual([]);
  });
});

describe("round robin", () => {
  test("equal weights come strictly in turn", () => expect(turns([50, 50, 50], 9)).toBe("123123123"));
  test("weights are kept, and spread", () => {
    expect(turns([5, 1, 1], 7)).toBe("1121311");
    const many = turns([255, 1], 2560);
    expect(many.split("2").length - 1).toBe(10);
  });
  test("nobody among nobody", () => expect(roundrobin([], new Map())).toBeUndefined());
});

describe("least connections", () => {
  const nodes = [node(1, 1), node(2, 1), node(3, 1, { weight: 100 })];
  test.each([
    [{ 1: 1, 2: 0, 3: 5 }, 2],
    [{ 1: 1, 2: 1, 3: 2 }, 3],
    [{ 1: 1, 2: 2, 3: 4 }, 1],
  ])("open %j -> node %i", (open, id) => {
    const counts = new Map(Object.entries(open).map(([key, count]) => [Number(key), count]));
    expect(leastconn(nodes, (each) => counts.get(each) ?? 0, new Map())?.id).toBe(id);
  });
  test("equals take turns", () => {
    const balance = new Map<number, number>();
    const idle = () => 0;
    expect([1, 2, 3, 4].map(() => leastconn(nodes.slice(0, 2), idle, balance)?.id)).toEqual([1, 2, 1, 2]);
  });
});

describe("source", () => {
  const nodes = [node(1, 1), node(2, 1), node(3, 1)];
  const clients = Array.from({ length: 3000 }, (_, index) => `10.0.${Math.floor(index / 250)}.${index % 250}`);
  test("a client keeps its node, and clients spread evenly", () => {
    const counts = new Map<number, number>();
    for (const client of clients) {
      const id = source(nodes, client)?.id ?? 0;
      expect(source(nodes, client)?.id).toBe(id);
      counts.set(id, (counts.get(id) ?? 0) + 1);
    }
    for (const id of [1, 2, 3]) expect(Math.abs((counts.get(id) ?? 0) - 1000)).toBeLessThan(120);
  });
  test("nobody among nobody", () => expect(source([], "10.0.0.1")).toBeUndefined());
});

describe("stickiness", () => {
  test("the table remembers for 30 minutes of inactivity and not longer, and forgets what is too old", () => {
    const table = new StickTable();
    table.remember("a", 1, 0);
    expect(table.find("a", STICKY_IDLE_MS - 1)).toBe(1);
    expect(table.find("a", STICKY_IDLE_MS)).toBeUndefined();
    table.remember("b", 2, 1000);
    table.remember("a", 1, 2000);
    expect(table.find("a", STICKY_IDLE_MS + 1999)).toBe(1);
    table.remember("c", 3, STICKY_IDLE_MS + 1500);
    expect(table.size).toBe(2);
  });

  test("a flood of clients forgets the one unseen longest", () => {
    const table = new StickTable();
    for (let index = 0; index < 100_002; index++) table.remember(`c${index}`, 1, index / 1000);
    expect(table.size).toBe(100_000);
    expect(table.find("c1", 100)).toBeUndefined();
    expect(table.find("c2", 100)).toBe(1);
  });

  test("the cookie names a node and is read among others", () => {
    expect(nodeCookie(7)).toBe("NB_SRVID=n7; path=/");
    expect(cookieNode("a=1; NB_SRVID=n7; b=2")).toBe(7);
    for (const cookie of [undefined, "", "XNB_SRVID=n7", "NB_SRVID=7", "NB_SRVID=nx", "NB_SRVID=n99999999999999999"])
      expect(cookieNode(cookie)).toBeUndefined();
  });
});

describe("a roster", () => {
  const caller = (address: string, cookie?: string) => ({ address, cookie });
  const pair = [node(1, 1), node(2, 1)];
  const roster = (...args: Parameters<typeof spec>) => {
    const made = new Roster();
    made.update(spec(...args));
    return made;
  };

  test("table: a client stays, through drain too, until its node is down", () => {
    const made = roster(pair, { stickiness: "table" });
    expect(made.choose(caller("a"), none, 0)?.node.id).toBe(1);
    expect(made.choose(caller("b"), none, 0)?.node.id).toBe(2);
    expect(made.choose(caller("a"), none, 1)?.node.id).toBe(1);
    made.update(spec([node(1, 1, { mode: "drain" }), node(2, 1)], { stickiness: "table" }));
    expect(made.choose(caller("a"), none, 2)?.node.id).toBe(1);
    expect(made.choose(caller("c"), none, 2)?.node.id).toBe(2);
    made.update(spec([node(1, 1, { up: false }), node(2, 1)], { stickiness: "table" }));
    expect(made.choose(caller("a"), none, 3)?.node.id).toBe(2);
    made.update(spec(pair, { stickiness: "table" }));
    expect(made.choose(caller("a"), none, 4)?.node.id).toBe(2);
  });

  test("table: a node that just refused is left, and rejecting nodes keep nobody", () => {
    const made = roster(pair, { stickiness: "table" });
    expect(made.choose(caller("a"), none, 0)?.node.id).toBe(1);
    expect(made.choose(caller("a"), new Set([1]), 0)?.node.id).toBe(2);
    made.update(spec([node(1, 1), node(2, 1, { mode: "reject" })], { stickiness: "table" }));
    expect(made.choose(caller("a"), none, 0)?.node.id).toBe(1);
  });

  test("cookie: set once, followed after that, replaced when its node is gone; never for tcp", () => {
    const made = roster(pair, { stickiness: "http_cookie" });
    expect(made.choose(caller("a"), none, 0)).toMatchObject({ node: { id: 1 }, setCookie: "NB_SRVID=n1; path=/" });
    expect(made.choose(caller("a", "NB_SRVID=n1"), none, 0)).toMatchObject({ node: { id: 1 }, setCookie: undefined });
    expect(made.choose(caller("a", "NB_SRVID=n9"), none, 0)?.setCookie).toMatch(/^NB_SRVID=n[12];/);
    expect(roster(pair, { stickiness: "http_cookie", protocol: "tcp" }).choose(caller("a"), none, 0)?.setCookie).toBeUndefined();
  });

  test("a backup keeps no client once an accept node is back", () => {
    const nodes = (up: boolean) => [node(1, 1, { up }), node(2, 1, { mode: "backup" })];
    const made = roster(nodes(false), { stickiness: "table" });
    expect(made.choose(caller("a"), none, 0)?.node.id).toBe(2);
    made.update(spec(nodes(true), { stickiness: "table" }));
    expect(made.choose(caller("a"), none, 0)?.node.id).toBe(1);
  });

  test("leastconn counts what is open, once", () => {
    const made = roster(pair, { algorithm: "leastconn" });
    made.enter(1);
    for (let turn = 0; turn < 3; turn++) expect(made.choose(caller("a"), none, 0)?.node.id).toBe(2);
    made.leave(1);
    made.enter(2);
    expect(made.choose(caller("a"), none, 0)?.node.id).toBe(1);
  });

  test("a repeated spec does not start the round anew", () => {
    const made = roster(pair);
    const chosen = Array.from({ length: 4 }, () => {
      made.update(spec(pair));
      return made.choose(caller("a"), none, 0)?.node.id;
    });
    expect(chosen).toEqual([1, 2, 1, 2]);
  });
});
