import { type ChildProcess, spawn } from "node:child_process";
import { mkdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { DeployScript } from "#backlot/runtime/driver.js";
import { orphans, removeOrphan } from "#backlot/runtime/process/orphans.js";
import { isStillThere, markedProcess, signalProcess } from "#backlot/runtime/process/table.js";
import { environOf, type ProcessGround, processesWith, processGround, statOf } from "../../support/process-ground.js";
import { until } from "../../support/until.js";

const shipped = (text: string, data: Record<string, string> = {}): { script: DeployScript } => ({ script: { id: 9, text, data, shipped: true } });

describe("machines of the process runtime", () => {
  let ground: ProcessGround;
  let bystanders: ChildProcess[];

  beforeEach(async () => {
    ground = await processGround();
    bystanders = [];
  });
  afterEach(async () => {
    for (const bystander of bystanders) bystander.kill("SIGKILL");
    await ground.close();
  });

  /** A process of the test's own that lives until the test ends. */
  const bystander = async (env: Record<string, string>): Promise<number> => {
    const child = spawn("/bin/sleep", ["600"], { env, stdio: "ignore" });
    bystanders.push(child);
    return until(() => child.pid, { what: "a bystander's pid" });
  };
  const lives = (pid: number): boolean => (statOf(pid)?.state ?? "Z") !== "Z";
  const fileOf = (name: string): string => join(ground.stateFolder, "machines", "1", name);
  const written = (name: string): Promise<string> =>
    until(() => readFile(fileOf(name), "utf8").then((text) => text.trim() || undefined), { what: name });

  it("ends processes that left the group and the session, on stop, on kill and on remove", async () => {
    // setsid, double fork, parent gone: nothing but the environment tells whose it is.
    const escapee = shipped(
      [
        "#!/bin/sh",
        'printf \'#!/bin/sh\\n(setsid sh -c "sleep 611 & echo \\\\$! >$HOME/escaped; exit" &)\\n\' >"$BACKLOT_SERVICES/escape"',
        'chmod +x "$BACKLOT_SERVICES/escape"',
      ].join("\n"),
    );
    let boots = 1;
    for (const end of [
      () => ground.driver.ensure(ground.spec({ ...escapee, boots, running: false })),
      () => ground.driver.kill(1),
      () => ground.driver.remove(1),
    ]) {
      const { pid: leader } = await ground.driver.ensure(ground.spec({ ...escapee, boots }));
      const escaped = Number(await written("root/escaped"));
      expect(lives(escaped)).toBe(true);
      expect(statOf(escaped)?.session).not.toBe(leader);
      await end();
      expect(lives(escaped)).toBe(false);
      await rm(fileOf("root/escaped"), { force: true });
      boots += 1;
    }
  });

  it("clears what a machine left behind when only its first process died", async () => {
    await ground.driver.ensure(ground.spec(shipped('#!/bin/sh\nsetsid sleep 612 &\necho $! >"$HOME/left"\n')));
    const left = Number(await written("root/left"));
    const leader = Number((await ground.world.startOf(1))?.split(" ")[0]);
    process.kill(leader, "SIGKILL");
    await until(async () => (await ground.world.pidsOf(1)).length === 0, { what: "the end of what was left" });
    expect(lives(left)).toBe(false);
  });

  it("never kills a process without the markers, nor another owner's", async () => {
    const plain = await bystander({ PATH: "/usr/bin" });
    const half = await bystander({ BACKLOT_OWNER: ground.owner, BACKLOT_INSTANCE: "1" });
    const marks = { BACKLOT_INSTANCE: "1", BACKLOT_FINGERPRINT: "f", BACKLOT_BOOTS: "1", BACKLOT_STATE: ground.stateFolder };
    const foreign = await bystander({ ...marks, BACKLOT_OWNER: "somebody-else" });
    const sibling = await bystander({ ...marks, BACKLOT_OWNER: ground.owner, BACKLOT_INSTANCE: "2" });
    await ground.driver.ensure(ground.spec());
    await ground.driver.kill(1);
    await ground.driver.remove(1);
    for (const pid of [plain, half, foreign, sibling]) expect(lives(pid)).toBe(true);
  });

  it("looks again before it signals: a pid that is another process by now is left alone", async () => {
    await ground.driver.ensure(ground.spec());
    const leader = Number((await ground.world.startOf(1))?.split(" ")[0]);
    const found = markedProcess(leader);
    if (!found) throw new Error("the leader was not found");
    const innocent = await bystander({ PATH: "/usr/bin" });
    // What the driver would hold had the kernel given the dead leader's pid to somebody else: without markers, or later in time.
    signalProcess({ ...found, pid: innocent }, "SIGKILL");
    signalProcess({ ...found, startTicks: "1" }, "SIGKILL", { group: true });
    expect(isStillThere({ ...found, startTicks: "1" })).toBe(false);
    // A signal takes a moment to be felt: when a third process has died of a later one, the first two would be dead as well.
    const third = await ground.driver.ensure(ground.spec({ instance: 2 })).then(({ pid }) => markedProcess(pid ?? 0));
    if (!third) throw new Error("the third process was not found");
    signalProcess(third, "SIGKILL");
    await until(() => !lives(third.pid), { what: "the third's end" });
    expect(lives(innocent)).toBe(true);
    expect(lives(leader)).toBe(true);
  });

  it("gives a machine nothing of Backlot's own environment, and the answers to declared fields only", async () => {
    process.env.BACKLOT_TEST_SECRET = "do-not-leak";
    try {
      const script = '#!/bin/sh\n# <UDF name="greeting" label="A greeting"/>\nenv | sort >"$HOME/env"\nsleep 613 &\n';
      const data = { greeting: "hi", LD_PRELOAD: "/tmp/evil.so", PATH: "/tmp" };
      await ground.driver.ensure(ground.spec(shipped(script, data)));
      await until(async () => (await ground.driver.list())[0]?.script?.exitCode === 0);
    } finally {
      delete process.env.BACKLOT_TEST_SECRET;
    }
    const pids = await ground.world.pidsOf(1);
    expect(pids.length).toBeGreaterThanOrEqual(3);
    for (const pid of pids) expect(environOf(pid).join("\n")).not.toMatch(/do-not-leak|SECRET|LD_PRELOAD|VITEST|npm_/);
    const seen = await readFile(fileOf("root/env"), "utf8");
    expect(seen).toContain("greeting=hi\n");
    expect(seen).toContain("PATH=/usr/local/sbin");
    expect(seen).toContain(`BACKLOT_PRIVATE_ADDRESS=${ground.spec().privateAddresses[0]}\n`);
    expect(seen).toMatch(/^BACKLOT_BIND_ADDRESSES=127\.192\.\S+ 127\.18\.\S+$/m);
  });

  it("refuses an address that a machine of another Backlot holds, and names its holder", async () => {
    const other = await ground.other();
    await other.driver.ensure(other.spec());
    const pool = other.spec().privateRange;
    const clashing = ground.driverWith({ privatePool: pool });
    const spec = ground.spec({ privateAddresses: other.spec().privateAddresses });
    await expect(clashing.ensure(spec)).rejects.toMatchObject({
      kind: "unavailable",
      message: expect.stringMatching(/another Backlot \(state .*its instance 1/),
    });
    expect(await ground.world.isAlive(1)).toBe(false);
    expect(await ground.driver.occupied()).toContainEqual({
      cidr: `${other.spec().privateAddresses[0]}/32`,
      owner: expect.stringContaining("instance 1"),
    });
    await other.driver.remove(1);
    expect(await clashing.ensure(spec)).toMatchObject({ running: true });
  });

  it("refuses an address outside its pools", async () => {
    await expect(ground.driver.ensure(ground.spec({ privateAddresses: ["10.0.0.1"] }))).rejects.toMatchObject({ kind: "unavailable" });
    expect(await ground.world.exists(1)).toBe(false);
  });

  it("does not run a script that Backlot does not ship, unless told to", async () => {
    const script: DeployScript = { id: 77, text: '#!/bin/sh\necho ran >"$HOME/ran"\n', data: {}, shipped: false };
    expect(await ground.driver.ensure(ground.spec({ script }))).toMatchObject({ running: true, script: { exitCode: 126 } });
    expect(await ground.driver.log(1)).toContain("--allow-host-scripts");
    await expect(stat(fileOf("script"))).rejects.toThrow();

    const permissive = ground.driverWith({ allowHostScripts: true });
    await permissive.remove(1);
    await permissive.ensure(ground.spec({ script }));
    expect(await written("root/ran")).toBe("ran");
  });

  it("ends a machine whose processes ignore SIGTERM", async () => {
    await ground.driver.ensure(ground.spec(shipped('#!/bin/sh\ntrap "" TERM\nsleep 614 &\necho $! >"$HOME/stubborn"\n')));
    const stubborn = Number(await written("root/stubborn"));
    await ground.driverWith({ graceMs: 200 }).ensure(ground.spec({ running: false }));
    expect(lives(stubborn)).toBe(false);
  });

  it("says in the log what a service says while it is asked to end", async () => {
    const service = '#!/bin/sh\ntrap "echo last-words; exit" TERM\necho up\nwhile :; do sleep 0.05; done\n';
    await ground.driver.ensure(
      ground.spec(shipped(`#!/bin/sh\ncat >"$BACKLOT_SERVICES/talker" <<'END'\n${service}END\nchmod +x "$BACKLOT_SERVICES/talker"\n`)),
    );
    await until(async () => (await ground.driver.log(1)).includes("up\n"), { what: "the service" });
    await ground.driver.ensure(ground.spec({ running: false }));
    expect(await ground.driver.log(1)).toContain("last-words");
  });

  it("keeps the newest 64 KiB of a log that grows without end, and little more on disk", async () => {
    await ground.driver.ensure(ground.spec(shipped("#!/bin/sh\nseq 1 2000000\necho the-end\n")));
    const text = await until(async () => (await ground.driver.list())[0]?.script?.exitCode === 0 && ground.driver.log(1), { withinMs: 30_000 });
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(64 * 1024);
    expect(text).toMatch(/^\d+\n/);
    expect(text).toContain("2000000\nthe-end\n");
    const sizes = await Promise.all(
      ["boot.log", "boot.log.1"].map((name) =>
        stat(fileOf(name)).then(
          ({ size }) => size,
          () => 0,
        ),
      ),
    );
    expect(sizes.reduce((sum, size) => sum + size)).toBeLessThan(9 * 1024 * 1024);
  });

  it("makes a machine anew whose folder was removed while it ran", async () => {
    await ground.driver.ensure(ground.spec());
    const started = await ground.world.startOf(1);
    await until(async () => (await ground.driver.log(1)).includes("boot 1 of"), { what: "the last thing that is written in the folder" });
    await rm(fileOf("."), { recursive: true, force: true });
    expect(await ground.driver.list()).toMatchObject([{ instance: 1, running: true }]);
    expect(await ground.driver.ensure(ground.spec())).toMatchObject({ running: true });
    expect(await ground.world.startOf(1)).not.toBe(started);
    expect((await stat(fileOf("machine.json"))).mode & 0o077).toBe(0);
  });

  it("finds and removes machines whose Backlot is gone, and only those", async () => {
    const other = await ground.other();
    await other.driver.ensure(other.spec());
    await ground.driver.ensure(ground.spec());
    const isOurs = ({ owner }: { owner: string }) => owner === ground.owner;
    const [orphan, ...rest] = await orphans(isOurs);
    expect(rest).toEqual([]);
    expect(orphan).toMatchObject({ owner: ground.owner, stateFolder: ground.stateFolder, instance: 1 });
    expect(orphan?.pids.sort()).toEqual((await ground.world.pidsOf(1)).sort());
    if (orphan) await removeOrphan(orphan);
    expect(await orphans(isOurs)).toEqual([]);
    expect(await ground.world.exists(1)).toBe(false);
    expect(await other.driver.list()).toMatchObject([{ running: true }]);
  });

  it("does not remove the folder of another owner with an orphan", async () => {
    const pid = await bystander({
      BACKLOT_OWNER: "gone",
      BACKLOT_INSTANCE: "5",
      BACKLOT_FINGERPRINT: "f",
      BACKLOT_BOOTS: "1",
      BACKLOT_STATE: ground.stateFolder,
    });
    await ground.driver.ensure(ground.spec({ instance: 5, running: false }));
    await mkdir(join(ground.stateFolder, "machines", "5", "root", "kept"));
    await writeFile(join(ground.stateFolder, "machines", "5", "root", "kept", "file"), "");
    const [orphan] = await orphans(({ owner }) => owner === "gone");
    expect(orphan?.pids).toEqual([pid]);
    if (orphan) await removeOrphan(orphan);
    expect(processesWith("BACKLOT_OWNER=gone")).toEqual([]);
    expect(await stat(join(ground.stateFolder, "machines", "5", "root", "kept", "file"))).toBeDefined();
  });

  it("has volumes come and go in one machine at once, none disturbs another", async () => {
    await ground.driver.ensure(ground.spec());
    const { volumes } = ground.driver;
    const spec = (volume: number, instance: number | null) => ({ volume, label: `data-${volume}`, bytes: 1, copyOf: null, instance });
    let isOver = false;
    const elsewhere = [2, 3, 4, 5].map(async (volume) => {
      while (!isOver) await volumes.ensure(spec(volume, null));
    });
    try {
      for (let round = 0; round < 60; round += 1) {
        expect((await volumes.ensure(spec(1, 1))).path).toMatch(/data-1$/);
        expect((await volumes.ensure(spec(1, null))).path).toBeNull();
      }
    } finally {
      isOver = true;
      await Promise.all(elsewhere);
    }
  });
});
