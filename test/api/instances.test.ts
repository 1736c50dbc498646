import { readdirSync, readFileSync } from "node:fs";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { type Json, startCloud, type TestCloud } from "../support/cloud.js";
import { until } from "../support/until.js";
import {
  closeWorld,
  configPath,
  createBalancer,
  createConfig,
  createInstance,
  createNode,
  dial,
  eventsOf,
  fieldsOf,
  freshLabel,
  instanceIn,
  isListening,
  nodesStatus,
  rawExchange,
  removeInstance,
  selfNaming,
} from "./world.js";

let cloud: TestCloud;
beforeAll(async () => {
  cloud = await startCloud();
});
afterEach(closeWorld);
afterAll(() => cloud.close());

const path = (instance: Json, action = "") => `/v4/cloud/instances/${instance.id}${action}`;
const real = async (instance: Json): Promise<Json> => (await cloud.api.get(`/_backlot/instances/${instance.id}`)).body;

/** The process table's own word. */
const isAlive = (pid: number): boolean => {
  try {
    return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
};
const processesOf = async (instance: Json): Promise<number[]> => {
  const { owner } = (await cloud.api.get("/_backlot/health")).body;
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        const environ = readFileSync(`/proc/${pid}/environ`, "latin1").split("\0");
        return environ.includes(`BACKLOT_OWNER=${owner}`) && environ.includes(`BACKLOT_INSTANCE=${instance.id}`) && isAlive(pid);
      } catch {
        return false;
      }
    });
};
const actions = async (instance: Json): Promise<string[]> =>
  (await eventsOf(cloud, "instance", instance.id)).map((event) => `${event.action} ${event.status}`).reverse();

const type = async (id: string): Promise<Json> => (await cloud.api.get(`/v4/cloud/types/${id}`)).body;

describe("creating (description 2.4, contract 9.1)", () => {
  it("without booting: the whole record, no process, no secret", async () => {
    const label = freshLabel("whole");
    const plan = await type("g6-standard-2");
    const { status, body } = await cloud.api.post("/v4/cloud/instances", {
      label,
      region: "us-east",
      type: "g6-standard-2",
      image: "cloud/debian12",
      root_pass: "Curtain-7-Call",
      authorized_keys: ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFXqK someone"],
      booted: false,
      private_ip: true,
      backups_enabled: true,
      group: "old",
      tags: ["front", "test"],
      watchdog_enabled: false,
      alerts: { cpu: 50, network_in: null },
      backups: { schedule: { day: "Monday", window: "W4" } },
    });
    expect(status).toBe(200);
    expect(body).toEqual({
      id: expect.any(Number),
      label,
      region: "us-east",
      image: "cloud/debian12",
      type: "g6-standard-2",
      group: "old",
      tags: ["front", "test"],
      status: "provisioning",
      hypervisor: "kvm",
      created: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$/),
      updated: body.created,
      ipv4: [expect.stringMatching(/^198\.18\./), expect.stringMatching(/^192\.168\./)],
      ipv6: null,
      specs: { disk: plan.disk, memory: plan.memory, vcpus: plan.vcpus, gpus: 0, transfer: plan.transfer, accelerated_devices: 0 },
      alerts: { cpu: 50, network_in: 10, network_out: 10, transfer_quota: 80, io: 10_000 },
      backups: { enabled: true, available: false, schedule: { day: "Monday", window: "W4" }, last_successful: null },
      watchdog_enabled: false,
      host_uuid: expect.stringMatching(/^[0-9a-f]{40}$/),
      has_user_data: false,
      site_type: "core",
      placement_group: null,
      disk_encryption: "disabled",
      lke_cluster_id: null,
      capabilities: [],
      interface_generation: "legacy_config",
      maintenance_policy: null,
      locks: [],
    });
    const offline = await instanceIn(cloud, body.id, "offline");
    expect(offline).toEqual({ ...body, status: "offline" });
    expect((await cloud.api.get("/v4/cloud/instances")).body.data).toContainEqual(offline);
    expect(await processesOf(body)).toEqual([]);
    expect(await eventsOf(cloud, "instance", body.id)).toMatchObject([
      { action: "instance_addip", message: body.ipv4[1] },
      { action: "instance_create", status: "finished", username: "backlot", secondary_entity: { id: "cloud/debian12", type: "image" } },
    ]);
    expect(JSON.stringify([offline, await eventsOf(cloud, "instance", body.id), await real(body)])).not.toMatch(/Curtain|\$6\$|AAAAC3/);
    await removeInstance(cloud, body.id);
  });

  it("with the least: an instance without an image is offline and cannot boot", async () => {
    const { body } = await cloud.api.post("/v4/cloud/instances", { region: "us-east", type: "g5-standard-1" });
    expect(body).toMatchObject({ label: `instance${body.id}`, image: null, tags: [], group: "", watchdog_enabled: true });
    expect(body.alerts.cpu).toBe(90 * body.specs.vcpus);
    await instanceIn(cloud, body.id, "offline");
    const { status, body: refused } = await cloud.api.post(path(body, "/boot"), {});
    expect([status, refused.errors.length]).toEqual([400, 1]);
    expect(refused.errors[0].reason).toMatch(/bootable config/);
    expect(await processesOf(body)).toEqual([]);
    await removeInstance(cloud, body.id);
  });

  it.each([
    [{}, ["region", "type"]],
    [{ region: "nowhere", type: "g9" }, ["region", "type"]],
    [{ region: 1, type: null }, ["region", "type"]],
    [{ region: "us-east", type: "g6-nanode-1", image: "cloud/none" }, ["image", "root_pass"]],
    [{ region: "us-east", type: "g6-nanode-1", image: "cloud/debian12" }, ["root_pass"]],
    [{ region: "us-east", type: "g6-nanode-1", image: "cloud/debian12", root_pass: "aB3$" }, ["root_pass"]],
    [{ region: "us-east", type: "g6-nanode-1", image: "cloud/debian12", root_pass: "onlylowercase" }, ["root_pass"]],
    [{ region: "us-east", type: "g6-nanode-1", image: "cloud/debian12", root_pass: `aB3$${"x".repeat(125)}` }, ["root_pass"]],
    [{ region: "us-east", type: "g6-nanode-1", booted: true }, ["booted"]],
    [{ region: "us-east", type: "g6-nanode-1", booted: "no" }, ["booted"]],
    [{ region: "us-east", type: "g6-nanode-1", script_id: 1 }, ["script_id"]],
    [{ region: "us-east", type: "g6-nanode-1", image: "cloud/debian12", root_pass: "Curtain-7-Call", script_id: 99 }, ["script_id"]],
    [
      { region: "us-east", type: "g6-nanode-1", image: "cloud/debian12", root_pass: "Curtain-7-Call", script_id: 1, script_data: { Greeting: 5 } },
      ["script_data.Greeting"],
    ],
    [{ region: "us-east", type: "g6-nanode-1", authorized_keys: ["not a key"] }, ["authorized_keys[0]"]],
    [{ region: "us-east", type: "g6-nanode-1", label: "ab" }, ["label"]],
    [{ region: "us-east", type: "g6-nanode-1", label: "-abc" }, ["label"]],
    [{ region: "us-east", type: "g6-nanode-1", label: "ab--cd" }, ["label"]],
    [{ region: "us-east", type: "g6-nanode-1", label: "a".repeat(65) }, ["label"]],
    [{ region: "us-east", type: "g6-nanode-1", tags: ["ab"], group: "g".repeat(51) }, ["group", "tags[0]"]],
    [{ region: "us-east", type: "g6-nanode-1", alerts: { cpu: 4801, io: -1 } }, ["alerts.cpu", "alerts.io"]],
    [
      { region: "us-east", type: "g6-nanode-1", backups: { schedule: { day: "Moonday", window: "W1" } } },
      ["backups.schedule.day", "backups.schedule.window"],
    ],
    [
      { region: "nowhere", type: "g9", image: "cloud/none", label: "x", root_pass: "short", script_id: 99, tags: "x" },
      ["image", "label", "region", "root_pass", "script_id", "tags", "type"],
    ],
  ])("%j is refused on %j, all at once", async (sent, fields) => {
    const before = (await cloud.api.get("/_backlot/health")).body.counts;
    const { status, body } = await cloud.api.post("/v4/cloud/instances", sent);
    expect([status, [...new Set(fieldsOf(body))]]).toEqual([400, fields]);
    expect(selfNaming(body)).toEqual([]);
    expect(JSON.stringify(body)).not.toContain("onlylowercase");
    expect((await cloud.api.get("/_backlot/health")).body.counts).toEqual(before);
  });

  it("a label is unique, at creation and at an update", async () => {
    const first = await createInstance(cloud, { booted: false });
    const second = await createInstance(cloud, { booted: false });
    expect(fieldsOf((await cloud.api.post("/v4/cloud/instances", { region: "us-east", type: "g9", label: first.label })).body)).toEqual([
      "label",
      "type",
    ]);
    expect(fieldsOf((await cloud.api.put(path(second), { label: first.label })).body)).toEqual(["label"]);
    await removeInstance(cloud, first.id);
    expect((await cloud.api.put(path(second), { label: first.label })).body.label).toBe(first.label);
    await removeInstance(cloud, second.id);
  });
});

describe("updating", () => {
  it("changes what is sent, keeps the rest, ignores what is not ours to change", async () => {
    const made = await instanceIn(cloud, (await createInstance(cloud, { booted: false })).id, "offline");
    const expected = { ...made };
    for (const [name, value] of Object.entries({ label: freshLabel("renamed"), group: "g", tags: ["one", "two"], watchdog_enabled: false })) {
      const { status, body } = await cloud.api.put(path(made), {
        [name]: value,
        region: "eu-west",
        type: "g6-standard-8",
        status: "running",
        ipv4: [],
      });
      expect(status).toBe(200);
      expected[name] = value;
      expect(body).toEqual({ ...expected, updated: expect.any(String) });
    }
    const alerts = await cloud.api.put(path(made), { alerts: { io: 0 }, backups: { schedule: { window: "W22" } } });
    expect(alerts.body.alerts).toEqual({ ...made.alerts, io: 0 });
    expect(alerts.body.backups.schedule).toEqual({ day: null, window: "W22" });
    const back = await cloud.api.put(path(made), alerts.body);
    expect(back.status).toBe(200);
    expect(back.body).toEqual({ ...alerts.body, updated: expect.any(String) });
    expect((await eventsOf(cloud, "instance", made.id, { action: "instance_update" })).length).toBe(6);
    await removeInstance(cloud, made.id);
  });

  it.each(["get", "put", "del", "boot", "shutdown", "reboot"] as const)("an unknown id is not found (%s)", async (verb) => {
    const target = "/v4/cloud/instances/999";
    const answer =
      verb === "get" || verb === "del"
        ? await cloud.api[verb](target)
        : verb === "put"
          ? await cloud.api.put(target, {})
          : await cloud.api.post(`${target}/${verb}`, {});
    expect([answer.status, answer.body]).toEqual([404, { errors: [{ reason: "Not found" }] }]);
  });
});

describe("power (contract 9.3, 9.4)", () => {
  it("boot, reboot, shutdown: states, what is legal when, events, and the process table", async () => {
    const made = await createInstance(cloud, { booted: false });
    await instanceIn(cloud, made.id, "offline");
    for (const verb of ["shutdown", "reboot"]) {
      const { status, body } = await cloud.api.post(path(made, `/${verb}`), {});
      expect([status, body.errors[0].field]).toEqual([400, undefined]);
      expect(body.errors[0].reason).toMatch(/offline/);
    }

    const boot = await cloud.api.post(path(made, "/boot"), {});
    expect([boot.status, boot.body]).toEqual([200, {}]);
    const running = await instanceIn(cloud, made.id, "running");
    const { pid, running: really } = await real(made);
    expect(really).toBe(true);
    expect(isAlive(pid)).toBe(true);
    expect(await processesOf(made)).toContain(pid);
    const twice = await cloud.api.post(path(made, "/boot"), {});
    expect(twice.status).toBe(400);
    expect(twice.body.errors[0].reason).toMatch(/already running/);
    expect((await real(made)).pid).toBe(pid);

    expect((await cloud.api.post(path(made, "/reboot"), {})).body).toEqual({});
    await until(async () => (await real(made)).pid !== pid && (await cloud.api.get(path(made))).body.status === "running");
    expect(isAlive(pid)).toBe(false);
    const again = (await real(made)).pid;
    expect(isAlive(again)).toBe(true);
    expect((await cloud.api.get(path(made))).body).toEqual({ ...running, updated: expect.any(String) });

    expect((await cloud.api.post(path(made, "/shutdown"), {})).body).toEqual({});
    await instanceIn(cloud, made.id, "offline");
    expect(isAlive(again)).toBe(false);
    expect(await processesOf(made)).toEqual([]);
    expect(await actions(made)).toEqual([
      "instance_create finished",
      "instance_boot finished",
      "instance_reboot finished",
      "instance_shutdown finished",
    ]);
    await removeInstance(cloud, made.id);
  });

  it("an instance with a job under way is busy, and its status says which", async () => {
    const made = await createInstance(cloud);
    // The answer of the create leaves before its boot is done, so these three come while it has a job.
    const answers = await Promise.all(["boot", "reboot", "shutdown"].map((verb) => cloud.api.post(path(made, `/${verb}`), {})));
    for (const { status, body } of answers) expect([status, body]).toEqual([400, { errors: [{ reason: "Instance busy." }] }]);
    const status = (await cloud.api.get(path(made))).body.status;
    expect(["provisioning", "booting", "running"]).toContain(status);
    await instanceIn(cloud, made.id, "running");
    expect(await actions(made)).toEqual(["instance_create finished", "instance_boot finished"]);
    await removeInstance(cloud, made.id);
  });

  it("booting right after an unbooted creation is never in the way (description 4.3)", async () => {
    const made = await createInstance(cloud, { booted: false });
    const { status } = await cloud.api.post(path(made, "/boot"), {});
    expect(status).toBe(200);
    await instanceIn(cloud, made.id, "running");
    expect(await actions(made)).toEqual(["instance_create finished", "instance_boot finished"]);
    await removeInstance(cloud, made.id);
  });
});

describe("deploy scripts", () => {
  it("Hello web serves on the private and the public address, and comes back after a reboot", async () => {
    const made = await createInstance(cloud, { private_ip: true, script_id: 1, script_data: { greeting: "Good evening", other: "ignored" } });
    await instanceIn(cloud, made.id, "running");
    const ask = async (address: string) => rawExchange(await dial(cloud, address, 8000), "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    for (const address of made.ipv4) {
      const page = await until(() => ask(address), { what: `a page at ${address}` });
      expect(page).toContain(`Good evening from ${made.label}`);
      expect(page).toContain(`instance=${made.label} id=${made.id} address=${made.ipv4[1]} public=${made.ipv4[0]}`);
    }
    const told = await until(async () => (await eventsOf(cloud, "instance", made.id, { action: "script_deploy" }))[0]);
    expect(told).toMatchObject({ status: "finished", message: "", secondary_entity: { id: 1, label: "Hello web", type: "script" } });
    expect(await real(made)).toMatchObject({ script: { exit_code: 0 }, boot_log: expect.stringContaining("hello web: installed"), running: true });
    await cloud.api.post(path(made, "/reboot"), {});
    await until(async () => (await actions(made)).includes("instance_reboot finished"));
    expect(await until(() => ask(made.ipv4[1]), { what: "the page after the reboot" })).toContain("Good evening");
    expect(await eventsOf(cloud, "instance", made.id, { action: "script_deploy" })).toHaveLength(1);
    const place = await dial(cloud, made.ipv4[1], 8000);
    await removeInstance(cloud, made.id);
    expect(await isListening(place)).toBe(false);
  });

  it("a script that fails leaves the instance running, with its last lines in a failed event", async () => {
    const made = await createInstance(cloud, { script_id: 3 });
    const failed = await until(async () => (await eventsOf(cloud, "instance", made.id, { action: "script_deploy" }))[0]);
    expect(failed).toMatchObject({ status: "failed", percent_complete: 100, secondary_entity: { id: 3 } });
    expect(failed.message).toMatch(/exit status 3/);
    expect(failed.message).toContain("Step 2 of 2: gave up. Nothing was installed.");
    const running = await instanceIn(cloud, made.id, "running");
    expect(isAlive((await real(running)).pid)).toBe(true);
    expect(await real(made)).toMatchObject({ script: { exit_code: 3 } });
    await removeInstance(cloud, made.id);
  });
});

describe("the watchdog", () => {
  it("restarts what died by itself and says so", async () => {
    const made = await createInstance(cloud);
    await instanceIn(cloud, made.id, "running");
    const { pid } = await real(made);
    expect((await cloud.api.post(`/_backlot/instances/${made.id}/kill`, {})).body).toEqual({});
    expect(isAlive(pid)).toBe(false);
    await instanceIn(cloud, made.id, "offline");
    await instanceIn(cloud, made.id, "running");
    const after = await real(made);
    expect(after.pid).not.toBe(pid);
    expect(isAlive(after.pid)).toBe(true);
    expect(await eventsOf(cloud, "instance", made.id, { action: "lassie_reboot" })).toMatchObject([{ status: "finished", username: null }]);
    await removeInstance(cloud, made.id);
  });

  it("turned off, leaves it offline, and a boot brings it back", async () => {
    const made = await createInstance(cloud, { watchdog_enabled: false });
    await instanceIn(cloud, made.id, "running");
    process.kill((await real(made)).pid, "SIGKILL");
    await instanceIn(cloud, made.id, "offline");
    const told = await until(async () => (await eventsOf(cloud, "instance", made.id, { action: "instance_shutdown" }))[0]);
    expect(told).toMatchObject({ status: "notification", username: null, message: expect.stringMatching(/by itself/) });
    expect(await processesOf(made)).toEqual([]);
    expect((await cloud.api.post(path(made, "/boot"), {})).status).toBe(200);
    await instanceIn(cloud, made.id, "running");
    expect(await eventsOf(cloud, "instance", made.id, { action: "lassie_reboot" })).toEqual([]);
    await removeInstance(cloud, made.id);
  });
});

describe("deleting", () => {
  it("ends the processes, frees the addresses, and the nodes that pointed there go down", async () => {
    const made = await createInstance(cloud, { private_ip: true, script_id: 1 });
    const balancer = await createBalancer(cloud);
    const config = await createConfig(cloud, balancer.id, { check: "connection", check_interval: 2, check_timeout: 1 });
    await createNode(cloud, config, `${made.ipv4[1]}:8000`);
    await nodesStatus(cloud, config, 1, 0);
    const { pid } = await real(made);
    const { status, body } = await cloud.api.del(path(made));
    expect([status, body]).toEqual([200, {}]);
    const during = await cloud.api.get(path(made));
    if (during.status === 200) expect(during.body.status).toBe("deleting");
    await until(async () => (await cloud.api.get(path(made))).status === 404);
    expect(isAlive(pid)).toBe(false);
    expect(await processesOf(made)).toEqual([]);
    for (const address of made.ipv4) expect((await cloud.api.get(`/v4/networking/ips/${address}`)).status).toBe(404);
    expect((await cloud.api.get(path(made, "/ips"))).status).toBe(404);
    expect((await cloud.api.get(`/_backlot/instances/${made.id}`)).status).toBe(404);
    expect((await cloud.api.post(`/_backlot/instances/${made.id}/kill`, {})).status).toBe(404);
    await nodesStatus(cloud, config, 0, 1);
    expect((await cloud.api.get(configPath(config))).status).toBe(200);
    expect(await actions(made)).toContain("instance_delete finished");
    // A node still names the private one: whoever got it would get that balancer's traffic.
    const careful = await createInstance(cloud, { private_ip: true, booted: false });
    expect(careful.ipv4[0]).toBe(made.ipv4[0]);
    expect(careful.ipv4[1]).not.toBe(made.ipv4[1]);
    await removeInstance(cloud, careful.id);
    await cloud.api.del(`/v4/balancers/${balancer.id}`);
    const next = await createInstance(cloud, { private_ip: true, booted: false });
    expect(next.ipv4).toEqual(made.ipv4);
    expect(next.id).toBeGreaterThan(made.id);
    await removeInstance(cloud, next.id);
  });

  it("asked while it boots, deletes all the same", async () => {
    const made = await createInstance(cloud);
    expect((await cloud.api.del(path(made))).status).toBe(200);
    await until(async () => (await cloud.api.get(path(made))).status === 404);
    expect(await processesOf(made)).toEqual([]);
  });
});
