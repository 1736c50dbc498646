import { describe, expect, it } from "vitest";
import { engineFindings, noEngineFinding } from "#backlot/doctor/engine.js";
import { clockFindings } from "#backlot/doctor/machine.js";
import { networkFindings } from "#backlot/doctor/networks.js";
import { versionFindings } from "#backlot/doctor/versions.js";

// What this machine cannot be brought to; what it can is in test/e2e/doctor.test.ts.

describe("what the doctor concludes", () => {
  it.each([
    ["v20.18.3", "problem"],
    ["v20.19.0", "good"],
    ["v18.20.0", "problem"],
    ["v22.1.0", "good"],
  ])("of Node.js %s: %s", (node, level) => {
    expect(versionFindings(node, "0.1.0", "linux")).toMatchObject([{ check: "versions", level }]);
  });

  it.each([
    ["1.41", "good"],
    ["1.40", "problem"],
    ["2.0", "good"],
  ])("of an engine that speaks API %s: %s", (apiVersion, level) => {
    const facts = { version: "20.10", apiVersion, elsewhere: undefined };
    expect(engineFindings(facts)).toMatchObject([{ check: "engine", level }]);
  });

  it.each([
    ["tls", ["good", "good"]],
    ["tcp", ["good", "good", "note"]],
    ["ssh", ["good", "problem"]],
  ] as const)("of an engine on another machine, over %s: %s", (by, levels) => {
    const findings = engineFindings({ version: "20.10", apiVersion: "1.41", elsewhere: { host: "engine.lan", by } });
    expect(findings.map(({ level }) => level)).toEqual(levels);
    for (const { level, remedy } of findings) expect(remedy === undefined).toBe(level === "good");
  });

  it.each([
    ["connect EACCES /var/run/docker.sock", undefined, /usermod -aG docker/],
    ["nothing answered within 1500 ms", undefined, /restart docker/],
    ["connect ENOENT /var/run/docker.sock", undefined, /ensure-engine\.sh/],
    ["connect ECONNREFUSED 10.0.0.1:2375", "tcp://10.0.0.1:2375", /unset DOCKER_HOST/],
  ])("of no engine (%s, DOCKER_HOST %s)", (reason, host, remedy) => {
    expect(noEngineFinding(reason, "auto", host)).toMatchObject({ level: "note", remedy: expect.stringMatching(remedy) });
    expect(noEngineFinding(reason, "docker", host)).toMatchObject({ level: "problem", remedy: expect.stringMatching(remedy) });
  });

  it("of clocks: before this Backlot was made, apart from the engine's a little, and a lot", () => {
    const made = Date.UTC(2026, 0, 1);
    const now = made + 1_000_000;
    expect(clockFindings(0, made, undefined)).toMatchObject([{ level: "problem", text: expect.stringContaining("1970") }]);
    expect(clockFindings(now, made, undefined)).toMatchObject([{ level: "good" }]);
    expect(clockFindings(now, made, now + 1_500)).toMatchObject([{ level: "good" }]);
    expect(clockFindings(now, made, now - 30_000)).toMatchObject([{ level: "note", text: expect.stringContaining("30 s behind") }]);
    expect(clockFindings(now, made, now + 90_000)).toMatchObject([{ level: "problem", text: expect.stringContaining("90 s ahead") }]);
  });

  it("of pools: a pool that a stranger has, one that a Backlot that is no more has, and no room for public addresses", () => {
    const stranger = { cidr: "192.168.0.0/16", owner: 'Docker network "lab" (not Backlot\'s)' };
    const lab = { name: "lab", cidr: stranger.cidr, owner: undefined, stateFolder: undefined };
    expect(networkFindings("192.168.128.0/17", { networks: [lab], occupied: [stranger] }, new Set(), "")).toMatchObject([
      { level: "problem", remedy: "docker network rm lab" },
    ]);
    const half = { ...stranger, cidr: "192.168.128.0/20" };
    expect(networkFindings("192.168.128.0/20", { networks: [], occupied: [half] }, new Set(), "")).toMatchObject([
      { level: "problem", remedy: "backlot start --private-pool 192.168.240.0/20" },
    ]);
    const other = { name: "backlot-x-us-east", cidr: "192.168.128.0/26", owner: "x", stateFolder: "/gone" };
    const occupied = [{ cidr: other.cidr, owner: 'Docker network "backlot-x-us-east" of the Backlot with owner id x (state folder /gone)' }];
    expect(networkFindings("192.168.128.0/17", { networks: [other], occupied }, new Set(["x"]), "")).toMatchObject([
      { level: "note", remedy: "backlot clean" },
    ]);
    const full = [{ cidr: "198.18.0.0/15", owner: "network interface eth1 of this machine" }];
    expect(networkFindings("192.168.128.0/17", { networks: [], occupied: full }, new Set(), "")).toMatchObject([
      { level: "problem", text: expect.stringContaining("198.18.0.0/16"), remedy: "backlot clean" },
    ]);
  });
});
