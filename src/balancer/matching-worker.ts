import { createContext, Script } from "node:vm";
import { parentPort } from "node:worker_threads";
import type { Match, Matched } from "./matching.js";

/** Real milliseconds for one text. */
const MATCH_MS = 50;

const sandbox = createContext({ source: "", text: "" });
const matching = new Script("new RegExp(source).test(text)");

/** V8 can stop a regular expression that backtracks for ever only when it runs under the watchdog of `node:vm`. */
const verdictOf = (source: string, text: string): Matched["verdict"] => {
  Object.assign(sandbox, { source, text });
  try {
    const found: unknown = matching.runInContext(sandbox, { timeout: MATCH_MS });
    return found === true ? { ok: true, reason: "the body matches" } : { ok: false, reason: "the body does not match" };
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === "ERR_SCRIPT_EXECUTION_TIMEOUT") return { ok: false, reason: `the body could not be matched within ${MATCH_MS} ms` };
    return { ok: false, reason: message.charAt(0).toLowerCase() + message.slice(1) };
  }
};

parentPort?.on("message", ({ id, source, text }: Match) => {
  parentPort?.postMessage({ id, verdict: verdictOf(source, text) } satisfies Matched);
});
