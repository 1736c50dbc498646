/** What a check looked at; in the order in which they are shown. */
export type CheckName = "versions" | "engine" | "networks" | "ports" | "resolver" | "trust" | "leftovers" | "clock" | "disk";

/** One thing that was seen. `problem`: Backlot will not work as it should; `note`: it will, and something of it is less than it could be. */
export interface Finding {
  check: CheckName;
  level: "good" | "note" | "problem";
  /** A sentence. */
  text: string;
  /** The one command that mends it; absent where there is nothing to mend. */
  remedy?: string;
}

export const good = (check: CheckName, text: string): Finding => ({ check, level: "good", text });
export const note = (check: CheckName, text: string, remedy: string): Finding => ({ check, level: "note", text, remedy });
export const problem = (check: CheckName, text: string, remedy: string): Finding => ({ check, level: "problem", text, remedy });

/** A word as a shell takes it. */
export const quoted = (word: string): string => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`);
