import { setTimeout as pause } from "node:timers/promises";
import type { Cloud } from "./cloud.js";
import type { Door } from "./visitor.js";

/** A step that did not hold: what was expected and what was seen. */
class Unproven extends Error {
  constructor(
    readonly expected: string,
    readonly seen: string,
  ) {
    super(`expected ${expected}; saw ${seen}`);
    this.name = "Unproven";
  }
}

export interface Balancer {
  id: number;
  label: string;
  hostname: string;
  ipv4: string;
}

export interface BalancerConfig {
  id: number;
  protocol: string;
  port: number;
  nodes_status: { up: number; down: number };
  listener: { status: string; address: string | null; port: number | null; reason: string | null };
}

export interface Instance {
  id: number;
  label: string;
  status: string;
  /** Set once it has one. */
  privateAddress: string;
}

/** What the steps hand on to each other. A step that reads what no earlier step set is a mistake in the story. */
export interface Stage {
  cloud: Cloud;
  /** Port the back ends are asked on: 80, or 8000 where a process may not bind 80. */
  nodePort: number;
  /** Real milliseconds an instance may need to start; a first start on Docker may build or fetch an image. */
  bootWithinMs: number;
  /** Aborted by Ctrl-C. */
  signal: AbortSignal;
  facts: {
    balancer?: Balancer;
    configId?: number;
    instances: Instance[];
    plainDoor?: Door;
    tlsDoor?: Door;
    certificate?: { cert: string; key: string; fingerprint: string };
  };
}

/** One thing that is proven. `run` throws when it does not hold and answers what was seen, in a few words. */
export interface Step {
  title: string;
  run(stage: Stage): Promise<string>;
}

export const fact = <T>(value: T | undefined, name: string): T => {
  if (value === undefined) throw new Error(`the story has no ${name} at this point`);
  return value;
};

const pollMs = 50;

/**
 * Asks until `holds`, every 50 ms. Past `withinMs` it throws what was expected and what was seen last; an error of `ask` ends it at once.
 */
export const waitFor = async <T>(
  stage: Pick<Stage, "signal">,
  wanted: { expected: string; withinMs: number; ask: () => Promise<T>; holds: (seen: T) => boolean; tell: (seen: T) => string },
): Promise<T> => {
  const deadlineMs = performance.now() + wanted.withinMs;
  for (;;) {
    stage.signal.throwIfAborted();
    const seen = await wanted.ask();
    if (wanted.holds(seen)) return seen;
    if (performance.now() > deadlineMs) throw new Unproven(`${wanted.expected} within ${wanted.withinMs / 1000} s`, wanted.tell(seen));
    await pause(pollMs, undefined, { signal: stage.signal });
  }
};

export const expectThat = (holds: boolean, expected: string, seen: string): void => {
  if (!holds) throw new Unproven(expected, seen);
};
