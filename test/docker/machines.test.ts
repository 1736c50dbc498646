import { readFileSync } from "node:fs";
import { createConnection } from "node:net";
import { encrypt } from "unixcrypt";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Machine } from "#backlot/runtime/driver.js";
import { addressIn, containerOf, describeDocker, docker, openPlot, type Plot, run } from "../support/docker.js";
import { until } from "../support/until.js";

const password = "Tr0ub4dor&3";
const secretWord = "a-secret-of-the-script";

/** The first bytes a server sends. */
const greeting = (host: string, port: number): Promise<string> =>
  new Promise((resolve, reject) => {
    const socket = createConnection({ host, port, timeout: 2_000 });
    socket.once("data", (data) => {
      socket.destroy();
      resolve(data.toString());
    });
    socket.once("error", reject);
    socket.once("timeout", () => socket.destroy(new Error("no answer within 2 s")));
  });

const addressesIn = async (plot: Plot, instance: number): Promise<string[]> => {
  const container = await containerOf(plot.options.owner, instance);
  if (!container) return [];
  const { text } = await run(container, ["ip", "-o", "-4", "addr", "show", "scope", "global"]);
  return [...text.matchAll(/inet ([\d.]+)\//g)].map((match) => match[1] ?? "");
};

describeDocker("machines on a Docker engine", () => {
  let plot: Plot;
  let first: Machine;

  beforeAll(async () => {
    plot = await openPlot();
    const script = '#!/bin/sh\necho "word is $(printf %s "$word" | wc -c) long, greeting is $greeting, home is $HOME"\nexit 4\n';
    first = await plot.driver.ensure(
      plot.spec({
        rootPassHash: encrypt(password, "$6$rounds=5000$abcdefgh"),
        authorizedKeys: ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGkIDb5i2nBWDjQl3FYc0yS6bX8yHvVyHI1U1FcAi6T6 someone"],
        script: { id: 7, text: script, data: { word: secretWord, greeting: 'it\'s "fine" $HOME' }, shipped: false },
        vcpus: 64,
        memoryMib: 192,
      }),
    );
    await plot.driver.ensure(plot.spec({ instance: 2, region: "eu-west", privateAddresses: [] }));
  });
  afterAll(() => plot?.close());

  const inspected = async (instance: number) => {
    const container = await containerOf(plot.options.owner, instance);
    if (!container) throw new Error(`there is no instance ${instance}`);
    return { container, info: await container.inspect() };
  };

  it("gives a machine the limits of its type and no privilege", async () => {
    const { info } = await inspected(1);
    const { NCPU } = (await docker.info()) as { NCPU: number };
    expect(info.HostConfig).toMatchObject({
      Memory: 192 * 2 ** 20,
      MemorySwap: 192 * 2 ** 20,
      NanoCpus: NCPU * 1e9,
      PidsLimit: 1024,
      Privileged: false,
    });
    expect(info.HostConfig.RestartPolicy).toMatchObject({ Name: "no" });
    expect(info.Mounts).toEqual([]);
    expect(info.HostConfig.Binds ?? []).toEqual([]);
    // Asked from the kernel: the bounding set of PID 1 is the most any process in the guest can ever have.
    const status = readFileSync(`/proc/${info.State.Pid}/status`, "utf8");
    const bounding = BigInt(`0x${/^CapBnd:\s*([0-9a-f]+)$/m.exec(status)?.[1]}`);
    const forbidden = { NET_ADMIN: 12, NET_RAW: 13, SYS_MODULE: 16, SYS_PTRACE: 19, SYS_ADMIN: 21, SYS_TIME: 25, MKNOD: 27 };
    for (const [name, bit] of Object.entries(forbidden)) expect((bounding >> BigInt(bit)) & 1n, name).toBe(0n);
  });

  it("shows no secret to whoever may inspect, and keeps none in the guest", async () => {
    const { container, info } = await inspected(1);
    await until(async () => (await plot.driver.list()).some((machine) => machine.instance === 1 && machine.script?.exitCode === 4));
    const shown = JSON.stringify([info, await docker.listContainers({ all: true }), await docker.getImage(info.Image).inspect()]);
    for (const secret of [secretWord, "$6$", password]) expect(shown).not.toContain(secret);
    const found = await run(container, ["grep", "-rl", secretWord, "/etc", "/root", "/var", "/run"]);
    expect(found.text).toBe("");
    expect((await run(container, ["ls", "/etc/backlot"])).text).not.toMatch(/root-pass|script\.env/);
    expect((await run(container, ["stat", "-c", "%a %U", "/root/.ssh", "/root/.ssh/authorized_keys"])).text).toBe("700 root\n600 root\n");
  });

  it("reads no more than marks from a guest, whatever its root puts there", async () => {
    await plot.driver.ensure(plot.spec({ instance: 9, boots: 3 }));
    const container = await containerOf(plot.options.owner, 9);
    if (!container) throw new Error("it is not there");
    // Sparse here, and a stream of zeros on its way to us.
    await run(container, ["sh", "-c", "cd /var/lib/backlot && truncate -s 1500M a-large-one extra-addresses; truncate -s 2M /etc/shadow"]);
    const before = process.resourceUsage().maxRSS;
    const again = await plot.again();
    expect(await again.list(9)).toMatchObject([{ instance: 9, running: true, boots: 3 }]);
    await expect(again.images.capture(9, "first", "private/1")).rejects.toThrow(/\/etc\/shadow holds 2097152 bytes/);
    expect((process.resourceUsage().maxRSS - before) / 1024).toBeLessThan(400);
    await again.ensure(plot.spec({ instance: 9, boots: 4 }));
    expect(await again.list(9)).toMatchObject([{ instance: 9, running: true, boots: 4 }]);
    await again.remove(9);
  });

  it("gives the deploy script its fields as variables, whatever is in them", async () => {
    const text = await until(async () => (await plot.driver.log(1)).includes("word is") && plot.driver.log(1));
    expect(text).toContain(`word is ${secretWord.length} long, greeting is it's "fine" $HOME, home is /root`);
    expect(text).toContain("exit code 4");
  });

  it("lets root in over ssh with the chosen password only", async () => {
    const { container } = await inspected(2);
    const login = (word: string) =>
      run(container, [
        "sh",
        "-c",
        `printf '#!/bin/sh\\necho "%s"\\n' '${word}' > /tmp/ask && chmod 700 /tmp/ask && ` +
          "SSH_ASKPASS=/tmp/ask SSH_ASKPASS_REQUIRE=force DISPLAY=:0 setsid ssh -o StrictHostKeyChecking=no -o PreferredAuthentications=password " +
          `-o NumberOfPasswordPrompts=1 root@${plot.spec().publicAddresses[0]} 'id -un; cat /etc/hostname'`,
      ]);
    const entered = await login(password);
    expect(entered.text).toContain("root\ntest-1");
    expect(entered.exitCode).toBe(0);
    const refused = await login("wrong");
    expect(refused.text).toContain("Permission denied");
    expect(refused.exitCode).toBe(255);
  });

  it("lets a server be a server: other users, su, files of theirs, a low port", async () => {
    const { container } = await inspected(2);
    const { text } = await run(container, [
      "sh",
      "-c",
      "useradd -m ann && echo 'ann:$6$x$y' | chpasswd -e && su ann -c 'id -un; touch ~/mine; stat -c %U ~/mine'",
    ]);
    expect(text).toBe("ann\nann\n");
  });

  it("makes host keys for each machine, and none in the image", async () => {
    const keys = await Promise.all(
      [1, 2].map(async (n) => (await run((await inspected(n)).container, ["cat", "/etc/ssh/ssh_host_ed25519_key.pub"])).text),
    );
    expect(keys[0]).toMatch(/^ssh-ed25519 /);
    expect(keys[0]).not.toBe(keys[1]);
  });

  it("is reached at its public address from this machine and from a guest of another region", async () => {
    const address = plot.spec().publicAddresses[0] ?? "";
    const endpoint = plot.driver.dial(address, 22);
    expect(endpoint).toEqual({ host: address, port: 22 });
    expect(await until(() => greeting(address, 22))).toMatch(/^SSH-2/);
    const { container } = await inspected(2);
    expect((await run(container, ["sh", "-c", `busybox nc -w 2 ${address} 22 </dev/null | head -c 5`])).text).toContain("SSH-2");
  });

  it("adds and removes addresses under a running machine, without replacing it", async () => {
    const { publicPool, privatePool } = plot.options;
    const before = (await inspected(1)).info;
    const base = plot.spec({ rootPassHash: "x", vcpus: 64, memoryMib: 192 });
    const more = {
      ...base,
      publicAddresses: [...base.publicAddresses, addressIn(publicPool, 100), addressIn(publicPool, 101)],
      privateAddresses: [...base.privateAddresses, addressIn(privatePool, 100)],
    };
    await plot.driver.ensure(more);
    expect((await addressesIn(plot, 1)).sort()).toEqual([...more.publicAddresses, ...more.privateAddresses].sort());
    expect(await greeting(addressIn(publicPool, 101), 22)).toMatch(/^SSH-2/);
    expect(await greeting(addressIn(privatePool, 100), 22)).toMatch(/^SSH-2/);

    const fewer = { ...base, publicAddresses: more.publicAddresses.slice(0, 2), privateAddresses: [] };
    await plot.driver.ensure(fewer);
    expect((await addressesIn(plot, 1)).sort()).toEqual([...fewer.publicAddresses].sort());

    await plot.driver.ensure(base);
    expect((await addressesIn(plot, 1)).sort()).toEqual([...base.publicAddresses, ...base.privateAddresses].sort());
    const after = (await inspected(1)).info;
    expect([after.Id, after.State.StartedAt]).toEqual([before.Id, before.State.StartedAt]);
    expect(after.Id).toBe(first.containerId);
    const left = await docker.listContainers({ all: true, filters: { label: [`io.backlot.owner=${plot.options.owner}`] } });
    expect(left).toHaveLength(2);
  });

  it("gives a machine all its addresses again when it boots, and when it is made anew", async () => {
    const spec = plot.spec({
      instance: 3,
      publicAddresses: [addressIn(plot.options.publicPool, 3), addressIn(plot.options.publicPool, 103)],
      privateAddresses: [addressIn(plot.options.privatePool, 3)],
    });
    const wanted = [...spec.publicAddresses, ...spec.privateAddresses].sort();
    await plot.driver.ensure(spec);
    expect((await addressesIn(plot, 3)).sort()).toEqual(wanted);
    await plot.driver.ensure({ ...spec, boots: 2 });
    await until(async () => String((await addressesIn(plot, 3)).sort()) === String(wanted), { what: "the addresses after a reboot" });
    await (await inspected(3)).container.remove({ force: true });
    await plot.driver.ensure({ ...spec, boots: 2 });
    expect((await addressesIn(plot, 3)).sort()).toEqual(wanted);
    await plot.driver.remove(3);
  });

  it("tells services the addresses that the machine has", async () => {
    const { container } = await inspected(1);
    const { text } = await run(container, ["cat", "/etc/backlot/machine.env"]);
    expect(text).toContain(`BACKLOT_PRIVATE_ADDRESS='${plot.spec().privateAddresses[0]}'`);
    expect(text).toContain(`BACKLOT_PUBLIC_ADDRESS='${plot.spec().publicAddresses[0]}'`);
    expect(text).toContain("BACKLOT_LABEL='test-1'");
  });

  it("hints when a deploy script ends, and says its exit code from then on", async () => {
    const hints: number[] = [];
    const watch = plot.driver.watch((instance) => hints.push(instance));
    try {
      const text = "#!/bin/sh\necho begun\nwhile ! [ -e /tmp/go ]; do sleep 0.05; done\nexit 5\n";
      await plot.driver.ensure(plot.spec({ instance: 4, script: { id: 1, text, data: {}, shipped: false } }));
      await until(async () => (await plot.driver.log(4)).includes("begun"));
      await until(() => hints.includes(4));
      expect((await plot.driver.list()).find(({ instance }) => instance === 4)?.script).toEqual({ exitCode: null });
      hints.length = 0;
      await run((await inspected(4)).container, ["touch", "/tmp/go"]);
      await until(() => hints.includes(4), { what: "the hint of the script's end" });
      expect((await plot.driver.list()).find(({ instance }) => instance === 4)?.script).toEqual({ exitCode: 5 });
    } finally {
      await watch.close();
      await plot.driver.remove(4);
    }
  });

  it("makes a machine anew that never took what its first start hands over", async () => {
    const wanted = plot.spec({ instance: 5, privateAddresses: [] });
    await plot.driver.ensure({ ...wanted, running: false });
    // Started behind our back it waits for a hand-over that nobody makes; at its end there is nothing on its disk.
    const { container } = await inspected(5);
    await container.start();
    expect((await container.inspect()).State.Running).toBe(true);
    await container.kill({ signal: "SIGKILL" });
    await container.wait();
    await plot.driver.ensure(wanted);
    const made = await inspected(5);
    expect(made.info.Id).not.toBe(container.id);
    await until(async () => (await run(made.container, ["cat", "/var/lib/backlot/boots"])).text.trim() === String(wanted.boots));
    await plot.driver.remove(5);
  });

  it("ends the hand-over's connection when the guest has read it", async () => {
    const sockets = () => process.getActiveResourcesInfo().filter((name) => name === "PipeWrap").length;
    const before = sockets();
    for (const instance of [6, 7, 8]) await plot.driver.ensure(plot.spec({ instance, privateAddresses: [] }));
    // Other streams, the engine's events say, may come and go meanwhile.
    await until(() => sockets() < before + 3, { what: "the connections of three hand-overs to end" });
    await Promise.all([6, 7, 8].map((instance) => plot.driver.remove(instance)));
  });

  it("is counted even where its root made the counting an endless program", async () => {
    await plot.driver.ensure(plot.spec({ instance: 77 }));
    const container = await containerOf(plot.options.owner, 77);
    if (!container) throw new Error("there is no such instance");
    await run(container, ["sh", "-c", "cp /bin/sleep /bin/slow; printf '#!/bin/sh\\nexec slow 600\\n' >/bin/cat"]);
    expect(await plot.driver.counters(77)).toMatchObject({ network: null, cpuMs: expect.any(Number) });
    await plot.driver.remove(77);
  }, 30_000);

  it("stops within the engine's patience and by SIGTERM, not by force", async () => {
    await plot.driver.ensure(plot.spec({ instance: 2, region: "eu-west", privateAddresses: [], running: false }));
    expect((await inspected(2)).info.State).toMatchObject({ Running: false, ExitCode: 0 });
  });
});
