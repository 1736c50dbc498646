import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, expect, test } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));
const readme = readFileSync(join(root, "README.md"), "utf8");
const blocks = [...readme.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map((match) => match[1] ?? "");
/** The three commands a new user types first, in the README's order. */
const [demo, tests, start, ...story] = blocks;

const folders: string[] = [];
const temporary = (): string => {
  const folder = mkdtempSync(join(tmpdir(), "backlot-readme-"));
  folders.push(folder);
  return folder;
};
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

const run = (command: string, args: string[], options: { cwd: string; env?: NodeJS.ProcessEnv }) => {
  const child = spawn(command, args, { ...options, stdio: ["ignore", "pipe", "pipe"] });
  let out = "";
  child.stdout.on("data", (chunk) => (out += chunk));
  child.stderr.on("data", (chunk) => (out += chunk));
  const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
  return { child, ended, text: () => out };
};

test("the first commands are the ones CI runs", () => {
  expect([demo, tests, start]).toEqual(["npm ci && npm run demo\n", "npm ci && npm test\n", "npx backlot start\n"]);
  const ci = readFileSync(join(root, ".ci/run"), "utf8");
  for (const command of ["npm ci", "npm ci && npm test", "npm run demo -- --exit"]) expect(ci).toContain(command);
});

// The README's addresses are those of a fresh state on the default pools; ports 80 and 443 of 127.0.0.1 must be free.
test("the story in curl holds, command by command, on the process runtime", async () => {
  const state = temporary();
  const cwd = temporary();
  const env = {
    ...process.env,
    BACKLOT_STATE: state,
    BACKLOT_RUNTIME: "process",
    BACKLOT_PORT: "0",
    PATH: `${root}/node_modules/.bin:${process.env.PATH}`,
  };
  const server = run("node", [join(root, "dist/bin/cli.js"), "start", "--json", "--on-exit", "stop"], { cwd, env });
  const first = await new Promise<string>((resolve, reject) => {
    server.child.stdout.once("data", (chunk) => resolve(String(chunk).split("\n")[0] ?? ""));
    void server.ended.then(() => reject(new Error(server.text())));
  });
  const { url, token } = JSON.parse(first) as { url: string; token: string };
  const script = story
    .join("\n")
    .replace("http://127.0.0.1:4747", url)
    .replace("paste-the-token-here", token)
    .replaceAll("npx backlot", `node ${join(root, "dist/bin/cli.js")}`);
  expect(script).not.toMatch(/paste-the-token|npx/);
  // Without privileges the ports move, as the README says.
  const root0 = process.getuid?.() === 0;
  const typed = root0
    ? script
    : script
        .replaceAll(':80"', ':8000"')
        .replaceAll("http://127.0.0.1/", "http://127.0.0.1:8080/")
        .replaceAll("https://localhost/", "https://localhost:8443/");
  const shell = run("bash", ["-euo", "pipefail", "-c", `trap 'echo "failed at: $BASH_COMMAND"' ERR\n${typed}`], { cwd, env });
  const code = await shell.ended;
  const said = shell.text();
  expect(said).not.toContain('"errors":[');
  expect(code, said).toBe(0);
  const pages = [...said.matchAll(/instance=(web-\d) id=(\d) address=([\d.]+)/g)].map((match) => match[1]);
  expect(new Set(pages.slice(0, 2))).toEqual(new Set(["web-1", "web-2"]));
  expect(pages.length).toBeGreaterThanOrEqual(4);
  expect(pages.at(-1)).toBe("web-2");
  expect(await server.ended).toBe(0);
});
