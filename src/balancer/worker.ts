import { parentPort, workerData } from "node:worker_threads";
import { turns } from "../kernel/turns.js";
import { Beat } from "./beat.js";
import { Gates } from "./gate.js";
import { HintThrottle } from "./hint-throttle.js";
import { Listener } from "./listener.js";
import type { Order, Report, WorkerSettings } from "./messages.js";
import type { ListenerKey } from "./plane.js";

// The worker thread's door: orders in, reports out. Orders about one key run one after the other, different keys side by side.

const manner = workerData as WorkerSettings;
const { limits } = manner;
const beat = new Beat();
const gates = new Gates();
const listeners = new Map<ListenerKey, Listener>();
const inTurn = turns<ListenerKey>();
const throttle = new HintThrottle();

// http-proxy uses util._extend, for which newer Nodes print a warning to the user's terminal that no user can act on.
process.noDeprecation = true;

const report = (message: Report): void => parentPort?.postMessage(message);

const apply = async (order: Extract<Order, { kind: "apply" }>): Promise<Pick<Extract<Report, { kind: "state" }>, "state" | "counted">> => {
  const { key, wanted, lastPort } = order;
  if (!wanted) {
    const gone = listeners.get(key);
    await gone?.close(limits.drainMs);
    listeners.delete(key);
    return { state: { status: "closed" }, ...(gone && { counted: gone.counters }) };
  }
  let listener = listeners.get(key);
  if (!listener) {
    const hint = (node: number, reason: string) => {
      if (throttle.admits(`${key} ${node} ${reason}`, performance.now())) report({ kind: "hint", key, node, reason });
    };
    listener = new Listener({ manner, beat, gates, hint });
    listeners.set(key, listener);
  }
  return { state: await listener.apply(wanted, lastPort) };
};

const obey = async (order: Order): Promise<void> => {
  if (order.kind === "apply") {
    report({ kind: "state", id: order.id, key: order.key, ...(await inTurn(order.key, () => apply(order))) });
  } else if (order.kind === "counters") {
    report({
      kind: "counters",
      id: order.id,
      counters: Object.fromEntries([...listeners].map(([key, listener]) => [key, listener.counters])),
    });
  } else {
    await Promise.all([...listeners].map(([key, listener]) => inTurn(key, () => listener.close(limits.closeMs))));
    report({ kind: "closed", id: order.id });
    parentPort?.close();
  }
};

// A rejection here is our own bug: it ends the thread, and the host opens a new one and says so.
parentPort?.on("message", (order: Order) => void obey(order));
