import { execFileSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { contains, overlaps, parseCidr } from "#backlot/kernel/addresses.js";
import { turns } from "#backlot/kernel/turns.js";
import { framesText, lastPart } from "#backlot/runtime/docker/boot-log.js";
import { type Attachment, attachmentSteps, createRequest, powerStep } from "#backlot/runtime/docker/container.js";
import { defaultImageMap } from "#backlot/runtime/docker/guest-image.js";
import { imagePlan } from "#backlot/runtime/docker/images.js";
import { hostName } from "#backlot/runtime/docker/labels.js";
import { addressPlan, clash, occupiedBy } from "#backlot/runtime/docker/networks.js";

const spec = {
  instance: 4,
  label: "web 1",
  region: "us-east",
  privateRange: "192.168.129.0/24",
  image: "cloud/debian12",
  running: true,
  boots: 3,
  memoryMib: 1024,
  vcpus: 1,
  publicAddresses: ["198.18.0.9"],
  privateAddresses: ["192.168.129.9"],
  rootPassHash: "$6$salt$hash",
  authorizedKeys: [],
  script: { id: 1, text: "#!/bin/sh\n", data: { secret: "hidden" }, shipped: true },
  fingerprint: "f",
};
const at = (name: string, address: string | undefined): Attachment => ({ key: name, name, subnet: "10.0.0.0/24", address });

describe("the engine's client", () => {
  it("is loaded without the gRPC server of BuildKit's sessions and without ssh, and still asks an engine, by ssh too", () => {
    const url = new URL("../../dist/runtime/docker/engine.js", import.meta.url).href;
    const program = `
      const { engineAnswers } = await import(${JSON.stringify(url)});
      const { createRequire } = await import("node:module");
      const answer = await engineAnswers({ socketPath: "/nonexistent/docker.sock" });
      const loaded = () => Object.keys(createRequire(import.meta.url).cache).filter((path) => /[\\\\/](@grpc|ssh2)[\\\\/]/.test(path)).length;
      const before = loaded();
      const overSsh = await engineAnswers({ protocol: "ssh", host: "127.0.0.1", port: 9, username: "nobody" });
      console.log(JSON.stringify({ answer, loaded: before, overSsh: overSsh.reason, later: loaded() > 0 }));
      process.exit(0);`;
    const said = execFileSync(process.execPath, ["--input-type=module", "-e", program], { encoding: "utf8" });
    expect(JSON.parse(said)).toEqual({
      answer: { reason: expect.stringMatching(/ENOENT/), absent: true },
      loaded: 0,
      overSsh: expect.any(String),
      later: true,
    });
  });
});

describe("what the Docker driver decides", () => {
  it.each([
    [true, "created", 3, "first-start"],
    [true, "exited", 3, "start"],
    [true, "running", 3, "none"],
    [true, "running", 2, "restart"],
    [true, "running", 9, "none"],
    [true, "paused", 3, "unpause"],
    [true, "paused", 2, "restart"],
    [false, "running", 3, "stop"],
    [false, "exited", 3, "none"],
    [false, "created", 3, "none"],
  ] as const)("wanted running %s, seen %s with boots %i: %s", (running, state, boots, step) => {
    expect(powerStep({ ...spec, running }, state, boots)).toBe(step);
  });

  it("leaves networks that are right, and moves by disconnecting first", () => {
    const has = new Map([
      ["public", "198.18.0.9"],
      ["east", "192.168.129.9"],
    ]);
    expect(attachmentSteps(has, [at("public", "198.18.0.9"), at("east", "192.168.129.9")])).toEqual([]);
    expect(attachmentSteps(has, [at("public", "198.18.0.9")])).toEqual([{ disconnect: "east" }]);
    const moved = at("east", "192.168.129.10");
    expect(attachmentSteps(has, [at("public", "198.18.0.9"), moved])).toEqual([{ disconnect: "east" }, { connect: moved }]);
    expect(attachmentSteps(has, [at("public", undefined)])).toEqual([{ disconnect: "east" }]);
  });

  it("asks the engine for nothing secret", () => {
    const request = JSON.stringify(
      createRequest({ owner: "o", stateFolder: "/s" }, spec, { tag: "t", isGuest: true }, at("public", "198.18.0.9"), new Map(), {
        cpus: 2,
        resolvers: [],
        scriptPatienceMs: 1_000,
      }),
    );
    expect(request).not.toMatch(/hidden|\$6\$|docker\.sock/);
    expect(request).toContain('"Hostname":"web-1"');
  });

  it("makes a host name of any label", () => {
    expect(hostName("my_web.server", 3)).toBe("my-web-server");
    expect(hostName("—", 3)).toBe("instance-3");
    expect(hostName(`${"a".repeat(62)}-b`, 3)).toBe("a".repeat(62));
  });

  it.each(["192.168.128.0/24", "192.168.128.0/29", "198.18.0.0/16"])("keeps the engine's own addresses of %s away from ours", (cidr) => {
    const plan = addressPlan(cidr);
    const [whole, picks] = [parseCidr(cidr), parseCidr(plan.IPRange)];
    if (!whole || !picks) throw new Error("not a range");
    expect(picks.base + picks.size).toBe(whole.base + whole.size);
    expect(contains(picks, plan.Gateway)).toBe(false);
    expect(overlaps(whole, picks)).toBe(true);
    expect(picks.size).toBeLessThanOrEqual(16);
  });

  it("refuses a range without room for machines", () => {
    expect(() => addressPlan("192.168.128.0/30")).toThrow(/too small/);
  });

  it("counts a Docker bridge once, by its network, and a LAN as somebody's", () => {
    const network = (name: string, subnet: string, owner?: string) => ({
      Name: name,
      Id: name,
      Labels: (owner === undefined ? {} : { "io.backlot.owner": owner }) as Record<string, string>,
      IPAM: { Driver: "default", Config: [{ Subnet: subnet }] },
    });
    const occupied = occupiedBy(
      "me",
      [network("mine", "192.168.128.0/24", "me"), network("bridge", "172.17.0.0/16")],
      [
        { name: "br-1", cidr: "192.168.128.0/24" },
        { name: "docker0", cidr: "172.17.0.0/16" },
        { name: "eth0", cidr: "192.168.130.0/24" },
      ],
    );
    expect(occupied.map(({ cidr }) => cidr)).toEqual(["172.17.0.0/16", "192.168.130.0/24"]);
    expect(clash("192.168.128.0/17", occupied)?.owner).toContain("eth0");
    expect(clash("192.168.129.0/24", occupied)).toBeUndefined();
  });

  it("names a guest image by all it is made of", async () => {
    const images = await defaultImageMap();
    const tag = (slug: string, recipe: string) => {
      const plan = imagePlan(images, slug, recipe);
      return "reason" in plan ? plan.reason : plan.guest;
    };
    expect(tag("cloud/debian12", "a")).toMatch(/^backlot\/guest:debian12-[0-9a-f]{12}$/);
    expect(new Set([tag("cloud/debian12", "a"), tag("cloud/debian12", "b"), tag("cloud/debian13", "a")]).size).toBe(3);
    expect(tag("cloud/fedora43", "a")).toMatch(/cannot be had: .*dnf/);
    expect(tag("cloud/debian12-kube-v1.36.0", "a")).toMatch(/cannot be had: nobody publishes/);
    expect(tag("private/7", "a")).toMatch(/cannot be had: .*oci-images\.json/);
  });

  it("takes log frames apart and keeps the last 64 KiB from a line's beginning", () => {
    const frame = (text: string) => Buffer.concat([Buffer.from([1, 0, 0, 0, 0, 0, 0, text.length]), Buffer.from(text)]);
    expect(framesText(Buffer.concat([frame("one\n"), frame("two\n")])).toString()).toBe("one\ntwo\n");
    const long = lastPart(Buffer.from(`${"x".repeat(99)}\n`.repeat(1000)));
    expect(long.length).toBeLessThanOrEqual(65536);
    expect(long.startsWith("x".repeat(99))).toBe(true);
  });

  it("does the work of one key in turns, after a failure too", async () => {
    const inTurn = turns<string>();
    const seen: string[] = [];
    const work =
      (name: string, fails = false) =>
      async () => {
        seen.push(`${name} begins`);
        await Promise.resolve();
        seen.push(`${name} ends`);
        if (fails) throw new Error(name);
      };
    const all = await Promise.allSettled([inTurn("k", work("a", true)), inTurn("k", work("b")), inTurn("k", work("c"))]);
    expect(all.map(({ status }) => status)).toEqual(["rejected", "fulfilled", "fulfilled"]);
    expect(seen).toEqual(["a begins", "a ends", "b begins", "b ends", "c begins", "c ends"]);
  });
});
