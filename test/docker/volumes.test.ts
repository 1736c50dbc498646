import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { ownedThings } from "#backlot/runtime/docker/orphans.js";
import { volumeHelper } from "#backlot/runtime/docker/volume-helper.js";
import type { VolumeSpec } from "#backlot/runtime/driver.js";
import { containerOf, describeDocker, docker, openPlot, type Plot, run } from "../support/docker.js";
import { until } from "../support/until.js";

const mebibyte = 2 ** 20;

/** Files behind the loop devices of this machine, as the kernel names them. */
const loopFiles = (): string[] =>
  readdirSync("/sys/block").flatMap((name) => {
    const path = `/sys/block/${name}/loop/backing_file`;
    return existsSync(path) ? [readFileSync(path, "utf8").trim()] : [];
  });

describeDocker("volumes on a Docker engine, asked of the guest and the kernel", () => {
  let plot: Plot;
  beforeAll(async () => {
    plot = await openPlot();
    for (const instance of [1, 2]) await plot.driver.ensure(plot.spec({ instance }));
  });
  afterEach(async () => {
    for (const id of await plot.driver.volumes.list()) await plot.driver.volumes.remove(id);
    expect(ourLoops(), "loop devices").toEqual([]);
    expect(await ourVolumes(), "engine volumes").toEqual([]);
  });
  afterAll(async () => {
    await plot?.close();
  });

  const ourLoops = (): string[] => loopFiles().filter((file) => file.includes(`backlot-${plot.options.owner.slice(0, 8)}-`));
  const label = () => ({ label: [`io.backlot.owner=${plot.options.owner}`] });
  const ourVolumes = async (): Promise<string[]> => ((await docker.listVolumes({ filters: label() })).Volumes ?? []).map(({ Name }) => Name);
  const helpers = () => docker.listContainers({ all: true, filters: { label: [...label().label, "io.backlot.helper"] } });
  const wanted = (more: Partial<VolumeSpec> = {}): VolumeSpec => ({
    volume: 1,
    label: "x",
    bytes: 32 * mebibyte,
    copyOf: null,
    instance: 1,
    ...more,
  });
  const guest = async (instance: number) => {
    const container = await containerOf(plot.options.owner, instance);
    if (!container) throw new Error(`there is no instance ${instance}`);
    return container;
  };
  const sh = async (instance: number, text: string): Promise<string> => {
    const { text: said, exitCode } = await run(await guest(instance), ["sh", "-c", text]);
    return exitCode === 0 ? said.trim() : `${said.trim()} (exit status ${exitCode})`;
  };
  /** Size and source of what is mounted at /mnt/x, by `df`; undefined when nothing is. */
  const df = async (instance: number, at = "/mnt/x"): Promise<{ source: string; bytes: number } | undefined> => {
    const { text, exitCode } = await run(await guest(instance), ["df", "-B1", "--output=source,size,target", at]);
    const [source = "", bytes, target] = text.trim().split("\n").pop()?.trim().split(/\s+/) ?? [];
    return exitCode === 0 && target === at ? { source, bytes: Number(bytes) } : undefined;
  };

  it("is an ext4 of its size in the running guest, and gone from it when detached", async () => {
    const { StartedAt } = (await (await guest(1)).inspect()).State;
    await plot.driver.volumes.ensure(wanted({ bytes: 10 * 1024 * mebibyte }));
    const seen = await df(1);
    expect(seen?.source).toMatch(/^\/dev\/loop\d+$/);
    // What the file system keeps for itself is not in df's figure.
    expect(seen?.bytes).toBeGreaterThan(0.95 * 10 * 1024 * mebibyte);
    expect(seen?.bytes).toBeLessThanOrEqual(10 * 1024 * mebibyte);
    expect(await sh(1, "grep ' /mnt/x ' /proc/mounts")).toMatch(/ ext4 rw,/);
    expect(await df(2)).toBeUndefined();
    const size = Number(readFileSync(`/sys/block/${seen?.source.slice(5)}/size`, "utf8")) * 512;
    expect(size).toBe(10 * 1024 * mebibyte);

    await plot.driver.volumes.ensure(wanted({ bytes: 10 * 1024 * mebibyte, instance: null }));
    expect(await df(1)).toBeUndefined();
    expect(await sh(1, "ls -d /mnt/x 2>/dev/null || echo none")).toBe("none");
    expect(ourLoops()).toEqual([]);
    expect((await (await guest(1)).inspect()).State.StartedAt).toBe(StartedAt);
    expect(await helpers()).toEqual([]);
  });

  it("costs next to nothing while it is empty, and gives the room of deleted files back", async () => {
    await plot.driver.volumes.ensure(wanted({ bytes: 10 * 1024 * mebibyte }));
    const taken = async (): Promise<number> => {
      const { Mountpoint } = await docker.getVolume((await ourVolumes())[0] ?? "").inspect();
      const image = (await (await guest(1)).inspect()).Image;
      const counter = await docker.createContainer({
        Image: image,
        Entrypoint: ["/bin/sh", "-c", "du -sm /v | cut -f1"],
        Labels: { "io.backlot.owner": plot.options.owner },
        HostConfig: { Binds: [`${Mountpoint}:/v:ro`], NetworkMode: "none" },
      });
      try {
        await counter.start();
        await counter.wait();
        return Number(((await counter.logs({ stdout: true })) as Buffer).subarray(8).toString());
      } finally {
        await counter.remove({ force: true });
      }
    };
    expect(await taken()).toBeLessThan(20);
    await sh(1, "dd if=/dev/urandom of=/mnt/x/big bs=1M count=64 status=none && sync");
    expect(await taken()).toBeGreaterThan(60);
    await sh(1, "rm /mnt/x/big && sync");
    await until(async () => (await taken()) < 20, { what: "the room of the deleted file" });
  });

  it("says that no space is left when it is full, and the guest's own disk does not notice", async () => {
    await plot.driver.volumes.ensure(wanted());
    const said = await sh(1, "dd if=/dev/zero of=/mnt/x/full bs=1M count=64 2>&1");
    expect(said).toMatch(/No space left on device/);
    expect(said).toMatch(/exit status 1/);
    expect(Number(await sh(1, "stat -c %s /mnt/x/full"))).toBeGreaterThan(20 * mebibyte);
    expect(await sh(1, "dd if=/dev/zero of=/root/free bs=1M count=40 status=none && rm /root/free && echo fine")).toBe("fine");
  });

  it("grows under the running guest, and keeps its data", async () => {
    await plot.driver.volumes.ensure(wanted());
    await sh(1, "echo here >/mnt/x/file");
    const before = (await df(1))?.bytes ?? 0;
    expect(await plot.driver.volumes.ensure(wanted({ bytes: 96 * mebibyte }))).toEqual({ path: "/mnt/x", note: null });
    const after = (await df(1))?.bytes ?? 0;
    expect(after - before).toBeGreaterThan(56 * mebibyte);
    expect(await sh(1, "cat /mnt/x/file")).toBe("here");
    // It never shrinks.
    await plot.driver.volumes.ensure(wanted());
    expect((await df(1))?.bytes).toBe(after);
  });

  it("grows while it is used where the engine allows that, else as soon as it is not", async () => {
    await plot.driver.volumes.ensure(wanted());
    const before = (await df(1))?.bytes ?? 0;
    await sh(
      1,
      `setsid sh -c 'cd /mnt/x && exec sleep 600' >/dev/null 2>&1 </dev/null & echo $! >/tmp/user; until [ "$(readlink /proc/$(cat /tmp/user)/cwd)" = /mnt/x ] && [ "$(cat /proc/$(cat /tmp/user)/comm)" = sleep ]; do :; done`,
    );
    const { note } = await plot.driver.volumes.ensure(wanted({ bytes: 64 * mebibyte }));
    if (note !== null) {
      expect(note).toMatch(/Used by .*sleep.*SYS_RESOURCE/);
      expect((await df(1))?.bytes).toBe(before);
    }
    await sh(1, "kill $(cat /tmp/user)");
    expect(await plot.driver.volumes.ensure(wanted({ bytes: 64 * mebibyte }))).toEqual({ path: "/mnt/x", note: null });
    expect((await df(1))?.bytes).toBeGreaterThan(before + 24 * mebibyte);
    const row = plot.driver.capabilities().rows.find(({ subject }) => subject === "Volumes");
    expect(row).toMatchObject({ real: true, note: expect.stringMatching(note === null ? /grow in use/ : /SYS_RESOURCE/) });
  });

  it("detached while a process uses it: it is out of the guest, the note says who keeps what, and another guest may have it", async () => {
    await plot.driver.volumes.ensure(wanted());
    await sh(
      1,
      "setsid sh -c 'exec 9>/mnt/x/open; exec sleep 600' >/dev/null 2>&1 </dev/null & echo $! >/tmp/user; until [ -e /mnt/x/open ] && [ \"$(cat /proc/$(cat /tmp/user)/comm)\" = sleep ]; do :; done",
    );
    const { note } = await plot.driver.volumes.ensure(wanted({ instance: null }));
    expect(note).toMatch(/sleep/);
    expect(await df(1)).toBeUndefined();
    await plot.driver.volumes.ensure(wanted({ instance: 2 }));
    await sh(2, "echo second >/mnt/x/other && sync");
    await sh(1, "echo late >/proc/$(cat /tmp/user)/fd/9; kill $(cat /tmp/user)");
    // One file system, however many saw it: nothing is torn.
    expect(await sh(2, "cat /mnt/x/other /mnt/x/open")).toBe("second\nlate");
  });

  it("is not mounted over something else", async () => {
    await plot.driver.volumes.ensure(wanted());
    await expect(plot.driver.volumes.ensure(wanted({ volume: 2 }))).rejects.toThrow(/\/mnt\/x is a mount point of something else/);
    expect(ourLoops()).toHaveLength(1);
  });

  it("runs nothing that the guest's root could have put in the way", async () => {
    await sh(2, "mkdir -p /tmp/kept && cp -a /usr/bin/mount /usr/bin/umount /usr/bin/python3* /tmp/kept/");
    await sh(
      2,
      "for p in /usr/bin/mount /usr/bin/umount /usr/bin/python3; do rm -f $p; printf '#!/bin/sh\\ntouch /tmp/ran\\n' >$p; chmod 755 $p; done; ln -sfn /etc /mnt/x",
    );
    try {
      const asked = plot.driver.volumes.ensure(wanted({ instance: 2, label: "y" }));
      expect((await asked).path).toBe("/mnt/y");
      expect(await df(2, "/mnt/y")).toBeDefined();
      await plot.driver.volumes.ensure(wanted({ instance: null }));
      expect(await sh(2, "ls /tmp/ran 2>/dev/null || echo nothing")).toBe("nothing");
    } finally {
      await sh(2, "rm -f /mnt/x; cp -a /tmp/kept/* /usr/bin/");
    }
  });

  it("on an engine without loop devices it is a folder, mounted in the running guest all the same; its size is not enforced", async () => {
    const without = await plot.again({ loopDevices: false });
    expect((await without.volumes.ensure(wanted())).path).toBe("/mnt/x");
    expect(without.capabilities().rows.find(({ subject }) => subject === "Volumes")?.note).toMatch(/Size: not enforced/);
    expect(ourLoops()).toEqual([]);
    await sh(1, "dd if=/dev/zero of=/mnt/x/large bs=1M count=40 status=none");
    expect(await sh(2, "ls /mnt/x 2>/dev/null || echo none")).toBe("none");
    await without.volumes.ensure(wanted({ instance: 2 }));
    await without.volumes.ensure(wanted({ instance: 2, label: "y" }));
    expect(await sh(1, "ls /mnt/x 2>/dev/null || echo none")).toBe("none");
    expect(await sh(2, "stat -c %s /mnt/y/large")).toBe(String(40 * mebibyte));
    await without.volumes.ensure(wanted({ volume: 2, label: "copy", copyOf: 1, instance: 2 }));
    expect(await sh(2, "rm /mnt/y/large; stat -c %s /mnt/copy/large")).toBe(String(40 * mebibyte));
    // What was made as a folder stays one, whatever an engine grants later.
    await plot.driver.volumes.ensure(wanted({ volume: 2, label: "copy" }));
    expect(await sh(1, "stat -c %s /mnt/copy/large")).toBe(String(40 * mebibyte));
    await plot.driver.volumes.ensure(wanted({ volume: 3, label: "sized", instance: null }));
    await expect(without.volumes.ensure(wanted({ volume: 3, label: "sized" }))).rejects.toThrow(/grants no loop device/);
  });

  it("is usable again after a copy of it that was cut off, which leaves it frozen", async () => {
    await plot.driver.volumes.ensure(wanted());
    const { Pid } = (await (await guest(1)).inspect()).State;
    execFileSync("fsfreeze", ["--freeze", `/proc/${Pid}/root/mnt/x`]);
    await (await plot.again()).volumes.ensure(wanted());
    expect(await sh(1, "timeout 5 sh -c 'echo a >/mnt/x/b'; echo $?")).toBe("0");
  });

  it("a guest that is killed or removed leaves no loop device, and the data is whole", async () => {
    await plot.driver.ensure(plot.spec({ instance: 3 }));
    await plot.driver.volumes.ensure(wanted({ instance: 3 }));
    await sh(3, "echo unsynced >/mnt/x/file");
    await plot.driver.kill(3);
    await until(() => ourLoops().length === 0, { what: "the end of the loop device" });
    await plot.driver.ensure(plot.spec({ instance: 3 }));
    await plot.driver.volumes.ensure(wanted({ instance: 3 }));
    expect(await sh(3, "cat /mnt/x/file")).toBe("unsynced");
    await plot.driver.remove(3);
    await until(() => ourLoops().length === 0, { what: "the end of the loop device" });
    await plot.driver.volumes.ensure(wanted());
    expect(await sh(1, "cat /mnt/x/file")).toBe("unsynced");
  });

  it("a loop device that stays, as one does whose maker died too early, is met and goes with its volume", async () => {
    await plot.driver.volumes.ensure(wanted({ instance: null }));
    const [name = ""] = await ourVolumes();
    const { Mountpoint } = await docker.getVolume(name).inspect();
    execFileSync("losetup", ["--find", `${Mountpoint}/${name}.ext4`]);
    expect(ourLoops()).toHaveLength(1);
    await plot.driver.volumes.ensure(wanted());
    expect(await sh(1, "echo here >/mnt/x/file; cat /mnt/x/file")).toBe("here");
    expect(ourLoops()).toHaveLength(1);
    await plot.driver.volumes.ensure(wanted({ instance: null }));
    await until(() => ourLoops().length === 0, { what: "the end of the loop device" });
    // One that nobody mounts any more goes with its volume.
    execFileSync("losetup", ["--find", `${Mountpoint}/${name}.ext4`]);
    await plot.driver.volumes.remove(1);
    await until(() => ourLoops().length === 0, { what: "the end of the loop device" });
  });

  it("asks the engine again for what it refused, after a while", async () => {
    let tag = "backlot/none:such";
    const common = { docker, owner: plot.options, image: async () => tag, loopDevices: true, left: [] };
    const [patient, hasty] = [volumeHelper(common), volumeHelper({ ...common, refusalMs: 0 })];
    const release = { do: "release", disk: "/volumes/none/none.ext4", containers: [] } as const;
    for (const helper of [patient, hasty]) await expect(helper.run(release, [])).rejects.toThrow(/refuses the helper.*No such image/);
    tag = (await (await guest(1)).inspect()).Config.Image;
    await expect(patient.run(release, [])).rejects.toThrow(/refuses the helper/);
    // Now it is granted, and what fails is the task: there is no such volume.
    await expect(hasty.run(release, [])).rejects.toThrow(/helper that mounts volumes failed: .*No such file/);
    expect(hasty.rights()).toMatchObject({ growth: expect.stringMatching(/use/) });
  });

  it("shows what was left for `backlot clean`, with helpers that a crash left", async () => {
    const other = await openPlot();
    try {
      await other.driver.ensure(other.spec());
      await other.driver.volumes.ensure(wanted());
      const image = (await (await guest(1)).inspect()).Image;
      const left = { "io.backlot.owner": other.options.owner, "io.backlot.helper": "volume" };
      await docker.createContainer({ Image: image, Labels: left });
      const atWork = await docker.createContainer({ Image: image, Entrypoint: ["sleep", "60"], Labels: left });
      await atWork.start();
      const [things] = (await ownedThings()).filter(({ owner, stateFolder }) => owner === other.options.owner && stateFolder !== "");
      expect(things).toMatchObject({ volumes: [`backlot-${other.options.owner.slice(0, 8)}-volume-1`], containers: [{ running: true }] });
      const next = await other.again();
      expect(await next.volumes.list()).toEqual([1]);
      // One that outlived its Backlot goes when it has ended: a volume that it holds could not be removed.
      await atWork.kill();
      await atWork.wait();
      expect(await next.volumes.list()).toEqual([1]);
      const filters = { label: [`io.backlot.owner=${other.options.owner}`, "io.backlot.helper"] };
      expect(await docker.listContainers({ all: true, filters })).toEqual([]);
    } finally {
      await other.close();
    }
    expect(loopFiles().filter((file) => file.includes(other.options.owner.slice(0, 8)))).toEqual([]);
    const { Volumes } = await docker.listVolumes({ filters: { label: [`io.backlot.owner=${other.options.owner}`] } });
    expect(Volumes ?? []).toEqual([]);
  });
});
