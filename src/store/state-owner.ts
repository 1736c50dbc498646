import { readFile } from "node:fs/promises";
import { codeOf } from "../kernel/remedy.js";
import { snapshotPath } from "./snapshot.js";

/**
 * Whose a state folder is, without opening it: its owner id, `gone` when there is no state, `unreadable` when there is one that cannot
 * be read (then nobody may conclude that it has no owner).
 */
export const stateOwner = async (folder: string): Promise<{ owner: string } | "gone" | "unreadable"> => {
  let text: string;
  try {
    text = await readFile(snapshotPath(folder), "utf8");
  } catch (error) {
    return codeOf(error) === "ENOENT" || codeOf(error) === "ENOTDIR" ? "gone" : "unreadable";
  }
  try {
    const { owner } = JSON.parse(text) as { owner?: unknown };
    return typeof owner === "string" ? { owner } : "unreadable";
  } catch {
    return "unreadable";
  }
};
