import type { Config } from "../config/settings.js";
import { performDemo } from "../demo/demo.js";
import { interruption } from "./interrupt.js";

/** Answers the exit code: 0 when every step held (and everything was removed), else 1. */
export const runDemo = async (config: Config, options: { exit: boolean; rangeChosen: boolean }): Promise<number> => {
  const signal = interruption("Stopping. Ctrl-C again ends it at once.");
  const end = await performDemo({ ...options, config, signal, print: (line) => console.log(line) });
  if (end === "interrupted") console.error("Interrupted before the story was over; everything was removed.");
  return end === "proven" ? 0 : 1;
};
