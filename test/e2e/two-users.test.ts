import { chownSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { type OwnProcess, started } from "../soak/own-process.js";
import { commandLineGround, type Json } from "../support/cloud.js";
import { until } from "../support/until.js";

const wanted = { region: "us-east", type: "g6-nanode-1", image: "cloud/debian12", root_pass: "Correct-horse-1", private_ip: true };

const create = async ({ api }: OwnProcess): Promise<Json> => {
  const { status, body } = await api.post("/v4/cloud/instances", wanted);
  expect(status, JSON.stringify(body)).toBe(200);
  return body;
};
const reaches = ({ api }: OwnProcess, { id }: Json, status: string): Promise<unknown> =>
  until(async () => (await api.get(`/v4/cloud/instances/${id}`)).body.status === status, { withinMs: 30_000, what: `instance ${id} ${status}` });

// Root may look at everybody's processes, so it takes two others.
test.runIf(process.getuid?.() === 0)(
  "clouds of two users of one machine do not share an address, though neither may look at the other's processes",
  async () => {
    const ground = await commandLineGround();
    const open: OwnProcess[] = [];
    const folders = [65_533, 65_534].map((uid) => {
      const folder = mkdtempSync(join(tmpdir(), "backlot-two-users-"));
      chownSync(folder, uid, uid);
      return { uid, folder };
    });
    onTestFinished(async () => {
      for (const backlot of open) {
        for (const { id } of (await backlot.api.get("/v4/cloud/instances")).body.data) await backlot.api.del(`/v4/cloud/instances/${id}`);
        await until(async () => (await backlot.api.get("/v4/cloud/instances")).body.results === 0, { withinMs: 30_000, what: "no instance" });
        await backlot.stop();
      }
      for (const { folder } of folders) rmSync(folder, { recursive: true, force: true });
    });
    const start = async (index: number): Promise<OwnProcess> => {
      const { uid, folder } = folders[index] as { uid: number; folder: string };
      const words = ["--runtime", "process", "--private-pool", ground.privatePool, "--balancer-addresses", ground.balancerAddresses];
      const before = ["setpriv", `--reuid=${uid}`, `--regid=${uid}`, "--clear-groups"];
      const backlot = await started([...words, "--dns-port", "off", "--state", folder], { before });
      open.push(backlot);
      return backlot;
    };
    const [one, other] = [await start(0), await start(1)];
    const mine = await create(one);
    await reaches(one, mine, "running");
    await one.api.post(`/v4/cloud/instances/${mine.id}/shutdown`);
    await reaches(one, mine, "offline");
    const theirs = await create(other);
    expect(theirs.ipv4[1]).toBe(mine.ipv4[1]);
    await reaches(other, theirs, "running");

    await one.api.post(`/v4/cloud/instances/${mine.id}/boot`);
    const failed = await until(async () => {
      const { data } = (await one.api.get("/v4/account/events")).body;
      return data.find(({ action, status }: Json) => action === "instance_boot" && status === "failed");
    });
    expect(failed.message).toContain(`in use by another Backlot (state ${folders[1]?.folder}, its instance ${theirs.id}, process`);
    await reaches(one, mine, "offline");

    await one.stop();
    open.shift();
    const again = await start(0);
    expect([mine.ipv4[1], theirs.ipv4[1]]).not.toContain((await create(again)).ipv4[1]);
  },
);
