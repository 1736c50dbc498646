import { readFileSync } from "node:fs";
import { get } from "node:http";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Machine, MachineSpec, RuntimeDriver, VolumeSpec } from "#backlot/runtime/driver.js";
import { until } from "../support/until.js";

/** What a runtime's tests hand to the suite: a driver of a fresh owner, and eyes and hands that do not use the driver. */
export interface Ground {
  driver: RuntimeDriver;
  /** A second driver object over the same owner and state, as after a restart of Backlot. */
  again(): Promise<RuntimeDriver>;
  /** One whose machines' services wait half a second for a deploy script. */
  impatient(): Promise<RuntimeDriver>;
  /** Another Backlot on the same machine: its own owner, state and pools, and a `spec` for those pools. */
  other(): Promise<{ driver: RuntimeDriver; spec: SpecOf }>;
  /** Instance 1, running, boots 1, one private and one public address; the addresses follow from the instance's number. */
  spec: SpecOf;
  /** False where the machine's servers may not bind ports below 1024; they must say so then. True when absent. */
  privilegedPorts?: boolean;
  /** Asks and changes the world itself (/proc, the engine), never through the driver. */
  world: {
    /** The machine's processes that live now. */
    pidsOf(instance: number): Promise<number[]>;
    /** Changes when, and only when, the machine is started anew; undefined when it does not run. */
    startOf(instance: number): Promise<string | undefined>;
    isAlive(instance: number): Promise<boolean>;
    /** Is there anything left: a process, a container, a folder? */
    exists(instance: number): Promise<boolean>;
    killHard(instance: number): Promise<void>;
    /** Where a volume of this label is seen by the machine: text written to and read from a file on it; undefined when it is not there. */
    volume: {
      write(instance: number, label: string, text: string): Promise<void>;
      read(instance: number, label: string): Promise<string | undefined>;
    };
    /** Makes an empty file in root's home. */
    touchHome(instance: number, name: string): Promise<void>;
    removeBehind(instance: number): Promise<void>;
    /** Leaves what a Backlot leaves that dies between create and start. */
    leaveHalfMade(spec: MachineSpec): Promise<void>;
  };
  /** Removes all that this ground made. */
  close(): Promise<void>;
}

type SpecOf = (overrides?: Partial<MachineSpec>) => MachineSpec;

const shippedScript = (file: string): string => readFileSync(new URL(`../../fixtures/scripts/${file}`, import.meta.url), "utf8");

const script = (text: string) => ({ script: { id: 1, text, data: {}, shipped: true } });
const helloWeb = { script: { id: 1, text: shippedScript("hello-web.sh"), data: { greeting: "Good day" }, shipped: true } };

interface Page {
  status: number;
  text: string;
}

const pageAt = (driver: RuntimeDriver, address: string, port: number): Promise<Page> =>
  new Promise((resolve, reject) => {
    const endpoint = driver.dial(address, port);
    if (!endpoint) return reject(new Error(`${address} is not dialable`));
    const request = get({ ...endpoint, path: "/", agent: false, timeout: 2_000 }, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("end", () => resolve({ status: response.statusCode ?? 0, text: Buffer.concat(chunks).toString() }));
      response.on("error", reject);
    });
    request.on("timeout", () => request.destroy(new Error("no answer within 2 s")));
    request.on("error", reject);
  });

const servedPage = (driver: RuntimeDriver, address: string | undefined, port: number): Promise<Page> =>
  until(() => pageAt(driver, address ?? "", port), { withinMs: 20_000, what: `a page on ${address}:${port}` });

const machineOf = async (driver: RuntimeDriver, instance: number): Promise<Machine | undefined> =>
  (await driver.list()).find((machine) => machine.instance === instance);

const scriptEnd = (driver: RuntimeDriver, instance: number): Promise<Machine> =>
  until(
    async () => {
      const machine = await machineOf(driver, instance);
      return typeof machine?.script?.exitCode === "number" && machine;
    },
    { withinMs: 20_000, what: `the end of the deploy script of ${instance}` },
  );

/** The one contract of both runtimes (DESIGN, section 2 "RuntimeDriver" and house rules 3 and 4). */
export const driverSuite = (name: string, make: () => Promise<Ground>): void => {
  describe(`the driver contract: ${name}`, () => {
    let ground: Ground;
    let driver: RuntimeDriver;
    let spec: SpecOf;
    let world: Ground["world"];

    beforeEach(async () => {
      ground = await make();
      ({ driver, spec, world } = ground);
    });
    afterEach(async () => {
      await ground?.close();
    });

    it("lists nothing for a new owner", async () => {
      expect(await driver.list()).toEqual([]);
    });

    it("starts a machine, and ensuring it twice changes nothing", async () => {
      const first = await driver.ensure(spec());
      expect(first).toMatchObject({ instance: 1, running: true, boots: 1, fingerprint: spec().fingerprint });
      expect(await world.isAlive(1)).toBe(true);
      const started = await world.startOf(1);
      expect(started).toBeDefined();

      const second = await driver.ensure(spec());
      expect(second).toEqual(first);
      expect(await world.startOf(1)).toBe(started);
      expect(await driver.list()).toEqual([first]);
    });

    it("starts one machine when it is asked twice at the same time", async () => {
      const [first, second] = await Promise.all([driver.ensure(spec()), driver.ensure(spec())]);
      expect(second).toEqual(first);
      expect(await driver.list()).toEqual([first]);
    });

    it("repairs what a crash between create and start left", async () => {
      await world.leaveHalfMade(spec(helloWeb));
      expect(await world.isAlive(1)).toBe(false);
      expect(await machineOf(driver, 1)).toMatchObject({ instance: 1, running: false });

      expect(await driver.ensure(spec(helloWeb))).toMatchObject({ running: true, boots: 1, fingerprint: spec().fingerprint });
      expect(await world.isAlive(1)).toBe(true);
      expect((await servedPage(driver, spec().privateAddresses[0], 8000)).status).toBe(200);
    });

    it("removes what a crash between create and start left", async () => {
      await world.leaveHalfMade(spec());
      await driver.remove(1);
      expect(await world.exists(1)).toBe(false);
    });

    it("creates a machine that should not run without starting it", async () => {
      expect(await driver.ensure(spec({ running: false }))).toMatchObject({ instance: 1, running: false });
      expect(await world.isAlive(1)).toBe(false);
      expect(await world.pidsOf(1)).toEqual([]);
      expect(await driver.ensure(spec())).toMatchObject({ running: true });
    });

    it("sees a machine that was killed behind our back, hints, and starts it again", async () => {
      const hints: number[] = [];
      await driver.ensure(spec());
      const started = await world.startOf(1);
      const watch = driver.watch((instance) => hints.push(instance));
      try {
        await world.killHard(1);
        await until(() => hints.includes(1), { withinMs: 5_000, what: "a hint about instance 1" });
      } finally {
        await watch.close();
      }
      expect(await machineOf(driver, 1)).toMatchObject({ running: false, boots: 1, fingerprint: spec().fingerprint });

      expect(await driver.ensure(spec())).toMatchObject({ running: true });
      expect(await world.isAlive(1)).toBe(true);
      expect(await world.startOf(1)).not.toBe(started);
    });

    it("fits a machine that runs, and leaves one that died alone", async () => {
      expect(await driver.fit(spec())).toBeUndefined();
      expect(await driver.list()).toEqual([]);
      const machine = await driver.ensure(spec());
      const started = await world.startOf(1);
      expect(await driver.fit(spec())).toEqual(machine);
      expect(await world.startOf(1)).toBe(started);
      await world.killHard(1);
      await until(async () => !(await world.isAlive(1)), { what: "the end of instance 1" });
      expect(await driver.fit(spec())).toBeUndefined();
      expect(await world.isAlive(1)).toBe(false);
      expect(await machineOf(driver, 1)).toMatchObject({ running: false });
    });

    it("kills the whole machine when told to, and an absent one is success", async () => {
      await driver.ensure(spec(helloWeb));
      await servedPage(driver, spec().privateAddresses[0], 8000);
      await driver.kill(1);
      expect(await world.isAlive(1)).toBe(false);
      expect(await world.pidsOf(1)).toEqual([]);
      expect(await machineOf(driver, 1)).toMatchObject({ running: false });
      await driver.kill(1);
      await driver.kill(77);
    });

    it("makes a machine anew that was removed behind our back", async () => {
      await driver.ensure(spec());
      await world.removeBehind(1);
      expect(await driver.list()).toEqual([]);
      expect(await driver.ensure(spec())).toMatchObject({ running: true, fingerprint: spec().fingerprint });
      expect(await world.isAlive(1)).toBe(true);
    });

    it("keeps machines over a restart of Backlot, and leaves them alone", async () => {
      const before = await driver.ensure(spec());
      await driver.ensure(spec({ instance: 2, running: false }));
      const started = await world.startOf(1);
      await driver.close();
      expect(await world.isAlive(1)).toBe(true);

      const next = await ground.again();
      const listed = (await next.list()).sort((a, b) => a.instance - b.instance);
      expect(listed).toMatchObject([
        { instance: 1, running: true, boots: 1, fingerprint: spec().fingerprint },
        { instance: 2, running: false },
      ]);
      expect(await next.ensure(spec())).toEqual(before);
      expect(await world.startOf(1)).toBe(started);
    });

    it("hints when an adopted machine dies", async () => {
      await driver.ensure(spec());
      await driver.close();
      const next = await ground.again();
      await next.ensure(spec());
      const hints: number[] = [];
      const watch = next.watch((instance) => hints.push(instance));
      try {
        await world.killHard(1);
        await until(() => hints.includes(1), { withinMs: 5_000, what: "a hint about an adopted machine" });
      } finally {
        await watch.close();
      }
      expect(await machineOf(next, 1)).toMatchObject({ running: false });
    });

    it("waits with an address that another machine still has, whichever is asked first", async () => {
      const second = spec({ instance: 2 });
      await driver.ensure(spec(helloWeb));
      await driver.ensure({ ...second, ...helloWeb });
      const moving = spec().publicAddresses[0] ?? "";
      await servedPage(driver, moving, 8000);
      // A runtime may let a deploy script end before it changes what is under it.
      await servedPage(driver, second.publicAddresses[0] ?? "", 8000);
      // The receiver is asked while the holder has it; letting go comes a moment later.
      const receiving = driver.ensure({ ...second, ...helloWeb, publicAddresses: [moving] });
      await driver.ensure({ ...spec(helloWeb), publicAddresses: second.publicAddresses });
      expect(await receiving).toMatchObject({ instance: 2, running: true });
      await until(async () => (await pageAt(driver, moving, 8000)).text.includes("id=2"), { withinMs: 20_000, what: `${moving} answered by 2` });
      await until(async () => (await pageAt(driver, second.publicAddresses[0] ?? "", 8000)).text.includes("id=1"), { withinMs: 20_000 });
    });

    it("shares a machine with another Backlot without touching its things", async () => {
      const other = await ground.other();
      await driver.ensure(spec());
      const ours = await world.startOf(1);
      const theirs = await other.driver.ensure(other.spec({ ...helloWeb, label: "theirs" }));
      expect((await servedPage(other.driver, other.spec().privateAddresses[0], 8000)).text).toContain("theirs");
      expect(await driver.list()).toHaveLength(1);
      expect(await other.driver.list()).toMatchObject([{ instance: 1 }]);

      await driver.remove(1);
      expect(await world.exists(1)).toBe(false);
      const [listed] = await other.driver.list();
      expect(listed).toMatchObject({ running: true, fingerprint: theirs.fingerprint });
      expect((await servedPage(other.driver, other.spec().privateAddresses[0], 8000)).text).toContain("theirs");

      await driver.ensure(spec());
      const again = await world.startOf(1);
      expect(again).not.toBe(ours);
      await other.driver.remove(1);
      expect(await other.driver.list()).toEqual([]);
      expect(await world.startOf(1)).toBe(again);
    });

    it("restarts a machine when its boots grow, and its services come back", async () => {
      await driver.ensure(spec(helloWeb));
      await servedPage(driver, spec().privateAddresses[0], 8000);
      const started = await world.startOf(1);

      const after = await driver.ensure(spec({ ...helloWeb, boots: 2 }));
      expect(after).toMatchObject({ running: true, boots: 2 });
      expect(await world.startOf(1)).not.toBe(started);
      expect((await servedPage(driver, spec().privateAddresses[0], 8000)).text).toContain("Good day");
      expect(await machineOf(driver, 1)).toMatchObject({ running: true, boots: 2, script: { exitCode: 0 } });
    });

    it("replaces a machine whose fingerprint changed", async () => {
      const kept = script('#!/bin/sh\necho kept >"$HOME/kept-file"\n');
      const looks = script('#!/bin/sh\n[ -e "$HOME/kept-file" ] && echo old-disk || echo new-disk\n');
      await driver.ensure(spec(kept));
      await scriptEnd(driver, 1);
      const started = await world.startOf(1);

      const after = await driver.ensure(spec({ ...looks, fingerprint: "another" }));
      expect(after).toMatchObject({ running: true, fingerprint: "another" });
      expect(await world.startOf(1)).not.toBe(started);
      expect(await driver.list()).toHaveLength(1);
      await scriptEnd(driver, 1);
      expect(await until(async () => (await driver.log(1)).includes("-disk") && driver.log(1))).toContain("new-disk");
    });

    /** Says in its log whether the file is on its disk, and leaves it there. */
    const marks = script(
      '#!/bin/sh\n[ -e "$HOME/mark" ] && echo "mark: $(cat "$HOME/mark")" || echo "mark: none"\necho left-by-$BACKLOT_INSTANCE >"$HOME/mark"\n',
    );
    /** The service tells at every boot what is on the disk. */
    const tells = script(
      '#!/bin/sh\necho by-$BACKLOT_INSTANCE >"$HOME/mark"\nprintf \'#!/bin/sh\\necho "on disk: $(cat "$HOME/mark")"\\n\' >"$BACKLOT_SERVICES/tell"\nchmod 755 "$BACKLOT_SERVICES/tell"\n',
    );
    const logged = (instance: number, text: string): Promise<unknown> =>
      until(async () => (await driver.log(instance)).includes(text), { withinMs: 20_000, what: `"${text}" in the log of ${instance}` });

    it("copies a disk: the copy boots elsewhere with what was on it, runs only its own script, and lives on without the source", async () => {
      await driver.ensure(spec(tells));
      await scriptEnd(driver, 1);
      await logged(1, "on disk: by-1");
      expect(await driver.copy(spec().fingerprint, "second")).toBe(true);
      expect(await driver.copy(spec().fingerprint, "second")).toBe(true);
      expect(await driver.prepared()).toEqual(["second"]);
      await driver.remove(1);
      expect(await driver.copy("second", "third")).toBe(true);

      expect(await driver.ensure(spec({ instance: 2, fingerprint: "second" }))).toMatchObject({ running: true, fingerprint: "second" });
      await logged(2, "on disk: by-1");
      expect(await machineOf(driver, 2)).not.toHaveProperty("script");
      await driver.ensure(spec({ ...marks, instance: 3, fingerprint: "third" }));
      expect(await scriptEnd(driver, 3)).toMatchObject({ script: { exitCode: 0 } });
      await logged(3, "mark: by-1");
      await driver.remove(3);
      await driver.discard("third");
      await driver.discard("second");
      expect([await driver.prepared(), await driver.list(), await world.exists(2)]).toEqual([[], [], false]);
    });

    it("copies nothing of what does not exist or was never booted", async () => {
      expect(await driver.copy("nothing", "second")).toBe(false);
      await driver.ensure(spec({ running: false }));
      expect(await driver.copy(spec().fingerprint, "second")).toBe(false);
      expect(await driver.prepared()).toEqual([]);
      await driver.discard("nothing");
    });

    it("runs an instance from one of its disks and keeps the other aside", async () => {
      await driver.ensure(spec(marks));
      await scriptEnd(driver, 1);
      const before = await driver.ensure(spec({ fingerprint: "other", kept: [spec().fingerprint] }));
      expect(before).toMatchObject({ running: true, fingerprint: "other" });
      expect(await driver.list()).toEqual([before]);

      await driver.ensure(spec({ ...marks, boots: 2, kept: ["other"] }));
      expect(await driver.list(1)).toMatchObject([{ running: true, boots: 2, fingerprint: spec().fingerprint, script: { exitCode: 0 } }]);
      expect(await driver.list(2)).toEqual([]);
      await driver.ensure(spec({ fingerprint: "fresh" }));
      expect(await driver.list()).toMatchObject([{ fingerprint: "fresh" }]);
      await driver.discard("other");
    });

    it("changes the type of a machine without touching its disk, running or not", async () => {
      await driver.ensure(spec(marks));
      await scriptEnd(driver, 1);
      const started = await world.startOf(1);
      await driver.ensure(spec({ ...marks, memoryMib: 300 }));
      expect(await world.startOf(1)).toBe(started);
      await driver.ensure(spec({ ...marks, memoryMib: 200, running: false }));
      const after = await driver.ensure(spec({ ...marks, memoryMib: 200, boots: 2 }));
      expect(after).toMatchObject({ running: true, fingerprint: spec().fingerprint, script: { exitCode: 0 } });
      expect((await driver.log(1)).split("mark:")).toHaveLength(2);
    });

    it("starts a machine that is to be repaired without its services, and with them again afterwards", async () => {
      await driver.ensure(spec(helloWeb));
      await servedPage(driver, spec().privateAddresses[0], 8000);
      expect(await driver.ensure(spec({ ...helloWeb, boots: 2, minimal: true }))).toMatchObject({ running: true, boots: 2 });
      await logged(1, "to be repaired");
      await expect(pageAt(driver, spec().privateAddresses[0] ?? "", 8000)).rejects.toThrow();
      await driver.ensure(spec({ ...helloWeb, boots: 3 }));
      await servedPage(driver, spec().privateAddresses[0], 8000);
    });

    it("counts what a machine uses from its start on, and nothing for one that is off", async () => {
      const works = script("#!/bin/sh\ni=0\nwhile [ $i -lt 100000 ]; do i=$((i + 1)); done\necho worked\n");
      await driver.ensure(spec(works));
      const first = await driver.counters(1);
      await scriptEnd(driver, 1);
      const second = await driver.counters(1);
      expect(second?.since).toBe(first?.since);
      expect(second?.cpuMs).toBeGreaterThan(first?.cpuMs ?? 0);
      await driver.ensure(spec({ ...works, boots: 2 }));
      expect((await driver.counters(1))?.since).not.toBe(first?.since);
      await driver.ensure(spec({ ...works, running: false }));
      expect([await driver.counters(1), await driver.counters(77)]).toEqual([undefined, undefined]);
    });

    it("hands over user data as a file", async () => {
      const reads = script('#!/bin/sh\necho "data: $(cat "$BACKLOT_USER_DATA")"\n');
      await driver.ensure(spec({ ...reads, userData: Buffer.from("some words").toString("base64") }));
      await logged(1, "data: some words");
    });

    it("stops a machine so that nothing of it is alive, and keeps its disk", async () => {
      await driver.ensure(spec(helloWeb));
      await servedPage(driver, spec().privateAddresses[0], 8000);
      expect(await driver.ensure(spec({ ...helloWeb, running: false }))).toMatchObject({ running: false });
      expect(await world.isAlive(1)).toBe(false);
      expect(await world.pidsOf(1)).toEqual([]);
      await expect(pageAt(driver, spec().privateAddresses[0] ?? "", 8000)).rejects.toThrow();
      expect(await machineOf(driver, 1)).toMatchObject({ running: false, fingerprint: spec().fingerprint, script: { exitCode: 0 } });

      await driver.ensure(spec({ ...helloWeb, boots: 2 }));
      expect((await servedPage(driver, spec().privateAddresses[0], 8000)).status).toBe(200);
    });

    it("removes a machine so that nothing is left, and an absent one is success", async () => {
      await driver.ensure(spec(helloWeb));
      await servedPage(driver, spec().privateAddresses[0], 8000);
      await driver.remove(1);
      expect(await world.exists(1)).toBe(false);
      expect(await world.pidsOf(1)).toEqual([]);
      expect(await driver.list()).toEqual([]);
      expect(await driver.log(1)).toBe("");
      await driver.remove(1);
      await driver.remove(77);
    });

    it("serves hello web on ports 80 and 8000 of the private and the public address", async () => {
      const wanted = spec({ ...helloWeb, label: "web-1" });
      await driver.ensure(wanted);
      const privately = wanted.privateAddresses[0] ?? "";
      const publicly = wanted.publicAddresses[0] ?? "";
      const ports = ground.privilegedPorts === false ? [8000] : [80, 8000];
      for (const [address, port] of [privately, publicly].flatMap((each) => ports.map((port) => [each, port] as const))) {
        const page = await servedPage(driver, address, port);
        expect(page.status).toBe(200);
        expect(page.text).toContain(`instance=web-1 id=1 address=${privately}`);
        expect(page.text).toContain("Good day");
      }
      const refused = (await driver.log(1)).includes("port 80 needs root");
      expect(refused).toBe(ground.privilegedPorts === false);
    });

    it("copies a file system, running or not, makes other machines from it, and removes it", async () => {
      const kept = script('#!/bin/sh\necho kept >"$HOME/kept-file"\n');
      const looks = script('#!/bin/sh\n[ -e "$HOME/kept-file" ] && echo old-disk || echo new-disk\n');
      await driver.ensure(spec(kept));
      await scriptEnd(driver, 1);
      const started = await world.startOf(1);

      const captured = await driver.images.capture(1, "first", "private/1");
      expect(captured).toEqual({ key: "private/1", sizeMb: expect.any(Number) });
      expect(await driver.images.capture(1, "first", "private/1")).toEqual(captured);
      expect(await driver.images.list()).toEqual([captured]);
      expect(await world.startOf(1)).toBe(started);
      await driver.remove(1);

      const next = await ground.again();
      expect(await next.images.list()).toEqual([captured]);
      expect(await next.ensure(spec({ ...looks, instance: 2, image: "private/1", boots: 5 }))).toMatchObject({ running: true, boots: 5 });
      expect(await scriptEnd(next, 2)).toMatchObject({ script: { exitCode: 0 } });
      const text = await until(async () => (await next.log(2)).includes("-disk") && next.log(2));
      expect(text).toContain("old-disk");

      // A copy of a copy, of a machine that is off, without a script of its own: nothing of the first machine's boots is in it.
      await next.ensure(spec({ ...looks, instance: 2, image: "private/1", boots: 5, running: false }));
      expect(await next.images.capture(2, "first", "private/2")).toMatchObject({ key: "private/2" });
      const plain = await next.ensure(spec({ instance: 3, image: "private/2" }));
      expect(plain).toMatchObject({ running: true, boots: 1 });
      expect(plain).not.toHaveProperty("script");

      await next.remove(2);
      await next.remove(3);
      for (const key of ["private/1", "private/2"]) expect(await next.images.remove(key)).toBe(true);
      expect(await next.images.list()).toEqual([]);
    });

    it("copies nothing that is not there, removes what is not there, and makes nothing from it", async () => {
      expect(await driver.images.capture(1, "first", "private/1")).toBeUndefined();
      await driver.ensure(spec());
      expect(await driver.images.capture(1, "another", "private/1")).toBeUndefined();
      expect(await driver.images.remove("private/1")).toBe(true);
      await expect(driver.ensure(spec({ instance: 2, image: "private/1" }))).rejects.toThrow(/private\/1 is not .* any more/);
      expect(await world.isAlive(2)).toBe(false);
    });

    it("dials its pools only", () => {
      expect(driver.dial("8.8.8.8", 80)).toBeUndefined();
      expect(driver.dial("not an address", 80)).toBeUndefined();
      expect(driver.dial(spec().privateAddresses[0] ?? "", 8080)).toMatchObject({ port: 8080 });
    });

    it("lets a machine run whose deploy script fails, and shows its exit code and last lines", async () => {
      const hints: number[] = [];
      const watch = driver.watch((instance) => hints.push(instance));
      try {
        await driver.ensure(spec(script(shippedScript("fails-on-purpose.sh"))));
        expect(await scriptEnd(driver, 1)).toMatchObject({ running: true, script: { exitCode: 3 } });
        await until(() => hints.includes(1), { withinMs: 5_000, what: "a hint about the script's end" });
      } finally {
        await watch.close();
      }
      expect(await world.isAlive(1)).toBe(true);
      const text = await until(async () => (await driver.log(1)).includes("exit 3") && driver.log(1), { what: "the log's last lines" });
      expect(text).toContain("fails on purpose");
    });

    it("runs the deploy script once only", async () => {
      const once = script('#!/bin/sh\necho "the-script-ran"\n');
      await driver.ensure(spec(once));
      await scriptEnd(driver, 1);
      await driver.ensure(spec({ ...once, boots: 2 }));
      await driver.ensure(spec({ ...once, boots: 2, running: false }));
      await driver.ensure(spec({ ...once, boots: 3 }));
      expect(await machineOf(driver, 1)).toMatchObject({ running: true, boots: 3, script: { exitCode: 0 } });
      const text = await until(async () => (await driver.log(1)).includes("the-script-ran") && driver.log(1));
      expect(text.split("the-script-ran")).toHaveLength(2);
    });

    it("says while a deploy script runs that it has no exit code yet, and is running", async () => {
      const slow = script("#!/bin/sh\necho begun\nsleep 30\n");
      await driver.ensure(spec(slow));
      await until(async () => (await driver.log(1)).includes("begun"), { what: "the script's first line" });
      expect(await machineOf(driver, 1)).toMatchObject({ running: true, script: { exitCode: null } });
      await driver.ensure(spec({ ...slow, running: false }));
      const stopped = await machineOf(driver, 1);
      expect(stopped?.running).toBe(false);
      expect(stopped?.script?.exitCode).toBeGreaterThan(128);
    });

    it("starts the services beside a deploy script that never ends, and again those that failed for want of what it brings", async () => {
      const install = (name: string, text: string) =>
        `cat >"$BACKLOT_SERVICES/${name}" <<'EOF'\n#!/bin/sh\n${text}\nEOF\nchmod 0755 "$BACKLOT_SERVICES/${name}"\n`;
      const endless = script(
        `#!/bin/sh\n${install("sound", 'echo "sound is up"; exec sleep 60')}${install("wanting", '[ -e "$HOME/brought" ] || { echo "nothing there"; exit 1; }; trap \'echo "wanting has its signals"\' USR1; kill -USR1 $$; echo "wanting is up"; exec sleep 60')}` +
          'echo "script goes on"; until [ -e "$HOME/end" ]; do sleep 0.1; done; : >"$HOME/brought"; exit 4\n',
      );
      const impatient = await ground.impatient();
      await impatient.ensure(spec(endless));
      const has = (line: string) =>
        until(async () => (await impatient.log(1)).includes(line) && impatient.log(1), { withinMs: 20_000, what: `"${line}" in the log` });
      await has("sound is up");
      await has("nothing there");
      expect(await has("script goes on")).not.toContain("wanting is up");
      expect(await machineOf(impatient, 1)).toMatchObject({ running: true, script: { exitCode: null } });
      await world.touchHome(1, "end");
      const text = await has("wanting is up");
      expect(text.split("sound is up")).toHaveLength(2);
      expect(text).toContain("wanting has its signals"); // a shell cannot trap what was ignored when it began
      expect(await scriptEnd(impatient, 1)).toMatchObject({ running: true, script: { exitCode: 4 } });
    });

    it("has no script state for a machine without a deploy script", async () => {
      await driver.ensure(spec());
      expect(await machineOf(driver, 1)).not.toHaveProperty("script");
    });

    it("never runs an instance without an image", async () => {
      expect(await driver.ensure(spec({ image: null }))).toMatchObject({ running: false });
      expect(await world.isAlive(1)).toBe(false);
    });

    it("stops at the next step when it is told to give up", async () => {
      const reason = new Error("given up");
      await expect(driver.ensure(spec(), AbortSignal.abort(reason))).rejects.toBe(reason);
      expect(await world.isAlive(1)).toBe(false);
    });

    describe("volumes", () => {
      const volume = (overrides: Partial<VolumeSpec> = {}): VolumeSpec => ({
        volume: 1,
        label: "data",
        bytes: 16 * 2 ** 20,
        copyOf: null,
        instance: 1,
        ...overrides,
      });

      it("exists once it is ensured, until it is removed; absent is success", async () => {
        expect(await driver.volumes.list()).toEqual([]);
        expect(await driver.volumes.ensure(volume({ instance: null }))).toEqual({ path: null, note: null });
        expect(await driver.volumes.ensure(volume({ instance: null }))).toEqual({ path: null, note: null });
        expect(await driver.volumes.list()).toEqual([1]);
        await driver.volumes.remove(1);
        await driver.volumes.remove(1);
        await driver.volumes.remove(77);
        expect(await driver.volumes.list()).toEqual([]);
      });

      it("carries its data from one running machine to another, without a restart", async () => {
        await Promise.all([driver.ensure(spec()), driver.ensure(spec({ instance: 2 }))]);
        const started = await world.startOf(1);
        const { path } = await driver.volumes.ensure(volume());
        expect(path).toMatch(/\/mnt\/data$/);
        expect(await driver.volumes.ensure(volume())).toEqual({ path, note: null });
        await world.volume.write(1, "data", "one");
        expect(await world.volume.read(2, "data")).toBeUndefined();

        await driver.volumes.ensure(volume({ instance: 2 }));
        expect(await world.volume.read(1, "data")).toBeUndefined();
        expect(await world.volume.read(2, "data")).toBe("one");
        await driver.volumes.ensure(volume({ instance: 2, label: "renamed" }));
        expect(await world.volume.read(2, "data")).toBeUndefined();
        expect(await world.volume.read(2, "renamed")).toBe("one");
        await driver.volumes.ensure(volume({ instance: null }));
        expect(await world.volume.read(2, "renamed")).toBeUndefined();
        expect(await world.startOf(1)).toBe(started);
      });

      it("is there again after a boot, a new disk and the end of a machine", async () => {
        await driver.ensure(spec());
        await driver.volumes.ensure(volume());
        await world.volume.write(1, "data", "kept");
        await driver.ensure(spec({ boots: 2 }));
        await driver.volumes.ensure(volume());
        expect(await world.volume.read(1, "data")).toBe("kept");
        await driver.ensure(spec({ boots: 2, fingerprint: "another" }));
        await driver.volumes.ensure(volume());
        expect(await world.volume.read(1, "data")).toBe("kept");
        await driver.remove(1);
        expect(await driver.volumes.ensure(volume())).toEqual({ path: null, note: null });
        await driver.ensure(spec({ instance: 2 }));
        await driver.volumes.ensure(volume({ instance: 2 }));
        expect(await world.volume.read(2, "data")).toBe("kept");
      });

      it("is there when deploy script and services begin, although it comes after the start", async () => {
        await driver.ensure(spec({ instance: 2 }));
        await driver.volumes.ensure(volume({ instance: 2 }));
        await world.volume.write(2, "data", "ready-for-use");
        await driver.volumes.ensure(volume({ instance: null }));
        await driver.ensure(
          spec({ volumes: [{ volume: 1, label: "data" }], ...script('#!/bin/sh\ncat "$BACKLOT_MACHINE/mnt/data/file" || echo too early\n') }),
        );
        await driver.volumes.ensure(volume());
        await scriptEnd(driver, 1);
        expect(await until(async () => (await driver.log(1)).includes("deploy script ended") && driver.log(1))).toContain("ready-for-use");
      });

      it("is not mounted in a machine that is off", async () => {
        await driver.ensure(spec({ running: false }));
        expect(await driver.volumes.ensure(volume())).toEqual({ path: null, note: null });
        await driver.ensure(spec());
        expect((await driver.volumes.ensure(volume())).path).toMatch(/\/mnt\/data$/);
      });

      it("a copy has the data of its source and goes its own way, attached or not", async () => {
        await driver.ensure(spec());
        await driver.volumes.ensure(volume());
        await world.volume.write(1, "data", "before");
        await driver.volumes.ensure(volume({ volume: 2, label: "copy", copyOf: 1 }));
        await world.volume.write(1, "data", "after");
        expect(await world.volume.read(1, "copy")).toBe("before");
        await expect(driver.volumes.ensure(volume({ volume: 3, copyOf: 77, instance: null }))).rejects.toThrow(/77/);
        await driver.volumes.remove(1);
        expect(await world.volume.read(1, "data")).toBeUndefined();
        expect(await world.volume.read(1, "copy")).toBe("before");
      });

      it("is left alone by a restart of Backlot, and by another one on the same machine", async () => {
        await driver.ensure(spec());
        const mounted = await driver.volumes.ensure(volume());
        await world.volume.write(1, "data", "ours");
        await driver.close();
        const next = await ground.again();
        expect(await next.volumes.list()).toEqual([1]);
        expect(await next.volumes.ensure(volume())).toEqual(mounted);
        expect(await world.volume.read(1, "data")).toBe("ours");
        const other = await ground.other();
        expect(await other.driver.volumes.list()).toEqual([]);
        await other.driver.volumes.ensure(volume({ instance: null }));
        await other.driver.volumes.remove(1);
        expect(await next.volumes.list()).toEqual([1]);
        expect(await world.volume.read(1, "data")).toBe("ours");
      });
    });

    it("says what it is and what it cannot do", () => {
      const { runtime, rows } = driver.capabilities();
      expect(runtime).toBe(driver.name);
      expect(rows.length).toBeGreaterThan(3);
      for (const row of rows) expect(row.subject && row.note, JSON.stringify(row)).toBeTruthy();
    });
  });
};
