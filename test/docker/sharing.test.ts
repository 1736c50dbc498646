import { afterAll, beforeAll, expect, test } from "vitest";
import { type Json, startCloud, type TestCloud } from "../support/cloud.js";
import { containerOf, describeDocker, docker, run } from "../support/docker.js";
import { until } from "../support/until.js";

describeDocker("an address that two machines share (contract 10.3)", () => {
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

  /** One that serves its own number on port 8000 (the public script "Hello API"). */
  const create = async (): Promise<Json> => {
    const body = { region: "us-east", type: "g6-nanode-1", image: "cloud/debian12", root_pass: "Correct-horse-1", script_id: 2 };
    const { id } = (await cloud.api.post("/v4/cloud/instances", body)).body;
    const isRunning = async () => {
      const { body: shown } = await cloud.api.get(`/v4/cloud/instances/${id}`);
      return shown.status === "running" && shown;
    };
    return until(isRunning, { withinMs: 60_000 });
  };
  const answers = (address: string, id: number) =>
    until(
      async () => {
        const answer = (await (await fetch(`http://${address}:8000/x`, { signal: AbortSignal.timeout(1_000) })).json()) as Json;
        return answer.instance.id === id;
      },
      { withinMs: 30_000, what: `${address} answered by instance ${id}` },
    );
  /** Every address of a guest's own interfaces, asked of the kernel inside. */
  const inside = async (id: number): Promise<string[]> => {
    const container = await containerOf(owner, id);
    if (!container) return [];
    const { text } = await run(container, ["sh", "-c", "ip -o -4 addr show scope global | awk '{print $4}' | cut -d/ -f1"]);
    return text.split("\n").filter(Boolean);
  };
  /** What a machine of the same network reaches at an address, with what its kernel remembers of its neighbours. */
  const seenFrom = async (id: number, address: string): Promise<number> => {
    const container = await containerOf(owner, id);
    const { text } = container ? await run(container, ["curl", "-s", "-m", "2", `http://${address}:8000/x`]) : { text: "" };
    return JSON.parse(text).instance.id;
  };

  test("is up in one of them at a time, seen from here and from a third machine, and comes back to its holder", async () => {
    const [holder, other, third] = await Promise.all([create(), create(), create()]);
    const [address] = holder.ipv4;
    await cloud.api.post("/v4/networking/ips/share", { cloud_id: other.id, ips: [address] });
    await answers(address, holder.id);
    expect(await seenFrom(third.id, address)).toBe(holder.id);
    expect(await inside(other.id)).not.toContain(address);

    await cloud.api.post(`/v4/cloud/instances/${holder.id}/shutdown`);
    await until(async () => (await inside(other.id)).includes(address), { withinMs: 30_000, what: "the shared address in the other machine" });
    // Both knew the holder's hardware address, and were told of the other's.
    await answers(address, other.id);
    expect(await seenFrom(third.id, address)).toBe(other.id);

    await until(async () => (await cloud.api.post(`/v4/cloud/instances/${holder.id}/boot`)).status === 200, { what: "the holder booted" });
    await answers(address, holder.id);
    expect(await inside(other.id)).not.toContain(address);
    expect(await inside(holder.id)).toContain(address);
    expect(await seenFrom(third.id, address)).toBe(holder.id);
    await answers(other.ipv4[0], other.id);

    await (await containerOf(owner, holder.id))?.kill({ signal: "SIGKILL" });
    await answers(address, other.id);
    // The watchdog restarts it, two simulated minutes after its death.
    await answers(address, holder.id);
    expect(await inside(other.id)).not.toContain(address);
  }, 120_000);

  test("one that cannot be made to let go of it keeps its holder from nothing: the boot says so, and it lets go when it can", async () => {
    const [holder, other] = await Promise.all([create(), create()]);
    const [address] = holder.ipv4;
    await cloud.api.post("/v4/networking/ips/share", { cloud_id: other.id, ips: [address] });
    await cloud.api.post(`/v4/cloud/instances/${holder.id}/shutdown`);
    await until(async () => (await inside(other.id)).includes(address), { withinMs: 30_000, what: "the shared address in the other machine" });

    // Its name is a stranger's now, so that whatever is asked of it fails.
    const box = await containerOf(owner, other.id);
    const { Name, Image } = (await box?.inspect()) ?? { Name: "", Image: "" };
    await box?.rename({ name: `${Name.slice(1)}-renamed` });
    const stranger = await docker.createContainer({ name: Name.slice(1), Image });
    try {
      await until(async () => (await cloud.api.post(`/v4/cloud/instances/${holder.id}/boot`)).status === 200, { what: "the holder booted" });
      const booted = await until(
        async () => {
          const { data } = (await cloud.api.get("/v4/account/events")).body;
          const [last] = data.filter(({ action, entity }: Json) => action === "instance_boot" && entity.id === holder.id);
          return ["finished", "failed"].includes(last?.status) && last;
        },
        { withinMs: 30_000, what: "the end of the boot" },
      );
      expect(booted.status).toBe("finished");
      expect(booted.message).toMatch(new RegExp(`^${other.label} may still answer at an address they share.*${Name.slice(1)}`));
      expect((await cloud.api.get(`/v4/cloud/instances/${holder.id}`)).body.status).toBe("running");
      expect(await inside(holder.id)).toContain(address);
    } finally {
      await stranger.remove({ force: true });
    }
    await until(async () => !(await inside(other.id)).includes(address), { withinMs: 60_000, what: "the end of it in the other machine" });
    await answers(address, holder.id);
  }, 120_000);
});
