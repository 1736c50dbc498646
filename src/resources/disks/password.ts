import { invalid } from "../../kernel/fault.js";
import type { Cloud, Tx } from "../cloud.js";
import type { InstanceRow } from "../instances/instance.js";
import { requireIdle, statusOf } from "../instances/rules.js";
import { startJob } from "../instances/start-job.js";
import { type DiskRow, diskEntity, isBootable } from "./disk.js";

/** Contract 9.4: only on an instance that is off. The row keeps the hash; the machines loop hands it to the file system. */
export const resetPassword = (
  tx: Tx,
  cloud: Cloud,
  row: InstanceRow,
  disk: DiskRow,
  rootPassHash: string | null,
  username: string | undefined,
): void => {
  requireIdle(row);
  const status = statusOf(cloud.store, row);
  if (status !== "offline") throw invalid(`The instance is ${status}; shut it down first.`);
  if (!isBootable(disk)) throw invalid(`The disk ${disk.label} holds no system, and so no password.`);
  tx.update("disk", disk.id, { rootPassHash, updatedMs: cloud.clock.now() });
  startJob(tx, cloud, row, { verb: "password_reset", diskId: disk.id }, { username, action: "password_reset", secondary: diskEntity(disk) });
};
