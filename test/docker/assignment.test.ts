import { connect } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startCloud, type TestCloud } from "../support/cloud.js";
import { containerOf, describeDocker, docker, run } from "../support/docker.js";
import { until } from "../support/until.js";

describeDocker("addresses assigned between containers (contract 10)", () => {
  let cloud: TestCloud;
  let owner: string;
  beforeAll(async () => {
    cloud = await startCloud({ runtime: "docker", speed: 50 });
    owner = (await cloud.api.get("/_backlot/health")).body.owner;
  });
  afterAll(async () => {
    const { data } = (await cloud.api.get("/v4/cloud/instances")).body as { data: Array<{ id: number }> };
    for (const { id } of data) await cloud.api.del(`/v4/cloud/instances/${id}`);
    await until(async () => (await cloud.api.get("/v4/cloud/instances")).body.results === 0, { withinMs: 30_000, what: "no instance" });
    const left = await docker.listContainers({ all: true, filters: { label: [`io.backlot.owner=${owner}`] } });
    await cloud.close();
    expect(left).toEqual([]);
  });

  const create = async (): Promise<number> => {
    const body = { region: "us-east", type: "g6-nanode-1", image: "cloud/debian12", root_pass: "Correct-horse-1" };
    const made = await cloud.api.post("/v4/cloud/instances", body);
    await until(async () => (await cloud.api.get(`/v4/cloud/instances/${made.body.id}`)).body.status === "running", { withinMs: 60_000 });
    return made.body.id;
  };
  const shown = async (id: number): Promise<string[]> => (await cloud.api.get(`/v4/cloud/instances/${id}`)).body.ipv4;
  /** Every address of the guest's own interfaces, asked of the kernel inside. */
  const inside = async (id: number): Promise<string[]> => {
    const container = await containerOf(owner, id);
    if (!container) return [];
    const { text } = await run(container, ["sh", "-c", "ip -o -4 addr show scope global | awk '{print $4}' | cut -d/ -f1"]);
    return text.split("\n").filter(Boolean).sort();
  };
  const settled = (id: number) =>
    until(async () => JSON.stringify(await inside(id)) === JSON.stringify((await shown(id)).toSorted()), {
      withinMs: 40_000,
      what: `instance ${id} with exactly the addresses that the API shows`,
    });
  const greets = (address: string): Promise<boolean> =>
    new Promise((resolve) => {
      const socket = connect({ host: address, port: 22, timeout: 2_000 });
      socket.once("data", (bytes) => {
        socket.destroy();
        resolve(bytes.toString().startsWith("SSH-2"));
      });
      for (const end of ["error", "timeout"]) socket.once(end, () => resolve(!socket.destroy()));
    });
  const started = async (id: number) => (await (await containerOf(owner, id))?.inspect())?.State.StartedAt;

  test("really move, back and forth, extra and main, without a restart of either", async () => {
    const [first, second] = await Promise.all([create(), create()]);
    const before = await Promise.all([started(first), started(second)]);
    const { address: spare } = (await cloud.api.post(`/v4/cloud/instances/${first}/ips`, { type: "ipv4", public: true })).body;
    await settled(first);
    const assign = async (assignments: object[]) => {
      expect((await cloud.api.post("/v4/networking/ips/assign", { region: "us-east", assignments })).status).toBe(200);
      await settled(first);
      await settled(second);
    };
    await assign([{ address: spare, cloud_id: second }]);
    expect(await inside(second)).toContain(spare);
    expect(await greets(spare)).toBe(true);
    // The main ones change sides: each must let go before the engine gives it to the other.
    const [[mine], [theirs]] = await Promise.all([shown(first), shown(second)]);
    await assign([
      { address: mine ?? "", cloud_id: second },
      { address: theirs ?? "", cloud_id: first },
    ]);
    expect(await inside(first)).toContain(theirs);
    expect(await greets(mine ?? "")).toBe(true);
    expect(await greets(theirs ?? "")).toBe(true);
    // What was an extra becomes the engine's own, and stays.
    const [main] = await shown(second);
    await cloud.api.del(`/v4/cloud/instances/${second}/ips/${main}`);
    await settled(second);
    expect(await greets(spare)).toBe(true);
    expect(await greets(main ?? "")).toBe(false);
    expect(await Promise.all([started(first), started(second)])).toEqual(before);
  });
});
