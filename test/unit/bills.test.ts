import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, it } from "vitest";
import { carriedSince } from "#backlot/reconcile/balancer-transfer.js";
import { openInstanceMeter } from "#backlot/reconcile/instance-meter.js";
import { diskNotice } from "#backlot/reconcile/surroundings.js";
import { itemsBetween, sumOf } from "#backlot/resources/billing/bill.js";
import { type BilledTime, billedTime, hourMs, type Moment, monthMs } from "#backlot/resources/billing/billed-time.js";
import { balanceCents, billedSoFar, billingRow, closeMonths, openBilling, uninvoiced } from "#backlot/resources/billing/invoice.js";
import { metered } from "#backlot/resources/billing/metering.js";
import { centsOf } from "#backlot/resources/billing/payment.js";
import type { UsageRow } from "#backlot/resources/billing/usage.js";
import { readCatalogue } from "#backlot/resources/catalogue/catalogue.js";
import { type Cloud, type CloudStore, type Kinds, kinds, observe, type Tx } from "#backlot/resources/cloud.js";
import { migrations, schemaVersion } from "#backlot/resources/migrations.js";
import { openNotices } from "#backlot/resources/notifications/notices.js";
import { accountTransfer, addTransfer, carriedThisMonth, transferOf } from "#backlot/resources/transfer/transfer.js";
import { openStore } from "#backlot/store/open-store.js";

const catalogue = readCatalogue(fileURLToPath(new URL("../../fixtures", import.meta.url)));
const start = Date.UTC(2026, 10, 21, 10);
const at = (hours: number): Moment => ({ ms: start + hours * hourMs, billedMs: hours * hourMs });

const used = (from: number, to: number | null, more: Partial<UsageRow> = {}): UsageRow => ({
  id: 1,
  kind: "instance",
  entityId: 7,
  label: "web",
  region: "us-east",
  product: "instance",
  plan: "g6-nanode-1",
  quantity: 1,
  fromMs: at(from).ms,
  fromBilledMs: at(from).billedMs,
  toMs: to === null ? null : at(to).ms,
  toBilledMs: to === null ? null : at(to).billedMs,
  ...more,
});
const bill = (rows: UsageRow[], from = at(0), to = at(720)) => itemsBetween(rows, from, to, catalogue);

describe("what a bill says", () => {
  it("an hour begun is an hour, at the hourly price", () => {
    expect(bill([used(3, 3.01)])).toMatchObject([{ hours: 1, hourlyUsd: 0.0075, cents: 1, label: "Nanode 1GB - web (7)", region: "us-east" }]);
    expect(bill([used(3, 5)])).toMatchObject([{ hours: 2, cents: 2, fromMs: at(3).ms, toMs: at(5).ms }]);
    expect(bill([used(3, 5.001)])).toMatchObject([{ hours: 3 }]);
    expect(bill([used(3, 3)])).toMatchObject([{ hours: 1 }]);
  });

  it("a whole month costs the monthly price and no more", () => {
    expect(bill([used(0, null)])).toMatchObject([{ hours: 720, cents: 500 }]);
    expect(bill([used(0, 600)])).toMatchObject([{ hours: 600, cents: 450 }]);
  });

  it("the region's own price is used, for backups too", () => {
    expect(bill([used(0, null, { region: "br-gru" })])).toMatchObject([{ cents: 700 }]);
    expect(bill([used(0, null, { region: "id-cgk", product: "backups" })])).toMatchObject([{ cents: 240 }]);
    expect(bill([used(0, null, { product: "backups" })])).toMatchObject([{ cents: 200 }]);
  });

  it("a balancer and a volume by the GB", () => {
    expect(bill([used(0, 100, { kind: "balancer", product: "balancer", plan: "balancer" })])).toMatchObject([
      { cents: 150, label: "Balancer - web (7)" },
    ]);
    const volume = { product: "volume" as const, plan: "volume", quantity: 20 };
    expect(bill([used(0, 100, volume)])).toMatchObject([{ cents: 30, label: "Storage Volume - web (7, 20 GB)" }]);
    expect(bill([used(0, null, volume)])).toMatchObject([{ cents: 200 }]);
  });

  it("an hour that crosses the month's end is billed once", () => {
    const rows = [used(718.5, 721.5)];
    expect(bill(rows)).toMatchObject([{ hours: 2, toMs: at(720).ms }]);
    expect(bill(rows, at(720), at(1440))).toMatchObject([{ hours: 1, fromMs: at(720).ms, toMs: at(721.5).ms }]);
    expect(bill([used(719.9, 720.1)], at(720), at(1440))).toEqual([]);
    expect(bill([used(10, 20)], at(720), at(1440))).toEqual([]);
    expect(bill([used(730, 740)])).toEqual([]);
  });

  it("one line for what came and went, under one cap", () => {
    const onAndOff = [used(0, 400, { product: "backups", id: 1 }), used(401, 720, { product: "backups", id: 2 })];
    expect(bill(onAndOff)).toMatchObject([{ hours: 719, cents: 200, fromMs: at(0).ms, toMs: at(720).ms }]);
  });

  it("a resize is two lines", () => {
    const items = bill([used(0, 10, { id: 1 }), used(10, null, { id: 2, plan: "g6-standard-1" })]);
    expect(items.map(({ hours, cents }) => [hours, cents])).toEqual([
      [10, 8],
      [710, 1200],
    ]);
    expect(sumOf(items)).toBe(1208);
  });

  it("what is not sold any more costs nothing", () => {
    expect(bill([used(0, null, { plan: "gone" })])).toEqual([]);
  });
});

const clockAt = (nowMs: () => number, speed = 1) => ({
  now: nowMs,
  monotonic: nowMs,
  simulated: (ms: number) => ms / speed,
  sleep: () => Promise.resolve(),
});

describe("billed time", () => {
  it("passes as fast as --speed says, and at most ten million times", () => {
    let now = 5_000;
    const quick = billedTime(
      clockAt(() => now, 10),
      70,
    );
    const mad = billedTime(
      clockAt(() => now, 1e12),
      0,
    );
    now += 1_000;
    expect(quick.now()).toEqual({ ms: 6_000, billedMs: 10_070 });
    expect(mad.now().billedMs).toBe(1_000 * 10_000_000);
  });
});

const folders: string[] = [];
const stores: CloudStore[] = [];
afterEach(async () => {
  for (const store of stores.splice(0)) await store.close();
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

/** A real store with a meter, under a clock that the test moves. */
const ledger = async (folder = mkdtempSync(join(tmpdir(), "backlot-bills-")), startMs = start) => {
  folders.push(folder);
  let nowMs = startMs;
  const opened = await openStore<Kinds>({ folder: join(folder, "state"), kinds, schemaVersion, migrations, onProblem: () => undefined });
  stores.push(opened);
  const clock = clockAt(() => nowMs);
  const billed: BilledTime = billedTime(clock, billedSoFar(opened));
  const store = metered(opened, billed);
  const cloud = { store, billed, catalogue, clock };
  await openBilling(cloud);
  return {
    cloud,
    store,
    folder,
    bypass: opened,
    pass: (hours: number) => {
      nowMs += hours * hourMs;
    },
    close: () => store.commit((tx) => closeMonths(tx, cloud)),
  };
};

const balancer = {
  label: "front",
  region: "us-east",
  clientConnThrottle: 0,
  clientUdpSessThrottle: 0,
  ipv4: "127.0.0.1",
  tags: [],
  createdMs: start,
  updatedMs: start,
};
const instance = { label: "web", region: "us-east", type: "g6-nanode-1", backupsEnabled: false } as unknown as Omit<Kinds["instance"], "id">;
const open = (store: CloudStore) => store.list("usage").filter((row) => row.toMs === null);

describe("the meter", () => {
  it("a commit that makes, changes or removes leaves usage, and a refused one none", async () => {
    const { store, pass } = await ledger();
    const { id } = await store.commit((tx) => tx.insert("instance", instance));
    expect(open(store)).toMatchObject([{ kind: "instance", entityId: id, plan: "g6-nanode-1", fromMs: start, fromBilledMs: 0 }]);
    pass(2);
    await store.commit((tx) => tx.update("instance", id, { type: "g6-standard-1", backupsEnabled: true, label: "renamed" }));
    expect(store.list("usage")).toMatchObject([
      { plan: "g6-nanode-1", label: "web", toMs: start + 2 * hourMs, toBilledMs: 2 * hourMs },
      { plan: "g6-standard-1", product: "instance", label: "renamed", fromBilledMs: 2 * hourMs, toMs: null },
      { plan: "g6-standard-1", product: "backups", toMs: null },
    ]);
    pass(1);
    await store.commit((tx) => tx.update("instance", id, { label: "again" }));
    expect(open(store).map((row) => [row.label, row.fromBilledMs])).toEqual([
      ["again", 2 * hourMs],
      ["again", 2 * hourMs],
    ]);
    await expect(
      store.commit((tx) => {
        tx.remove("instance", id);
        throw new Error("refused");
      }),
    ).rejects.toThrow("refused");
    expect(open(store)).toHaveLength(2);
    await store.commit((tx) => tx.remove("instance", id));
    expect(open(store)).toEqual([]);
  });

  it("two changes of one commit leave what the commit made, no more", async () => {
    const { store } = await ledger();
    await store.commit((tx: Tx) => {
      const made = tx.insert("balancer", balancer);
      tx.update("balancer", made.id, { label: "later" });
      tx.remove("balancer", tx.insert("balancer", balancer).id);
    });
    expect(store.list("usage").map((row) => [row.label, row.toMs])).toEqual([["later", null]]);
  });

  it("commits of one write see each other's usage, and one that is refused leaves nothing to find", async () => {
    const { store } = await ledger();
    const made = store.commit((tx) => tx.insert("balancer", balancer));
    const renamed = store.commit((tx) => tx.update("balancer", 1, { label: "later" }));
    const removed = store.commit((tx) => tx.remove("balancer", 1));
    await Promise.all([made, renamed, removed]);
    expect(store.list("usage")).toMatchObject([{ entityId: 1, label: "later", toMs: start }]);
    const refused = store.commit((tx) => {
      tx.insert("balancer", balancer);
      tx.insert("instance", instance);
      throw new Error("refused");
    });
    await expect(refused).rejects.toThrow("refused");
    await store.commit((tx) => tx.insert("instance", instance));
    await store.commit((tx) => tx.insert("balancer", balancer));
    await store.commit((tx) => tx.remove("instance", 1));
    expect(open(store).map((row) => [row.kind, row.entityId])).toEqual([["balancer", 2]]);
  });

  it("survives a restart: time goes on where it was, and what nobody metered is caught up with", async () => {
    const first = await ledger();
    await first.store.commit((tx) => tx.insert("balancer", balancer));
    first.pass(5);
    await first.close();
    await first.bypass.commit((tx) => tx.insert("instance", { ...instance, backupsEnabled: true }));
    await first.bypass.commit((tx) => tx.remove("balancer", 1));
    await first.store.close();
    const again = await ledger(first.folder, start + 100 * hourMs);
    expect(again.cloud.billed.now().billedMs).toBe(5 * hourMs);
    expect(open(again.store).map((row) => [row.product, row.fromBilledMs])).toEqual([
      ["instance", 5 * hourMs],
      ["backups", 5 * hourMs],
    ]);
    expect(again.store.list("usage")[0]).toMatchObject({ product: "balancer", toBilledMs: 5 * hourMs });
    again.pass(2);
    await again.store.commit((tx) => tx.remove("instance", 1));
    await again.store.close();
    const third = await ledger(first.folder, start + 100 * hourMs);
    expect(third.store.list("usage")).toHaveLength(3);
    expect(third.cloud.billed.now().billedMs).toBe(7 * hourMs);
  });
});

describe("billing months", () => {
  it("each that ended has one invoice, the running one stands apart, and usage that is billed goes", async () => {
    const { store, cloud, pass, close } = await ledger();
    await store.commit((tx) => tx.insert("balancer", balancer));
    pass(10);
    expect(uninvoiced(cloud)).toMatchObject([{ hours: 10, cents: 15 }]);
    await store.commit((tx) => tx.insert("instance", instance));
    pass(1);
    await store.commit((tx) => tx.remove("instance", 1));
    await close();
    expect(store.list("invoice")).toEqual([]);
    pass(monthMs / hourMs);
    await close();
    await close();
    expect(store.list("invoice")).toMatchObject([{ totalCents: 1001, issuedMs: start + monthMs, items: [{ hours: 720 }, { hours: 1 }] }]);
    expect(balanceCents(store)).toBe(1001);
    expect(uninvoiced(cloud)).toMatchObject([{ hours: 11, cents: 17 }]);
    expect(store.list("usage")).toMatchObject([{ product: "balancer" }]);
    expect(billingRow(store)).toMatchObject({ sinceMs: start, month: { ms: start + monthMs, billedMs: monthMs } });
    await store.commit((tx) => tx.insert("payment", { paidMs: start, cents: 1001 }));
    expect(balanceCents(store)).toBe(0);
  });

  it("several at once have one each, and empty ones none", async () => {
    const { store, pass, close } = await ledger();
    pass(720 * 3);
    await close();
    expect(store.list("invoice")).toEqual([]);
    await store.commit((tx) => tx.insert("balancer", balancer));
    pass(720 * 2 + 1);
    await close();
    expect(store.list("invoice").map((row) => [row.totalCents, row.issuedMs])).toEqual([
      [1000, start + 4 * monthMs],
      [1000, start + 5 * monthMs],
    ]);
  });
});

describe("payments", () => {
  it.each([
    ["5.00", 500],
    ["$5.00", 500],
    ["0.10", 10],
    ["10", undefined],
    ["10.0", undefined],
    ["-5.00", undefined],
    ["1e3.00", undefined],
    ["$ 5.00", undefined],
    ["5.001", undefined],
  ])("%s is %s cents (contract 14.4)", (text, cents) => expect(centsOf(text)).toBe(cents));
});

describe("transfer", () => {
  it("quota is by the part of the calendar month, use is what went out, and dear regions have their own pool", async () => {
    const { store, cloud, pass } = await ledger(undefined, Date.UTC(2026, 10, 16));
    await store.commit((tx) => {
      tx.insert("instance", instance);
      tx.insert("instance", { ...instance, type: "g6-standard-1", region: "br-gru" });
    });
    expect(accountTransfer(cloud)).toEqual({
      used: 0,
      quota: 500,
      billable: 0,
      regionTransfers: [
        { id: "br-gru", used: 0, quota: 1000, billable: 0 },
        { id: "id-cgk", used: 0, quota: 0, billable: 0 },
      ],
    });
    const carrier = { kind: "instance" as const, entityId: 1, region: "us-east" };
    await store.commit((tx) => {
      addTransfer(tx, cloud.clock.now(), carrier, { bytesIn: 9e12, bytesOut: 3e11 });
      addTransfer(tx, cloud.clock.now(), carrier, { bytesIn: 1, bytesOut: 3e11 + 5 });
      addTransfer(tx, cloud.clock.now(), { ...carrier, kind: "balancer", region: "br-gru" }, { bytesIn: 0, bytesOut: 2e9 });
      addTransfer(tx, cloud.clock.now(), { ...carrier, entityId: 9 }, { bytesIn: 0, bytesOut: 0 });
    });
    expect(store.list("transferMonth")).toHaveLength(2);
    expect(transferOf(store, "2026-11", carrier)).toEqual({ bytesIn: 9e12 + 1, bytesOut: 6e11 + 5, bytesTotal: 96e11 + 6 });
    expect(accountTransfer(cloud)).toMatchObject({ used: 600, quota: 500, billable: 100, regionTransfers: [{ used: 2 }, { used: 0 }] });
    pass(24 * 15);
    expect(accountTransfer(cloud)).toMatchObject({ used: 0, quota: 1000 });
    expect(transferOf(store, "2026-12", carrier).bytesTotal).toBe(0);
  });

  it("what instances sent is in the account's figures once, over restarts of ours and of theirs, moves and readings at the same time", async () => {
    const first = await ledger();
    const { id } = await first.store.commit((tx) => tx.insert("instance", instance));
    const sent = { since: "one", out: 0, late: Promise.resolve() };
    const driver = {
      counters: async () => {
        const { since, out, late } = sent;
        await late;
        return { since, cpuMs: 0, ioBytes: 0, network: { public: { in: 0, out }, private: { in: 9e9, out: 9e9 } } };
      },
    };
    const meterOf = ({ cloud, store }: Awaited<ReturnType<typeof ledger>>) => {
      observe(store, "instance", id, { running: true, boots: 1, problem: null });
      // Asleep until it is closed: readings are asked for here.
      const clock = {
        ...cloud.clock,
        sleep: (_: number, signal?: AbortSignal) => new Promise<void>((go) => signal?.addEventListener("abort", () => go())),
      };
      return openInstanceMeter({
        cloud: { ...cloud, clock } as unknown as Cloud,
        driver,
        onFailure: (_, error) => {
          throw error;
        },
      });
    };
    const meter = meterOf(first);
    await meter.measure(id);
    let release = (): void => {};
    sent.late = new Promise((go) => {
      release = go;
    });
    sent.out = 2e9;
    const asked = () => new Promise((go) => setImmediate(go));
    const slow = meter.measure(id);
    await asked();
    Object.assign(sent, { out: 3e9, late: Promise.resolve() });
    const quick = meter.measure(id);
    await asked();
    release();
    await Promise.all([slow, quick]);
    await first.store.commit((tx) => addTransfer(tx, start, { kind: "balancer", entityId: id, region: "us-east" }, { bytesIn: 0, bytesOut: 1e9 }));
    expect(accountTransfer(first.cloud)).toMatchObject({ used: 4, regionTransfers: [{ used: 0 }, { used: 0 }] });
    sent.out = 5e9;
    await meter.close();
    expect(accountTransfer(first.cloud).used).toBe(6);
    await first.store.close();
    stores.splice(stores.indexOf(first.bypass), 1);

    const again = await ledger(first.folder);
    const anew = meterOf(again);
    await anew.measure(id);
    expect(accountTransfer(again.cloud).used).toBe(6);
    Object.assign(sent, { since: "two", out: 2e9 });
    await anew.measure(id);
    expect(accountTransfer(again.cloud).used).toBe(8);
    await again.store.commit((tx) => tx.update("instance", id, { region: "br-gru" }));
    sent.out = 3e9;
    await anew.measure(id);
    expect(accountTransfer(again.cloud)).toMatchObject({ used: 8, regionTransfers: [{ id: "br-gru", used: 1 }, { used: 0 }] });
    expect(transferOf(again.store, "2026-11", { kind: "instance", entityId: id }).bytesOut).toBe(8e9);
    await again.store.commit((tx) => tx.remove("instance", id));
    await anew.close();
    expect(again.store.list("meter")).toEqual([]);
    expect(carriedThisMonth(again.cloud).map(({ kind, region, bytesOut }) => [kind, region, bytesOut])).toEqual([
      ["instance", "us-east", 7e9],
      ["balancer", "us-east", 1e9],
      ["instance", "br-gru", 1e9],
    ]);
  });

  it("a counter that began anew counts from nothing", () => {
    expect(carriedSince(undefined, { bytesIn: 4, bytesOut: 5 })).toEqual({ bytesIn: 4, bytesOut: 5 });
    expect(carriedSince({ bytesIn: 1, bytesOut: 2 }, { bytesIn: 4, bytesOut: 5 })).toEqual({ bytesIn: 3, bytesOut: 3 });
    expect(carriedSince({ bytesIn: 9, bytesOut: 9 }, { bytesIn: 4, bytesOut: 5 })).toEqual({ bytesIn: 4, bytesOut: 5 });
  });
});

describe("notices", () => {
  it("keep the time they were first told, are taken back, and end when they are old news", () => {
    let nowMs = 1_000;
    const notices = openNotices(() => nowMs);
    const said = { label: "a", message: "b", type: "notice", severity: "minor", entity: null } as const;
    notices.note("one", said);
    notices.note("two", { ...said, untilMs: 3_000 });
    nowMs = 2_000;
    notices.note("one", { ...said, message: "c" });
    expect(notices.list()).toEqual([
      { ...said, message: "c", sinceMs: 1_000 },
      { ...said, sinceMs: 1_000, untilMs: 3_000 },
    ]);
    nowMs = 3_000;
    expect(notices.list()).toHaveLength(1);
    notices.note("one", undefined);
    expect(notices.list()).toEqual([]);
  });
});

describe("the disk", () => {
  it("is worth a notice below half a GiB", () => {
    expect(diskNotice(512 * 1024 ** 2, "/x")).toBeUndefined();
    expect(diskNotice(100 * 1024 ** 2, "/x")).toMatchObject({ severity: "major", message: expect.stringContaining("100 MiB are free") });
    expect(diskNotice(1024, "/x")).toMatchObject({ severity: "critical" });
  });
});
