import { get } from "node:http";
import { encrypt } from "unixcrypt";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ownedThings, removeOwned } from "#backlot/runtime/docker/orphans.js";
import { containerOf, describeDocker, docker, openPlot, type Plot, run } from "../support/docker.js";
import { makeOwnImage } from "../support/own-image.js";
import { until } from "../support/until.js";

const secretWord = "a-secret-of-the-script";

const guestTag = async (plot: Plot, instance: number): Promise<string> => {
  const info = await (await containerOf(plot.options.owner, instance))?.inspect();
  return info?.Config.Image ?? "";
};

const said = async (plot: Plot, instance: number, ...command: string[]): Promise<string> => {
  const container = await containerOf(plot.options.owner, instance);
  if (!container) throw new Error(`there is no instance ${instance}`);
  return (await run(container, command)).text;
};

/** Every name in an image, and the content of some, from the engine's own archive of a container that never runs. */
const filesOf = async (image: string): Promise<{ names: string[]; shadow: string }> => {
  const container = await docker.createContainer({ Image: image, Entrypoint: ["/bin/sh"] });
  try {
    const { extract } = await import("tar-stream");
    const names: string[] = [];
    let shadow = "";
    const reader = extract();
    ((await container.export()) as NodeJS.ReadableStream).pipe(reader as unknown as NodeJS.WritableStream);
    for await (const entry of reader as unknown as AsyncIterable<AsyncIterable<Buffer> & { header: { name: string } }>) {
      names.push(entry.header.name);
      for await (const chunk of entry) if (entry.header.name === "etc/shadow") shadow += chunk.toString();
    }
    return { names, shadow };
  } finally {
    await container.remove({ force: true });
  }
};

const page = (host: string, port: number): Promise<string> =>
  new Promise((resolve, reject) => {
    const request = get({ host, port, path: "/", agent: false, timeout: 2_000 }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (chunk) => {
        text += chunk;
      });
      response.on("end", () => resolve(text));
    });
    request.on("timeout", () => request.destroy(new Error("no answer within 2 s")));
    request.on("error", reject);
  });

describeDocker("copies of machines on a Docker engine", () => {
  let plot: Plot;
  const hash = encrypt("Tr0ub4dor&3", "$6$rounds=5000$abcdefgh");
  const script = {
    id: 7,
    text: `#!/bin/sh\necho kept >/root/kept\nchmod 4711 /root/kept\n: ${secretWord}\n`,
    data: { word: secretWord },
    shipped: false,
  };

  beforeAll(async () => {
    plot = await openPlot();
    await plot.driver.ensure(plot.spec({ rootPassHash: hash, script }));
    await until(async () => (await plot.driver.list()).some((machine) => machine.script?.exitCode === 0), { what: "the end of the deploy script" });
    await plot.driver.images.capture(1, "first", "private/1");
  });
  afterAll(() => plot?.close());

  const tag = () => `backlot/private:${plot.options.owner.slice(0, 8)}-1`;

  it("hold neither host keys, nor root's password, nor script, nor marks of a boot", async () => {
    const { names, shadow } = await filesOf(tag());
    expect(names).toContain("root/kept");
    expect(names).toContain("etc/ssh/sshd_config");
    const strays = names.filter((name) => /ssh_host_|^etc\/shadow-|^etc\/backlot\/(?!services)[^/]+$|^var\/lib\/backlot\/./.test(name));
    expect(strays).toEqual([]);
    expect(shadow).toMatch(/^root:\*:/m);
    expect(shadow).toMatch(/^sshd:/m);
    const shown = JSON.stringify([await docker.getImage(tag()).inspect(), await docker.getImage(tag()).history()]);
    for (const secret of [secretWord, hash, "$6$"]) expect(shown).not.toContain(secret);
  });

  it("are one layer of their own, with our labels, and not the machine's", async () => {
    const info = await docker.getImage(tag()).inspect();
    expect(info.RootFS.Layers).toHaveLength(1);
    expect(info.Config.Labels).toEqual({
      "io.backlot.owner": plot.options.owner,
      "io.backlot.state": plot.options.stateFolder,
      "io.backlot.image": "private/1",
      "io.backlot.guest": "debian12",
    });
    expect(info.Config.Entrypoint).toEqual(["/usr/bin/tini", "--", "/usr/local/sbin/backlot-boot"]);
  });

  it("boot as other machines: same files, other host key, the password and script that were asked for", async () => {
    const other = encrypt("Another-Pass-1", "$6$rounds=5000$hgfedcba");
    const again = { ...script, text: "#!/bin/sh\necho again >>/root/kept\n" };
    await plot.driver.ensure(plot.spec({ instance: 2, image: "private/1", boots: 4, rootPassHash: other, script: again }));
    const second = await until(async () => (await plot.driver.list()).find((machine) => machine.instance === 2 && machine.script?.exitCode === 0));
    expect(second).toMatchObject({ running: true, boots: 4 });
    expect(await said(plot, 2, "cat", "/root/kept")).toBe("kept\nagain\n");
    expect(await said(plot, 2, "stat", "-c", "%a %U", "/root/kept")).toBe("4711 root\n");
    const key = ["cat", "/etc/ssh/ssh_host_ed25519_key.pub"];
    expect(await said(plot, 2, ...key)).toMatch(/^ssh-ed25519 /);
    expect(await said(plot, 2, ...key)).not.toBe(await said(plot, 1, ...key));
    expect(await said(plot, 2, "cat", "/etc/shadow")).toContain(`root:${other}:`);
    expect(await said(plot, 1, "cat", "/etc/shadow")).toContain(`root:${hash}:`);
  });

  it("stay while a machine rests on them, and go with it", async () => {
    await plot.driver.ensure(plot.spec({ instance: 3, image: "private/1" }));
    expect(await plot.driver.images.remove("private/1")).toBe(false);
    expect(await said(plot, 3, "cat", "/root/kept")).toBe("kept\n");
    await plot.driver.remove(2);
    await plot.driver.remove(3);
    expect(await plot.driver.images.remove("private/1")).toBe(true);
    await expect(docker.getImage(tag()).inspect()).rejects.toMatchObject({ statusCode: 404 });
  });

  it("are made of a copy that was never started, too", async () => {
    expect(await plot.driver.copy("first", "copied")).toBe(true);
    expect(await plot.driver.images.capture(1, "copied", "private/9")).toMatchObject({ key: "private/9", sizeMb: expect.any(Number) });
    expect(await plot.driver.list()).toMatchObject([{ instance: 1 }]);
    await plot.driver.ensure(plot.spec({ instance: 4, image: "private/9" }));
    expect(await said(plot, 4, "cat", "/root/kept")).toBe("kept\n");
    const label = [`io.backlot.owner=${plot.options.owner}`, "io.backlot.helper"];
    expect(await docker.listContainers({ all: true, filters: { label } })).toEqual([]);
    await plot.driver.remove(4);
    await plot.driver.images.remove("private/9");
    await plot.driver.discard("copied");
  });

  it("are found by their labels when their Backlot is gone, and removed", async () => {
    await plot.driver.images.capture(1, "first", "private/5");
    const things = (await ownedThings()).find(({ owner }) => owner === plot.options.owner);
    expect(things?.images).toEqual([`backlot/private:${plot.options.owner.slice(0, 8)}-5`]);
    if (things) await removeOwned(things);
    expect((await ownedThings()).some(({ owner }) => owner === plot.options.owner)).toBe(false);
  });

  it("are found and removed without a tag, too", async () => {
    await plot.driver.ensure(plot.spec());
    const container = await containerOf(plot.options.owner, 1);
    const { Id } = ((await container?.commit({})) ?? { Id: "none" }) as { Id: string };
    const things = (await ownedThings()).filter(({ owner }) => owner === plot.options.owner);
    expect(things.flatMap(({ images }) => images)).toEqual([Id]);
    for (const each of things) await removeOwned(each);
    await expect(docker.getImage(Id).inspect()).rejects.toMatchObject({ statusCode: 404 });
  });
});

describeDocker("a container of the user's own", () => {
  let plot: Plot;
  let drop: (() => Promise<void>) | undefined;
  const reference = "backlot-test/own:1";

  beforeAll(async () => {
    plot = await openPlot({ ownImages: { "cloud/own": reference, "cloud/absent": "registry.invalid/none:1" } });
    await plot.driver.ensure(plot.spec({ running: false }));
    drop = await makeOwnImage(reference, await guestTag(plot, 1));
  });
  afterAll(async () => {
    await plot?.close();
    await drop?.();
  });

  it("runs its own entrypoint at its addresses, within the limits, and none of our guest", async () => {
    const [publicly = "", privately = ""] = [...plot.spec({ instance: 2 }).publicAddresses, ...plot.spec({ instance: 2 }).privateAddresses];
    const further = privately.replace(/\d+$/, "99");
    const spec = plot.spec({ instance: 2, image: "cloud/own", privateAddresses: [privately, further], rootPassHash: "$6$x$y" });
    const machine = await plot.driver.ensure(spec);
    expect(machine).toMatchObject({ running: true, boots: 1, ownEntrypoint: true });
    for (const address of [publicly, privately, further]) expect(await until(() => page(address, 8080), { what: address })).toBe("own\n");
    const info = await (await containerOf(plot.options.owner, 2))?.inspect();
    expect(info).toMatchObject({ Path: "/bin/busybox", HostConfig: { Memory: 256 * 2 ** 20, PidsLimit: 1024, CapDrop: ["ALL"] } });
    expect(await plot.driver.ensure(spec)).toEqual(machine);
    expect(await plot.driver.ensure({ ...spec, boots: 2 })).toMatchObject({ running: true, boots: 2 });
    expect(await until(() => page(further, 8080), { what: "the page after a reboot" })).toBe("own\n");
  });

  it("is copied with its entrypoint and variables", async () => {
    await plot.driver.images.capture(2, "first", "private/9");
    const machine = await plot.driver.ensure(plot.spec({ instance: 3, image: "private/9" }));
    expect(machine).toMatchObject({ running: true, ownEntrypoint: true });
    expect(await until(() => page(plot.spec({ instance: 3 }).privateAddresses[0] ?? "", 8080))).toBe("own\n");
    const info = await (await containerOf(plot.options.owner, 3))?.inspect();
    expect(info?.Config.Env).toContain("WORD=own");
  });

  it("that cannot be fetched fails with cause and remedy", async () => {
    await expect(plot.driver.ensure(plot.spec({ instance: 4, image: "cloud/absent" }))).rejects.toThrow(
      /cloud\/absent cannot be had: .*registry\.invalid\/none:1 .*docker load.*--image cloud\/absent=/,
    );
    expect(await containerOf(plot.options.owner, 4)).toBeUndefined();
  });
});
