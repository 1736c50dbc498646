import { existsSync } from "node:fs";
import { chmod, mkdir, mkdtemp, readFile, readlink, rename, rm, stat, symlink, utimes, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { copyTree } from "#backlot/runtime/process/copy-tree.js";
import { processGround } from "../../support/process-ground.js";
import { until } from "../../support/until.js";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "backlot-copies-"));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

it("copies files, links, modes and times, and leaves sockets out", async () => {
  const from = join(folder, "from");
  await mkdir(join(from, "closed"), { recursive: true });
  await writeFile(join(from, "closed", "run"), "text", { mode: 0o750 });
  await symlink("closed/nowhere", join(from, "link"));
  await utimes(join(from, "closed", "run"), 1_000, 2_000);
  await chmod(join(from, "closed"), 0o555);
  const server = createServer().listen(join(from, "socket"));
  await new Promise((resolve) => server.once("listening", resolve));
  await copyTree(from, join(folder, "to"));
  server.close();
  const copied = await stat(join(folder, "to", "closed", "run"));
  expect([copied.mode & 0o777, copied.mtimeMs, await readFile(join(folder, "to", "closed", "run"), "utf8")]).toEqual([0o750, 2_000_000, "text"]);
  expect((await stat(join(folder, "to", "closed"))).mode & 0o777).toBe(0o555);
  expect(await readlink(join(folder, "to", "link"))).toBe("closed/nowhere");
  expect(existsSync(join(folder, "to", "socket"))).toBe(false);
  await expect(copyTree(join(folder, "absent"), join(folder, "other"))).rejects.toThrow("ENOENT");
  for (const name of ["from", "to"]) await chmod(join(folder, name, "closed"), 0o755);
});

it("copies what is being changed: what goes meanwhile is left out, what stays is there", async () => {
  const from = join(folder, "from");
  await mkdir(from);
  for (let n = 0; n < 400; n += 1) await writeFile(join(from, `${n}-${n % 2 ? "stays" : "goes"}`), String(n));
  const copying = copyTree(from, join(folder, "to"));
  for (let n = 398; n >= 0; n -= 2) await rename(join(from, `${n}-goes`), join(folder, `${n}`));
  await copying;
  for (let n = 1; n < 400; n += 2) expect(await readFile(join(folder, "to", `${n}-stays`), "utf8")).toBe(String(n));
});

it("a start removes what copies that were cut off left, and nothing else", async () => {
  const ground = await processGround();
  try {
    const at = (...path: string[]) => join(ground.stateFolder, ...path);
    for (const path of ["disks/half.new/root", "images/private-7.new/root", "volumes/3.new", "disks/whole/root", "volumes/4"])
      await mkdir(at(path), { recursive: true });
    await ground.again();
    await until(() => ["disks/half.new", "images/private-7.new", "volumes/3.new"].every((path) => !existsSync(at(path))));
    expect(["disks/whole/root", "volumes/4"].map((path) => existsSync(at(path)))).toEqual([true, true]);
  } finally {
    await ground.close();
  }
});
