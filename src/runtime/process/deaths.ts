import type { ChildProcess } from "node:child_process";
import type { Disposable } from "../../kernel/closers.js";
import { isStillThere, type MarkedProcess } from "./table.js";

/** How often a machine that an earlier Backlot started, and a deploy script that runs, are looked at. Own children tell by themselves. */
const lookMs = 100;

export interface Deaths extends Disposable {
  /** A machine that we started. */
  started(instance: number, child: ChildProcess): void;
  /** A machine that was found running. */
  adopt(instance: number, leader: MarkedProcess): void;
  /** A machine whose deploy script runs: hint when it does not any more. */
  awaitScript(instance: number, hasEnded: () => Promise<boolean>): void;
  watch(hint: (instance: number) => void): Disposable;
}

/** Notices that machines died or finished their deploy script. `died` is called for every death, watched or not. */
export const deaths = (died: (instance: number) => void): Deaths => {
  const hinters = new Set<(instance: number) => void>();
  const own = new Map<number, number>();
  const adopted = new Map<number, MarkedProcess>();
  const scripts = new Map<number, () => Promise<boolean>>();
  let timer: NodeJS.Timeout | undefined;
  let closed = false;

  const hint = (instance: number): void => {
    for (const hinter of [...hinters]) hinter(instance);
  };
  const bury = (instance: number): void => {
    if (closed) return;
    hint(instance);
    died(instance);
  };
  const look = async (): Promise<void> => {
    for (const [instance, leader] of [...adopted]) {
      if (isStillThere(leader)) continue;
      adopted.delete(instance);
      bury(instance);
    }
    for (const [instance, hasEnded] of [...scripts]) {
      if (!(await hasEnded().catch(() => true)) || scripts.get(instance) !== hasEnded) continue;
      scripts.delete(instance);
      hint(instance);
    }
  };
  const schedule = (): void => {
    if (timer || closed || adopted.size + scripts.size === 0) return;
    timer = setTimeout(async () => {
      await look().catch(() => {}); // nobody could look: whoever asks for machines is told why
      timer = undefined;
      schedule();
    }, lookMs);
    timer.unref();
  };

  return {
    started: (instance, child) => {
      const { pid } = child;
      if (pid === undefined) return;
      own.set(instance, pid);
      adopted.delete(instance);
      const ended = (): void => {
        if (own.get(instance) === pid) own.delete(instance);
        bury(instance);
      };
      if (child.exitCode !== null || child.signalCode !== null) ended();
      else child.once("exit", ended);
    },
    adopt: (instance, leader) => {
      if (closed || own.get(instance) === leader.pid) return;
      adopted.set(instance, leader);
      schedule();
    },
    awaitScript: (instance, hasEnded) => {
      scripts.set(instance, hasEnded);
      schedule();
    },
    watch: (hinter) => {
      hinters.add(hinter);
      return {
        close: async () => {
          hinters.delete(hinter);
        },
      };
    },
    close: async () => {
      closed = true;
      clearTimeout(timer);
      hinters.clear();
      adopted.clear();
      scripts.clear();
    },
  };
};
