import { execFileSync } from "node:child_process";
import { Agent, request } from "node:http";
import type { Answer } from "./cloud.js";

/** Requests over one kept connection: when there are no descriptors left, nobody gets another. */
export const openLine = (url: string, token: string) => {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const ask = (method: string, path: string, body?: object): Promise<Answer> =>
    new Promise((resolve, reject) => {
      const text = body === undefined ? undefined : JSON.stringify(body);
      const headers = {
        Authorization: `Bearer ${token}`,
        ...(text === undefined ? {} : { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(text) }),
      };
      const outgoing = request(url, { agent, method, path, headers }, async (incoming) => {
        const chunks: Buffer[] = [];
        for await (const chunk of incoming) chunks.push(chunk as Buffer);
        const said = Buffer.concat(chunks).toString();
        const isJson = /json/.test(incoming.headers["content-type"] ?? "");
        resolve({ status: incoming.statusCode ?? 0, headers: incoming.headers, body: isJson ? JSON.parse(said) : said });
      });
      outgoing.on("error", reject);
      outgoing.end(text);
    });
  return { ask, close: () => agent.destroy() };
};

/** How many descriptors a process may have from now on; those it has are not taken from it. */
export const limitTo = (pid: number, files: number): void => void execFileSync("prlimit", ["--pid", String(pid), `--nofile=${files}:`]);
