import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { kinds } from "#backlot/resources/cloud.js";
import { openStore } from "#backlot/store/open-store.js";
import { type Json, startCloud } from "../support/cloud.js";
import { instanceIn } from "./world.js";

/** An instance as version 1 of the state kept it: the deployment in its own row, and no disks. */
const oldRow = {
  label: "veteran",
  region: "us-east",
  type: "g6-nanode-1",
  image: "cloud/debian12",
  group: "",
  tags: [],
  createdMs: 1_700_000_000_000,
  updatedMs: 1_700_000_000_000,
  power: "off",
  boots: 1,
  job: null,
  rootPassHash: "$6$salt$hash",
  authorizedKeys: [],
  script: null,
  scriptReported: false,
  watchdogEnabled: true,
  backupsEnabled: false,
  backupsSchedule: { day: null, window: null },
  alerts: { cpu: 90, networkIn: 10, networkOut: 10, transferQuota: 80, io: 10_000 },
  hostUuid: "0".repeat(40),
};

it("instances of a state of version 1 get their disks, and their machines keep their files", async () => {
  const state = mkdtempSync(join(tmpdir(), "backlot-api-"));
  const store = await openStore({ folder: state, kinds, schemaVersion: 1, migrations: {}, onProblem: () => undefined });
  await store.commit((tx: Json) => {
    tx.insert("instance", oldRow);
    tx.insert("instance", { ...oldRow, label: "bare", image: null, rootPassHash: null });
  });
  const { owner } = store;
  await store.close();
  const fingerprint = createHash("sha256")
    .update(JSON.stringify([oldRow.image, oldRow.type, oldRow.rootPassHash, oldRow.authorizedKeys, null, null]))
    .digest("hex")
    .slice(0, 32);
  const machine = join(state, "machines", "1");
  for (const folder of ["services", "root"]) mkdirSync(join(machine, folder), { recursive: true });
  writeFileSync(join(machine, "root", "mark"), "from version 1");
  writeFileSync(join(machine, "machine.json"), JSON.stringify({ owner, fingerprint, boots: 1, script: false }));

  const cloud = await startCloud({ state });
  try {
    const list = async (id: number, what: string): Promise<Json[]> => (await cloud.api.get(`/v4/cloud/instances/${id}/${what}`)).body.data;
    expect((await list(1, "disks")).map(({ label, size }) => [label, size])).toEqual([
      ["Debian 12 Disk", 25_088],
      ["512 MB Swap Image", 512],
    ]);
    expect([await list(2, "disks"), await list(2, "configs")]).toEqual([[], []]);
    expect((await cloud.api.post("/v4/cloud/instances/1/boot", {})).status).toBe(200);
    await instanceIn(cloud, 1, "running");
    expect(readFileSync(join(machine, "root", "mark"), "utf8")).toBe("from version 1");
    expect(JSON.stringify((await cloud.api.get("/v4/cloud/instances/1")).body)).not.toContain("hash");
  } finally {
    await cloud.close();
  }
});
