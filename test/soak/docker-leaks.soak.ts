import { expect, test } from "vitest";
import { type Api, apiOf, testConfig } from "../support/cloud.js";
import { describeDocker } from "../support/docker.js";
import { until } from "../support/until.js";
import { figuresOf, settledMeasure } from "./leaks.js";
import { openLibrary } from "./library.js";

const warmUp = 10;
const rounds = 60;

const allRunning = (api: Api): Promise<unknown> =>
  until(async () => (await api.get("/v4/cloud/instances")).body.data.every(({ status }: { status: string }) => status === "running"), {
    withinMs: 60_000,
    what: "running instances",
  });
const noneLeft = (api: Api, path: string): Promise<unknown> =>
  until(async () => (await api.get(path)).body.results === 0, { withinMs: 60_000, what: `nothing at ${path}` });

/** Two machines and a volume are made, attached, one machine is rebooted, and all are deleted. */
const round = async (api: Api, index: number): Promise<void> => {
  const create = async (label: string): Promise<number> => {
    const wanted = { label, region: "us-east", type: "g6-nanode-1", image: "cloud/debian12", root_pass: "Curtain-7-Call", private_ip: true };
    return (await api.post("/v4/cloud/instances", wanted)).body.id;
  };
  const [one, other] = await Promise.all([create(`soak-${index}-one`), create(`soak-${index}-other`)]);
  const { body: volume } = await api.post("/v4/volumes", { label: `soak-${index}`, size: 10, region: "us-east" });
  await allRunning(api);
  await Promise.all([api.post(`/v4/volumes/${volume.id}/attach`, { instance_id: one }), api.post(`/v4/cloud/instances/${other}/reboot`, {})]);
  await until(async () => (await api.get(`/v4/volumes/${volume.id}`)).body.status === "active", { withinMs: 60_000, what: "an active volume" });
  await allRunning(api);
  await Promise.all([one, other].map((id) => api.del(`/v4/cloud/instances/${id}`)));
  await noneLeft(api, "/v4/cloud/instances");
  await until(async () => (await api.del(`/v4/volumes/${volume.id}`)).status !== 400, { withinMs: 60_000, what: "a volume that can go" });
  await noneLeft(api, "/v4/volumes");
};

describeDocker("machines and volumes that come and go on the engine", () => {
  test("leave memory, descriptors and sockets as they were", async () => {
    const library = await openLibrary(await testConfig({ runtime: "docker", dnsPort: "off", speed: 20 }));
    const api = apiOf(library.url, library.token);
    const measured = [];
    try {
      for (let index = 0; index < warmUp + rounds; index += 1) {
        await round(api, index);
        if (index >= warmUp - 1) measured.push(figuresOf(await settledMeasure(library)));
      }
    } finally {
      const left = (await api.get("/v4/cloud/instances")).body.data;
      await Promise.all(left.map(({ id }: { id: number }) => api.del(`/v4/cloud/instances/${id}`)));
      await noneLeft(api, "/v4/cloud/instances");
      await library.close();
    }
    const [first, last] = [measured[0], measured.at(-1)];
    if (!first || !last) throw new Error("nothing was measured");
    console.log(JSON.stringify({ rounds, first, last }));
    expect(last.rss).toBeLessThanOrEqual(first.rss * 1.1);
    // Connections to the engine are kept for a while: what leaks is more after every round, never again as few as in the first two.
    for (const what of ["descriptors", "sockets", "timers"] as const) {
      const counts = measured.map((each) => each[what]);
      expect(Math.min(...counts.slice(2)), what).toBeLessThanOrEqual(Math.max(...counts.slice(0, 2)));
    }
  });
});
