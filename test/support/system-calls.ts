import { spawnSync } from "node:child_process";

/** One system call of a process under `strace -f -y -xx`: when it began and when it had happened, as places in the trace. */
export interface SystemCall {
  name: string;
  /** As strace prints them; strings are `"\x41…"`. */
  args: string[];
  /** All of them, for calls whose arguments are structures. */
  text: string;
  result: number;
  began: number;
  ended: number;
}

/** What strace is to be told; the trace goes to `file`. */
export const tracing = (file: string, calls: readonly string[]): string[] => [
  "-f",
  "-y",
  "-xx",
  "-s",
  "4000000",
  "-o",
  file,
  "-e",
  `trace=${calls.join(",")}`,
  "-e",
  "signal=none",
];

/** Is there a strace, and may it trace here? */
export const mayTrace = (): boolean => spawnSync("strace", ["-o", "/dev/null", "true"]).status === 0;

/** The bytes of a string as strace printed it; undefined for anything else. */
export const bytesIn = (printed: string | undefined): Buffer | undefined => {
  const hex = /^"((?:\\x[0-9a-f]{2})*)"$/.exec(printed ?? "")?.[1];
  return hex === undefined ? undefined : Buffer.from(hex.replaceAll("\\x", ""), "hex");
};

/** How strace prints these words inside a string. */
export const printed = (words: string): string => Buffer.from(words).toString("hex").replace(/../g, "\\x$&");

/** A descriptor as strace prints it with -y: `20<\x2f…>` or `20<socket:[…]>`. */
export const descriptorIn = (printed: string | undefined): number => Number(/^(\d+)</.exec(printed ?? "")?.[1] ?? Number.NaN);

const callIn = (text: string, began: number, ended: number): SystemCall | undefined => {
  const found = /^(\w+)\((.*)\)\s+= (-?\d+)/s.exec(text);
  if (!found) return undefined;
  const [, name = "", args = "", result] = found;
  return { name, args: args.split(", "), text: args, result: Number(result), began, ended };
};

/** The calls of a trace in the order in which they had happened. A call that never ended is left out: nobody knows what it did. */
export const systemCalls = (trace: string): SystemCall[] => {
  const unfinished = new Map<string, { text: string; began: number }>();
  return trace.split("\n").flatMap((line, place) => {
    const [, thread = "", text = ""] = /^(\d+)\s+(.*)$/.exec(line) ?? [];
    const cut = text.indexOf(" <unfinished ...>");
    if (cut >= 0) {
      unfinished.set(thread, { text: text.slice(0, cut), began: place });
      return [];
    }
    const rest = /^<\.\.\. \w+ resumed>(.*)$/s.exec(text)?.[1];
    const begun = rest === undefined ? undefined : unfinished.get(thread);
    return callIn(begun ? begun.text + rest : text, begun?.began ?? place, place) ?? [];
  });
};
