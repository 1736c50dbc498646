import { describe, expect, it } from "vitest";
import { carriedSince, pointBetween } from "#backlot/reconcile/instance-meter.js";
import { countersOf, publicDevices } from "#backlot/runtime/docker/counters.js";
import type { MachineCounters } from "#backlot/runtime/driver.js";

const counters = (since: string, publicIn: number, publicOut: number, more: Partial<MachineCounters> = {}): MachineCounters => ({
  since,
  cpuMs: 0,
  ioBytes: 0,
  network: { public: { in: publicIn, out: publicOut }, private: { in: 7, out: 7 } },
  ...more,
});

describe("bytes by month", () => {
  const stand = { since: "a", bytesIn: 100, bytesOut: 50 };
  it.each([
    ["nothing was read before: all of it", undefined, counters("a", 10, 20), { bytesIn: 10, bytesOut: 20 }],
    ["the same start: what was added", stand, counters("a", 130, 50), { bytesIn: 30, bytesOut: 0 }],
    ["another start: all of the new counters", stand, counters("b", 5, 60), { bytesIn: 5, bytesOut: 60 }],
    ["a counter that went back began anew, and the other with it", stand, counters("a", 90, 60), { bytesIn: 90, bytesOut: 60 }],
    ["a runtime that does not count adds nothing", stand, counters("a", 0, 0, { network: null }), { bytesIn: 0, bytesOut: 0 }],
  ])("%s", (_what, meter, now, expected) => {
    expect(carriedSince(meter, now)).toEqual(expected);
  });
});

describe("points of a graph", () => {
  it("are averages: percent of a CPU, blocks and bits a second", () => {
    const before = { atMs: 10_000, counters: counters("a", 1_000, 0, { cpuMs: 500, ioBytes: 0 }) };
    const now = { atMs: 12_000, counters: counters("a", 3_000, 500, { cpuMs: 1_500, ioBytes: 81_920 }) };
    expect(pointBetween(before, now)).toEqual({ atMs: 12_000, cpu: 50, io: 10, network: { in: 8_000, out: 2_000, privateIn: 0, privateOut: 0 } });
    expect(pointBetween(before, { ...now, counters: counters("b", 3_000, 500) })).toBeUndefined();
    expect(pointBetween(now, now)).toBeUndefined();
  });

  it("have no network where the runtime counts none, and never go below nothing", () => {
    const point = pointBetween(
      { atMs: 0, counters: counters("a", 0, 0, { cpuMs: 50, network: null }) },
      { atMs: 1_000, counters: counters("a", 0, 0, { cpuMs: 10, network: null }) },
    );
    expect(point).toEqual({ atMs: 1_000, cpu: 0, io: 0, network: null });
  });
});

describe("the engine's counters", () => {
  // As /proc/net/route of a guest reads: 198.18.4.0 and 192.168.128.0, lowest byte first.
  const routes = "Iface\tDestination\tGateway \neth1\t00000000\t010412C6\t0003\neth1\t000412C6\t00000000\t0001\neth0\t0080A8C0\t00000000\t0001\n";
  const pool = { base: 0xc6120000, prefix: 16, size: 65_536 };

  it("know the public device by its route", () => {
    expect(publicDevices(routes, pool)).toEqual(["eth1"]);
  });

  it("are sorted by network, and reads and writes are added up", () => {
    const stats = {
      cpu_stats: { cpu_usage: { total_usage: 2_500_000 } },
      blkio_stats: {
        io_service_bytes_recursive: [
          { op: "Read", value: 1 },
          { op: "Write", value: 2 },
          { op: "Total", value: 3 },
        ],
      },
      networks: { eth0: { rx_bytes: 1, tx_bytes: 2 }, eth1: { rx_bytes: 10, tx_bytes: 20 } },
    };
    expect(countersOf(stats, "now", (device) => device === "eth1")).toEqual({
      since: "now",
      cpuMs: 2.5,
      ioBytes: 3,
      network: { public: { in: 10, out: 20 }, private: { in: 1, out: 2 } },
    });
    // A container that ended meanwhile: no networks are told, and none is not zero bytes.
    expect(countersOf({}, "now", () => true)).toMatchObject({ cpuMs: 0, ioBytes: 0, network: null });
  });
});
