import { readdirSync, readFileSync, statSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { scriptFieldsOf } from "#backlot/kernel/script-fields.js";
import { hostObstacle, processDriver } from "#backlot/runtime/process/driver.js";
import { loopbackOf, poolMap, shownOf } from "#backlot/runtime/process/loopback.js";
import { markerEnvironment, markerOf } from "#backlot/runtime/process/table.js";

describe("addresses on loopback", () => {
  it("maps the two pools there and back", () => {
    expect(loopbackOf("192.168.130.7")).toBe("127.192.130.7");
    expect(loopbackOf("198.18.0.9")).toBe("127.18.0.9");
    expect(loopbackOf("192.169.1.1")).toBeUndefined();
    expect(shownOf("127.192.130.7")).toBe("192.168.130.7");
    expect(shownOf("127.18.0.9")).toBe("198.18.0.9");
    expect(shownOf("127.0.0.1")).toBeUndefined();
  });

  it("maps nothing outside the pools it is given", () => {
    const map = poolMap(["192.168.128.0/17", "198.18.0.0/16"]);
    expect(map("192.168.128.2")).toBe("127.192.128.2");
    expect(map("192.168.1.2")).toBeUndefined();
    expect(map("198.18.3.4")).toBe("127.18.3.4");
    expect(map("nonsense")).toBeUndefined();
  });

  it.each(["10.0.0.0/8", "192.168.0.0/15", "192.168.1.0", "192.160.0.0/11"])("refuses the pool %s at the start", (pool) => {
    expect(() => poolMap([pool])).toThrow(/choose a pool/);
  });
});

describe("markers", () => {
  const marker = { owner: "o", instance: 3, fingerprint: "f", boots: 2, stateFolder: "/s", bindAddresses: ["127.192.0.1", "127.18.0.1"] };
  const environ = (entries: Record<string, string>): Buffer =>
    Buffer.from(
      Object.entries(entries)
        .map(([name, value]) => `${name}=${value}\0`)
        .join(""),
    );

  it("are read as they were written", () => {
    expect(markerOf(environ({ PATH: "/bin", ...markerEnvironment(marker) }))).toEqual({ ...marker, role: "guest" });
    expect(markerOf(environ({ BACKLOT_ROLE: "supervisor", ...markerEnvironment(marker) }))?.role).toBe("supervisor");
  });

  it.each(["BACKLOT_OWNER", "BACKLOT_INSTANCE", "BACKLOT_FINGERPRINT", "BACKLOT_BOOTS", "BACKLOT_STATE"])("are none without %s", (name) => {
    const { [name]: _, ...rest } = markerEnvironment(marker);
    expect(markerOf(environ(rest))).toBeUndefined();
  });

  it("are not taken from the middle of another variable", () => {
    expect(markerOf(environ({ NOTE: "BACKLOT_OWNER=o" }))).toBeUndefined();
  });
});

describe("the host", () => {
  it("must be Linux with /proc, and the refusal says what to do", () => {
    expect(hostObstacle("linux", true)).toBeUndefined();
    expect(hostObstacle("darwin", false)).toMatch(/darwin.*--runtime docker/);
    expect(hostObstacle("linux", false)).toMatch(/\/proc is not mounted/);
  });

  it("cannot have a pool that loopback has no twin for", () => {
    const options = { owner: "o", stateFolder: "/nowhere", privatePool: "10.0.0.0/16", publicPool: "198.18.0.0/16", allowHostScripts: false };
    expect(() => processDriver(options)).toThrow(expect.objectContaining({ kind: "startup" }));
  });
});

describe("the public scripts", () => {
  const folder = new URL("../../../fixtures/scripts/", import.meta.url);
  const records = JSON.parse(readFileSync(new URL("scripts.json", folder), "utf8")) as Array<{
    id: number;
    label: string;
    script_file: string;
  }>;

  it("are all listed once, with ids and labels of their own", () => {
    const files = readdirSync(folder).filter((name) => name !== "scripts.json");
    expect(records.map((record) => record.script_file).sort()).toEqual(files.sort());
    expect(new Set(records.map((record) => record.id)).size).toBe(records.length);
    expect(new Set(records.map((record) => record.label)).size).toBe(records.length);
  });

  it.each(records)("$label is executable, begins with a shebang and declares its fields without a fault", (record) => {
    const url = new URL(record.script_file, folder);
    const text = readFileSync(url, "utf8");
    expect(text).toMatch(/^#!\//);
    expect(statSync(url).mode & 0o111).toBeTruthy();
    expect(scriptFieldsOf(text).problems).toEqual([]);
  });
});
