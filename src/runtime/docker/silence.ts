import { setTimeout as pause } from "node:timers/promises";
import type Docker from "dockerode";
import { Fault } from "../../kernel/fault.js";

type Said = (error: unknown, data?: unknown) => void;

interface Modem {
  dial(options: { abortSignal?: AbortSignal }, said: Said): void;
}

/** Calls that take longer than this may be waiting for an engine that hangs, in ms: then it is asked whether it answers at all. */
const askAfterMs = 1_000;
/** It is asked again this soon when it did not, in ms. */
const askAgainMs = 500;
/** An engine under load may miss one. */
const mostMisses = 3;
/** How long what was found then is believed of an engine that is silent, in ms. */
const believedMs = 1_000;

const unasked = Symbol("it could not be asked");

interface Stream {
  once(event: "close", listener: () => void): void;
  on(event: "error", listener: () => void): void;
  destroy(): void;
}

const isStream = (data: unknown): data is Stream => typeof (data as Partial<Stream> | undefined)?.destroy === "function";

/**
 * An engine may take calls and never answer: stopped by a debugger, waiting for its disk, behind a line that is dead. How long a call may take
 * nobody knows (a copy of a disk takes minutes), but an engine that lives answers a ping meanwhile. So calls that are under way when it does
 * not are given up with the reason, and so are later ones at once until it answers again. A call that brings a signal of its own is its
 * caller's to end. Nothing is asked while nothing is under way.
 * @param outage whether the engine answers, bounded in time: a sentence when it does not. It throws when it could not ask (no descriptor left):
 *   that is no word about the engine, and changes nothing of what is known of it
 */
export const giveUpOnSilence = (docker: Docker, outage: () => Promise<string | undefined>): Docker => {
  const modem = docker.modem as Modem;
  const dial = modem.dial.bind(modem);
  const underWay = new Set<(fault: Fault) => void>();
  let isWatching = false;
  let silence: string | undefined;
  let lookedMs = 0;
  let looking: Promise<string | undefined> | undefined;

  const look = (): Promise<string | undefined> => {
    looking ??= outage()
      .then((reason) => {
        lookedMs = performance.now();
        return reason;
      })
      .finally(() => {
        looking = undefined;
      });
    return looking;
  };
  const faultOf = (reason: string): Fault => new Fault("unavailable", [{ reason }]);

  const watch = async (): Promise<void> => {
    if (isWatching) return;
    isWatching = true;
    for (let misses = 0; underWay.size > 0; ) {
      await pause(misses === 0 ? askAfterMs : askAgainMs, undefined, { ref: false });
      if (underWay.size === 0) break;
      const reason = await look().catch((): typeof unasked => unasked);
      if (reason === unasked) continue;
      misses = reason === undefined ? 0 : misses + 1;
      if (reason === undefined || misses < mostMisses) continue;
      silence = reason;
      for (const giveUp of underWay) giveUp(faultOf(reason));
    }
    isWatching = false;
  };

  const start = (options: Parameters<Modem["dial"]>[0], said: Said): void => {
    const cut = new AbortController();
    let isTold = false;
    const tell: Said = (error, data) => {
      if (isTold) return;
      isTold = true;
      said(error, data);
    };
    const giveUp = (fault: Fault): void => {
      underWay.delete(giveUp);
      tell(fault);
      cut.abort(fault);
    };
    underWay.add(giveUp);
    void watch();
    dial({ ...options, abortSignal: cut.signal }, (error, data) => {
      if (isStream(data)) {
        // Whoever reads it hears of its break as its end, and without a listener it would end the process.
        data.on("error", () => {});
        data.once("close", () => underWay.delete(giveUp));
        if (isTold) data.destroy();
      } else underWay.delete(giveUp);
      tell(error, data);
    });
  };

  modem.dial = (options, said) => {
    if (options.abortSignal) return dial(options, said);
    if (silence === undefined) return start(options, said);
    if (performance.now() < lookedMs + believedMs) return said(faultOf(silence));
    void look().then((reason) => {
      silence = reason;
      if (reason === undefined) start(options, said);
      else said(faultOf(reason));
    }, said);
  };
  return docker;
};
