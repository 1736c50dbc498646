import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { kinds } from "#backlot/resources/cloud.js";
import { migrations, schemaVersion } from "#backlot/resources/migrations.js";
import { mountableVolumes, type VolumeRow } from "#backlot/resources/volumes/volume.js";
import { openStore } from "#backlot/store/open-store.js";

test("a boot finds the volumes attached for it and for all, and not those of a boot that is over, on their way out, or not made", async () => {
  const folder = await mkdtemp(join(tmpdir(), "backlot-volumes-"));
  const store = await openStore({ folder, kinds, schemaVersion, migrations, onProblem: () => undefined });
  const row = (label: string, more: Partial<VolumeRow> = {}): Omit<VolumeRow, "id"> => ({
    label,
    region: "us-east",
    sizeGb: 10,
    tags: [],
    createdMs: 0,
    updatedMs: 0,
    encryption: "disabled",
    copyOf: null,
    made: true,
    instanceId: 1,
    configId: null,
    forBoot: null,
    jobs: [],
    ...more,
  });
  try {
    await store.commit((tx) => {
      tx.insert("volume", row("always"));
      tx.insert("volume", row("this", { forBoot: 3 }));
      tx.insert("volume", row("before", { forBoot: 2 }));
      tx.insert("volume", row("leaving", { jobs: [{ verb: "detach", eventId: 1 }] }));
      tx.insert("volume", row("unmade", { made: false }));
      tx.insert("volume", row("elsewhere", { instanceId: 2 }));
    });
    expect(mountableVolumes(store, { id: 1, boots: 3 })).toEqual([
      { volume: 1, label: "always" },
      { volume: 2, label: "this" },
    ]);
  } finally {
    await store.close();
    await rm(folder, { recursive: true, force: true });
  }
});
