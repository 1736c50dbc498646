import type { Worker } from "node:worker_threads";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Json, send, startCloud, type TestCloud } from "../support/cloud.js";
import { until } from "../support/until.js";
import { card, invoicedCloud } from "./account-records.js";
import {
  closeWorld,
  createBalancer,
  createConfig,
  createInstance,
  createNode,
  dial,
  events,
  eventsOf,
  fieldsOf,
  httpServer,
  instanceIn,
  isListening,
  listening,
  nodesStatus,
  occupyPort,
  placeOfListener,
  rawExchange,
  removeInstance,
  selfNaming,
} from "./world.js";

let cloud: TestCloud;
beforeAll(async () => {
  cloud = await startCloud();
});
afterAll(async () => {
  await closeWorld();
  await cloud.close();
});

const get = async (path: string): Promise<Json> => (await cloud.api.get(path)).body;

describe("the account (contract 14.1)", () => {
  it("begins empty, with the id of the state and what can be used here", async () => {
    expect(await get("/v4/account")).toMatchObject({
      address_1: "",
      email: "",
      zip: "",
      balance: 0,
      active_promotions: [],
      active_since: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$/),
      capabilities: expect.arrayContaining(["Instances", "Balancers"]),
      credit_card: { last_four: null, expiry: null },
      euuid: expect.stringMatching(/^[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}$/),
    });
  });

  it("takes changes, keeps the rest, and tells an event", async () => {
    const sent = { address_1: "1 Stage Way", country: "us", zip: "19106-1234", email: "owner@example.test", company: "Props" };
    const { status, body } = await cloud.api.put("/v4/account", sent);
    expect([status, body]).toEqual([200, expect.objectContaining({ ...sent, country: "US", city: "" })]);
    expect((await cloud.api.put("/v4/account", { city: "Camden" })).body).toMatchObject({ ...sent, country: "US", city: "Camden" });
    const whole = await get("/v4/account");
    expect((await cloud.api.put("/v4/account", whole)).body).toEqual(whole);
    expect(await eventsOf(cloud, "account", 1, { action: "account_update" })).toMatchObject([
      {},
      {},
      { status: "notification", username: "backlot", entity: { label: "Props", url: "/v4/account" } },
    ]);
  });

  it("says everything that is wrong at once", async () => {
    const { status, body } = await cloud.api.put("/v4/account", { address_1: "x".repeat(65), email: "nobody", country: "USA", zip: "a_b", phone: 5 });
    expect([status, fieldsOf(body)]).toEqual([400, ["address_1", "country", "email", "phone", "zip"]]);
    expect(selfNaming(body)).toEqual([]);
  });

  it.each([
    ["US", "1234", false],
    ["US", "123456789", true],
    ["GB", "SW1A 1AA", true],
    ["GB", "1234567890", false],
    ["GB", "12345-6789", true],
    ["", "", true],
  ])("a zip in %s: %s is %s", async (country, zip, isTaken) => {
    const { status, body } = await cloud.api.put("/v4/account", { country, zip });
    expect([status, isTaken ? [] : fieldsOf(body)]).toEqual([isTaken ? 200 : 400, isTaken ? [] : ["zip"]]);
  });
});

describe("settings (contract 14.2)", () => {
  it("are read and changed one by one, and what is not here is refused", async () => {
    expect(await get("/v4/account/settings")).toMatchObject({
      managed: false,
      longview_subscription: null,
      network_helper: true,
      backups_enabled: false,
      object_storage: "disabled",
    });
    expect((await cloud.api.put("/v4/account/settings", { network_helper: false, longview_subscription: null })).body).toMatchObject({
      network_helper: false,
      backups_enabled: false,
    });
    const refused = await cloud.api.put("/v4/account/settings", { longview_subscription: "longview-3", network_helper: true });
    expect([refused.status, fieldsOf(refused.body)]).toEqual([400, ["longview_subscription"]]);
    expect((await get("/v4/account/settings")).network_helper).toBe(false);
    expect((await cloud.api.post("/v4/account/settings/managed-enable", {})).status).toBe(400);
    expect((await eventsOf(cloud, "account", 1, { action: "account_settings_update" })).length).toBe(1);
  });

  it("maintenance_policy is what new instances have unless they say otherwise; other interfaces are refused", async () => {
    const settings = (body: object, path = "/v4/account/settings") => cloud.api.put(path, body);
    expect((await settings({ maintenance_policy: "cloud/power_off_on", interfaces_for_new_instances: "legacy_config_only" })).body).toMatchObject({
      maintenance_policy: "cloud/power_off_on",
      interfaces_for_new_instances: "legacy_config_only",
    });
    const silent = await createInstance(cloud, { booted: false });
    const asked = await createInstance(cloud, { booted: false, maintenance_policy: "cloud/migrate" });
    expect([silent, asked].map((one) => one.maintenance_policy)).toEqual(["cloud/power_off_on", "cloud/migrate"]);
    for (const wanted of ["linode_only", "anything"]) {
      const { status, body } = await settings({ interfaces_for_new_linodes: wanted, maintenance_policy: "linode/never" }, "/v4beta/account/settings");
      expect([status, fieldsOf(body)]).toEqual([400, ["interfaces_for_new_linodes", "maintenance_policy"]]);
    }
    expect((await settings({ maintenance_policy: "linode/migrate" }, "/v4beta/account/settings")).body.maintenance_policy).toBe("linode/migrate");
    expect((await get("/v4/account/settings")).maintenance_policy).toBe("cloud/migrate");
    for (const { id } of [silent, asked]) await removeInstance(cloud, id);
  });

  it("network_helper is the default of new config profiles", async () => {
    const helped = async (): Promise<boolean[]> => {
      const { id } = await createInstance(cloud, { booted: false });
      await instanceIn(cloud, id, "offline");
      const path = `/v4/cloud/instances/${id}/configs`;
      await cloud.api.post(path, { label: "second", devices: {} });
      const { data } = await get(path);
      await removeInstance(cloud, id);
      return data.map((profile: Json) => profile.helpers.network);
    };
    await cloud.api.put("/v4/account/settings", { network_helper: false });
    expect(await helped()).toEqual([false, false]);
    await cloud.api.put("/v4/account/settings", { network_helper: true });
    expect(await helped()).toEqual([true, true]);
  });

  it("backups_enabled gives new instances the backup service, unless they say otherwise", async () => {
    await cloud.api.put("/v4/account/settings", { backups_enabled: true });
    const asked = await createInstance(cloud, { booted: false, backups_enabled: false });
    const silent = await createInstance(cloud, { booted: false });
    await cloud.api.put("/v4/account/settings", { backups_enabled: false });
    expect([asked.backups.enabled, silent.backups.enabled]).toEqual([false, true]);
    for (const { id } of [asked, silent]) await removeInstance(cloud, id);
  });
});

describe("what is a record only, and what is not here", () => {
  it("agreements are noted", async () => {
    expect((await cloud.api.post("/v4/account/agreements", { eu_model: true, privacy_policy: true })).body).toEqual({});
    expect(await get("/v4/account/agreements")).toEqual({
      billing_agreement: false,
      eu_model: true,
      master_service_agreement: false,
      privacy_policy: true,
    });
  });

  it("asking for it is refused with the reason", async () => {
    for (const path of ["service-transfers", "entity-transfers", "promo-codes", "payments/paypal", "payments/paypal/execute", "cancel"]) {
      const { status, body } = await cloud.api.post(`/v4/account/${path}`, {});
      expect([status, body.errors[0].reason.length > 20], path).toEqual([400, true]);
    }
  });

  it("the price lists are served", async () => {
    expect((await get("/v4/balancers/types")).data[0]).toMatchObject({ id: "balancer", price: { hourly: 0.015, monthly: 10 } });
    expect((await get("/v4/volumes/types")).data[0]).toMatchObject({ id: "volume", price: { hourly: 0.00015, monthly: 0.1 } });
    expect((await get("/v4/network-transfer/prices")).results).toBe(2);
  });
});

describe("cards and payments (contract 14.4)", () => {
  it("of a card only kind, last four digits and expiry are kept", async () => {
    const { body: visa } = await cloud.api.post("/v4/account/payment-methods", { type: "credit_card", is_default: false, data: card });
    expect(visa).toMatchObject({ is_default: true, type: "credit_card", data: { card_type: "Visa", last_four: "1111", expiry: "12/2099" } });
    await cloud.api.post("/v4/account/credit-card", { card_number: "5555555555554444", expiry_month: 1, expiry_year: 2090 });
    const [, second] = (await get("/v4/account/payment-methods")).data;
    expect(second).toMatchObject({ is_default: true, data: { card_type: "MasterCard", last_four: "4444", expiry: "01/2090" } });
    expect((await get("/v4/account")).credit_card).toEqual({ last_four: "4444", expiry: "01/2090" });
    expect((await cloud.api.del(`/v4/account/payment-methods/${second.id}`)).status).toBe(400);
    expect((await cloud.api.post(`/v4/account/payment-methods/${visa.id}/make-default`, {})).body).toEqual({});
    expect((await cloud.api.del(`/v4/account/payment-methods/${second.id}`)).body).toEqual({});
    expect((await cloud.api.get(`/v4/account/payment-methods/${second.id}`)).status).toBe(404);
    expect((await get(`/v4/account/payment-methods/${visa.id}`)).is_default).toBe(true);
  });

  it("a number without its check digit and an expired card are refused, and never repeated", async () => {
    const { status, body } = await cloud.api.post("/v4/account/payment-methods", {
      type: "paypal",
      is_default: true,
      data: { card_number: "4111111111111112", expiry_month: 1, expiry_year: 2020 },
    });
    expect([status, fieldsOf(body)]).toEqual([400, ["data.card_number", "data.expiry_year", "type"]]);
    expect(JSON.stringify(body)).not.toContain("4111111111111112");
  });

  it.each([
    [{ usd: "4.99" }, ["usd"]],
    [{ usd: 20 }, ["usd"]],
    [{ usd: "20" }, ["usd"]],
    [{ usd: "50000.01" }, ["usd"]],
    [{ usd: "20.00", payment_method_id: 999 }, ["payment_method_id"]],
    [{}, ["usd"]],
  ])("a payment of %j is refused", async (sent, fields) => {
    const { status, body } = await cloud.api.post("/v4/account/payments", sent);
    expect([status, fieldsOf(body)]).toEqual([400, fields]);
  });

  it("a payment lowers the balance, and is listed newest first", async () => {
    const { body } = await cloud.api.post("/v4/account/payments", { usd: "$20.50" });
    expect(body).toMatchObject({ usd: 20.5, date: expect.any(String) });
    await cloud.api.post("/v4/account/payments", { usd: "5.00" });
    expect((await get("/v4/account/payments")).data.map((payment: Json) => payment.usd)).toEqual([5, 20.5]);
    expect(await get(`/v4/account/payments/${body.id}`)).toEqual(body);
    expect((await get("/v4/account")).balance).toBe(-25.5);
    expect((await events(cloud, { action: "payment_submitted" })).length).toBe(2);
  });
});

describe("invoices, in a cloud whose months take a quarter of a second", () => {
  it("say what was there, ask for it, and can be paid; the account tells what is open", async () => {
    const quick = await invoicedCloud();
    const { data } = (await quick.api.get("/v4/account/invoices")).body;
    const invoice = data.at(-1);
    const items = (await quick.api.get(`/v4/account/invoices/${invoice.id}/items`)).body.data;
    expect(items).toMatchObject([{ type: "hourly", unit_price: "0.015", region: "us-east", label: expect.stringMatching(/^Balancer - /) }]);
    expect(items[0].quantity).toBeGreaterThan(0);
    expect(items[0].quantity).toBeLessThanOrEqual(720);
    expect(items[0].amount).toBeCloseTo(Math.min(10, items[0].quantity * 0.015), 1);
    expect(invoice).toMatchObject({ total: items[0].amount, subtotal: items[0].amount, tax: 0, label: `Invoice #${invoice.id}` });
    expect((await quick.api.get(`/v4/account/invoices/${invoice.id}`)).body).toEqual(invoice);
    const owed = (await quick.api.get("/v4/account")).body.balance;
    expect(owed).toBeGreaterThanOrEqual(invoice.total);
    expect((await quick.api.post("/v4/account/cancel", {})).status).toBe(409);
    const [notice] = (await quick.api.get("/v4/account/notifications")).body.data;
    expect(notice).toMatchObject({ type: "payment_due", entity: null, when: expect.any(String), until: null });
    await quick.api.post("/v4/account/payments", { usd: "2000.00" });
    const paid = (await quick.api.get("/v4/account")).body;
    expect(paid.balance).toBeLessThan(owed - 1900);
    expect((await quick.api.get("/v4/account/notifications")).body.results).toBe(0);
    await quick.close();
  });

  it("the running month shows what everything cost so far, and what is gone stays on it", async () => {
    const before = (await get("/v4/account")).balance_uninvoiced;
    const balancer = await createBalancer(cloud);
    const { body } = await cloud.api.get("/_backlot/costs");
    const item = body.items.find((entry: Json) => entry.label.includes(balancer.label));
    expect(item).toMatchObject({ quantity: 1, amount: 0.02, unit_price: "0.015" });
    expect(body).toMatchObject({ hours_in_month: 720, billed_hours_in_a_real_one: 50 });
    await cloud.api.del(`/v4/balancers/${balancer.id}`);
    expect((await get("/v4/account")).balance_uninvoiced).toBeGreaterThanOrEqual(before + 0.02);
    expect((await send(cloud.url, "GET", "/_backlot/costs", {})).status).toBe(401);
  });
});

describe("transfer (contract 14.3)", () => {
  it("counts what a balancer's port really carried, also after it is gone, and gives each plan's part of the month", async () => {
    const instance = await createInstance(cloud, { private_ip: true });
    await instanceIn(cloud, instance.id, "running");
    await httpServer(await dial(cloud, instance.ipv4[1], 8_080), "x".repeat(200_000));
    const balancer = await createBalancer(cloud);
    const config = await createConfig(cloud, balancer.id, { port: 20_190 });
    await createNode(cloud, config, `${instance.ipv4[1]}:8080`);
    await nodesStatus(cloud, config, 1, 0);
    const place = placeOfListener(await listening(cloud, config));
    expect((await rawExchange(place, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")).length).toBeGreaterThan(200_000);
    await cloud.api.del(`/v4/balancers/${balancer.id}`);
    const carried = await until(async () => {
      const { transfer } = (await cloud.api.get("/_backlot/costs")).body;
      return transfer.find((entry: Json) => entry.type === "balancer" && entry.id === balancer.id);
    });
    expect(carried).toMatchObject({ region: "us-east", bytes_in: expect.any(Number), bytes_out: expect.any(Number) });
    expect(carried.bytes_out).toBeGreaterThan(200_000);
    expect(carried.bytes_out).toBeLessThan(210_000);
    const transfer = await get("/v4/account/transfer");
    expect(transfer).toMatchObject({ used: 0, billable: 0, region_transfers: [{ id: "br-gru" }, { id: "id-cgk" }] });
    expect(transfer.quota).toBeGreaterThan(0);
    expect(transfer.quota).toBeLessThanOrEqual(1000);
    await removeInstance(cloud, instance.id);
  });
});

describe("notifications (contract 14.6)", () => {
  const noticesOf = async (type: string, id: number): Promise<Json[]> =>
    (await get("/v4/account/notifications")).data.filter((notice: Json) => notice.entity?.type === type && notice.entity.id === id);

  it("a port that somebody else has is told, and no more once it listens", async () => {
    const balancer = await createBalancer(cloud);
    const { config, holder } = await occupyPort(cloud, balancer, 20_195);
    expect(await noticesOf("balancer_config", config.id)).toMatchObject([
      {
        severity: "major",
        type: "notice",
        body: null,
        message: expect.stringContaining("20195"),
        entity: { url: `/v4/balancers/${balancer.id}/configs/${config.id}` },
      },
    ]);
    await holder.close();
    await listening(cloud, config);
    expect(await noticesOf("balancer_config", config.id)).toEqual([]);
  });

  it("a machine that died is told with its reason, until its watchdog has it back", async () => {
    const instance = await createInstance(cloud);
    await instanceIn(cloud, instance.id, "running");
    expect(await noticesOf("instance", instance.id)).toEqual([]);
    await cloud.api.post(`/_backlot/instances/${instance.id}/kill`);
    const [told] = await until(async () => {
      const notices = await noticesOf("instance", instance.id);
      return notices.length > 0 && notices;
    });
    expect(told).toMatchObject({ label: "An instance is down", severity: "major", type: "notice" });
    expect(told.message).toBe(`${instance.label}: It stopped by itself. Its watchdog restarts it.`);
    await instanceIn(cloud, instance.id, "running");
    expect(await noticesOf("instance", instance.id)).toEqual([]);
    await removeInstance(cloud, instance.id);
  });

  it("an interruption of the balancers is told for a while, though they serve again", async () => {
    const other = await startCloud();
    // Node tells the process about every worker it starts: no door of ours is needed to end one.
    const started = new Promise<Worker>((resolve) => process.once("worker", resolve));
    const config = await createConfig(other, (await createBalancer(other)).id, { port: 20_196 });
    const place = placeOfListener(await listening(other, config));
    await (await started).terminate();
    const told = await until(async () => (await other.api.get("/v4/account/notifications")).body.data[0], { what: "the notice" });
    expect(told).toMatchObject({ severity: "major", entity: null, message: expect.stringContaining("worker thread was lost") });
    expect(Date.parse(`${told.until}Z`)).toBeGreaterThan(Date.parse(`${told.when}Z`));
    await until(() => isListening(place), { what: "the listener" });
    await other.close();
  });

  it("a boot that failed is told until the instance boots", async () => {
    const instance = await createInstance(cloud, { label: "understudy", booted: false });
    await instanceIn(cloud, instance.id, "offline");
    // Another Backlot on the same addresses, given out in the same order: one of its first machines has this one's.
    const other = await startCloud();
    let holder = await createInstance(other);
    while (holder.ipv4[0] !== instance.ipv4[0] && holder.id < 10) holder = await createInstance(other);
    expect(holder.ipv4[0]).toBe(instance.ipv4[0]);
    await instanceIn(other, holder.id, "running");
    await cloud.api.post(`/v4/cloud/instances/${instance.id}/boot`, {});
    const [notice] = await until(async () => {
      const found = await noticesOf("instance", instance.id);
      return found.length > 0 && found;
    });
    expect(notice).toMatchObject({
      severity: "major",
      message: expect.stringMatching(/^understudy: .*in use by another Backlot/),
      when: expect.any(String),
      entity: { url: `/v4/cloud/instances/${instance.id}` },
    });
    await other.close();
    await cloud.api.post(`/v4/cloud/instances/${instance.id}/boot`, {});
    await instanceIn(cloud, instance.id, "running");
    expect(await noticesOf("instance", instance.id)).toEqual([]);
    await removeInstance(cloud, instance.id);
  });
});

describe("volumes", () => {
  it("cost by the GB from the moment they are made, and carry tags", async () => {
    const { body: volume } = await cloud.api.post("/v4/volumes", { label: "props", size: 1_000, region: "us-east" });
    const lines = async (): Promise<Json[]> => {
      const { items } = (await cloud.api.get("/_backlot/costs")).body;
      return items.filter((item: Json) => item.label.includes(`props (${volume.id}`));
    };
    expect(await until(async () => (await lines())[0], { what: "the volume's line" })).toMatchObject({
      label: `Storage Volume - props (${volume.id}, 1000 GB)`,
      quantity: 1,
      unit_price: "0.15",
      amount: 0.15,
    });
    await until(async () => (await get(`/v4/volumes/${volume.id}`)).status === "active", { what: "a volume that is active" });
    await cloud.api.post(`/v4/volumes/${volume.id}/resize`, { size: 2_000 });
    expect((await lines()).map((item) => [item.label.split(", ")[1], item.amount])).toEqual([
      ["1000 GB)", 0.15],
      ["2000 GB)", 0.3],
    ]);
    expect((await cloud.api.post("/v4/tags", { label: "prop-room", volumes: [volume.id] })).status).toBe(200);
    expect((await get("/v4/tags/prop-room")).data).toMatchObject([{ type: "volume", data: { label: "props", tags: ["prop-room"] } }]);
    await until(async () => (await get(`/v4/volumes/${volume.id}`)).status === "active", { what: "a volume that is active" });
    await cloud.api.del(`/v4/volumes/${volume.id}`);
  });
});

describe("domains", () => {
  it("without any instance are worth a notice (contract 12), and carry tags", async () => {
    const other = await startCloud();
    const notices = async (): Promise<Json[]> => (await other.api.get("/v4/account/notifications")).body.data;
    const wanted = { domain: "stage.test", type: "master", soa_email: "who@stage.test" };
    const { body: domain } = await other.api.post("/v4/domains", wanted);
    expect(await notices()).toMatchObject([{ severity: "minor", label: "Domains without instances", entity: null }]);
    expect((await other.api.post("/v4/tags", { label: "names", domains: [domain.id] })).status).toBe(200);
    expect((await other.api.get("/v4/tags/names")).body.data).toMatchObject([{ type: "domain", data: { domain: "stage.test", tags: ["names"] } }]);
    const instance = await createInstance(other, { booted: false });
    expect(await notices()).toEqual([]);
    await removeInstance(other, instance.id);
    await other.close();
  });
});

describe("tags (contract 14.8)", () => {
  it("are made, given to what is named, listed with the whole thing, and taken from everything", async () => {
    const balancer = await createBalancer(cloud, { tags: ["stage-left"] });
    const instance = await createInstance(cloud, { booted: false });
    expect((await cloud.api.post("/v4/tags", { label: "stage-left", instances: [instance.id], balancers: null })).body).toEqual({
      label: "stage-left",
    });
    expect((await cloud.api.post("/v4/tags", { label: "alone" })).body).toEqual({ label: "alone" });
    expect((await get("/v4/tags")).data).toEqual(expect.arrayContaining([{ label: "alone" }, { label: "stage-left" }]));
    const { data } = await get("/v4/tags/stage-left");
    expect(data.map(({ type, data: { id, tags } }: Json) => [type, id, tags])).toEqual([
      ["instance", instance.id, ["stage-left"]],
      ["balancer", balancer.id, ["stage-left"]],
    ]);
    expect(data[1].data).toEqual(await get(`/v4/balancers/${balancer.id}`));
    expect((await get("/v4/tags/alone")).data).toEqual([]);
    expect(await eventsOf(cloud, "tag", "alone")).toMatchObject([{ action: "tag_create", entity: { url: "/v4/tags/alone" } }]);
    expect(await eventsOf(cloud, "tag", "stage-left")).toEqual([]);
    expect((await cloud.api.del("/v4/tags/stage-left")).body).toEqual({});
    expect((await get(`/v4/cloud/instances/${instance.id}`)).tags).toEqual([]);
    expect((await get(`/v4/balancers/${balancer.id}`)).tags).toEqual([]);
    expect((await eventsOf(cloud, "tag", "stage-left"))[0]).toMatchObject({ action: "tag_delete" });
    for (const path of ["/v4/tags/stage-left", "/v4/tags/never"]) expect((await cloud.api.get(path)).status).toBe(404);
    expect((await cloud.api.del("/v4/tags/stage-left")).status).toBe(404);
    await removeInstance(cloud, instance.id);
  });

  it("a label may hold what a path cannot, and a refused tag is given to nothing", async () => {
    const balancer = await createBalancer(cloud, { tags: ["a/b c?"] });
    expect((await get(`/v4/tags/${encodeURIComponent("a/b c?")}`)).data[0].data.id).toBe(balancer.id);
    const { status, body } = await cloud.api.post("/v4/tags", { label: "no", balancers: [balancer.id, 9999] });
    expect([status, fieldsOf(body)]).toEqual([400, ["balancers[1]", "label"]]);
    expect((await get(`/v4/balancers/${balancer.id}`)).tags).toEqual(["a/b c?"]);
  });
});
