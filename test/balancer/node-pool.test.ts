import { once } from "node:events";
import { afterEach, expect, test } from "vitest";
import { NodePool } from "#backlot/balancer/fast/node-connection.js";
import { until } from "../support/until.js";
import { closeLater, closeOpened, rawBackend } from "./support.js";

afterEach(closeOpened);

const BUSY = 400;

test("as many connections as were busy at once are kept for the next requests, and end when nobody came", async () => {
  const backend = await rawBackend(() => undefined);
  const endpoint = { host: "127.0.0.1", port: backend.port };
  const pool = new NodePool();
  closeLater(() => pool.close());
  const busy = Array.from({ length: BUSY }, () => pool.open(endpoint));
  await Promise.all(busy.map(({ socket }) => once(socket, "connect")));
  for (const connection of busy) pool.give(connection, 0);
  expect(busy.filter(({ socket }) => socket.destroyed)).toHaveLength(0);

  const again = Array.from({ length: BUSY }, () => pool.take(endpoint));
  expect(new Set(again)).toEqual(new Set(busy));
  expect(pool.take(endpoint)).toBeUndefined();
  await until(() => backend.accepted() === BUSY);

  for (const connection of busy) pool.give(connection, 0);
  pool.sweep(4_001);
  await Promise.all(busy.map(({ socket }) => socket.closed || once(socket, "close")));
  expect(pool.take(endpoint)).toBeUndefined();
});
