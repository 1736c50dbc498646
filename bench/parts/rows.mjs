// Rows as the API would have made them, written through the store itself.
import { addressesOf } from "../../dist/resources/addresses/address.js";
import { kinds } from "../../dist/resources/cloud.js";
import { migrations, schemaVersion } from "../../dist/resources/migrations.js";
import { openStore } from "../../dist/store/open-store.js";

const instanceRow = (n) => ({
  label: `web-${n}`,
  region: "us-east",
  type: "g6-nanode-1",
  image: "cloud/debian12",
  group: "",
  tags: ["bench", `rack-${n % 40}`],
  createdMs: 1_600_000_000_000 + n,
  updatedMs: 1_600_000_000_000 + n,
  power: "off",
  boots: 0,
  job: null,
  rootPassHash: null,
  authorizedKeys: [],
  script: null,
  scriptReported: false,
  watchdogEnabled: true,
  backupsEnabled: false,
  backupsSchedule: { day: null, window: null },
  alerts: { cpu: 90, networkIn: 10, networkOut: 10, transferQuota: 80, io: 10_000 },
  hostUuid: n.toString(16).padStart(40, "0"),
});

const addressRow = (n) => ({
  address: `100.${64 + (n >> 16)}.${((n >> 8) + 1) % 256}.${n % 256}`,
  public: true,
  region: "us-east",
  rdns: null,
});

const domainRow = (n) => ({
  type: "master",
  domain: `zone-${n}.test`,
  group: "",
  status: "active",
  description: "",
  soaEmail: "bench@example.test",
  retrySec: 0,
  expireSec: 0,
  refreshSec: 0,
  ttlSec: 0,
  masterIps: [],
  axfrIps: [],
  tags: [],
  serial: 2_020_010_101,
  createdMs: 1_600_000_000_000,
  updatedMs: 1_600_000_000_000,
});

/** Rows of the first version, with what later ones added: so no member is forgotten here. */
const whole = (kind, row) => migrations[1]({ rows: { [kind]: [row] } }).rows[kind][0];

/** Instances with an address each and, when asked, domains. Backlot must not run on the folder. */
export const fill = async (folder, count, domains = 0) => {
  const store = await openStore({ folder, kinds, schemaVersion, migrations, onProblem: (reason) => console.error(reason) });
  for (let at = 0; at < Math.max(count, domains); at += 1000) {
    await store.commit((tx) => {
      for (let n = at; n < Math.min(at + 1000, count); n++) {
        const { id } = tx.insert("instance", whole("instance", instanceRow(n)));
        tx.insert("address", { ...whole("address", addressRow(n)), instanceId: id });
      }
      for (let n = at; n < Math.min(at + 1000, domains); n++) tx.insert("domain", domainRow(n));
    });
  }
  if (count > 0 && addressesOf(store, 1).length !== 1) throw new Error("the rows do not fit together");
  await store.close();
};
