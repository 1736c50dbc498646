import type { Cloud, Tx } from "../cloud.js";
import { type Entity, moveEvent, recordEvent } from "../events/event.js";
import { type InstanceRow, instanceEntity } from "./instance.js";
import type { Work } from "./job.js";

export interface Asked {
  username: string | undefined;
  secondary?: Entity | null | undefined;
  /** The event's action; `instance_VERB` when left out. */
  action?: string;
  message?: string;
}

/** Gives the row its job, with the scheduled event of it. Whatever else changes of the row goes in `patch`, in the same write. */
export const startJob = (
  tx: Tx,
  cloud: Cloud,
  row: InstanceRow,
  work: Work,
  asked: Asked,
  patch: Partial<Omit<InstanceRow, "id">> = {},
): InstanceRow => {
  const eventId = recordEvent(tx, cloud, {
    action: asked.action ?? `instance_${work.verb}`,
    entity: instanceEntity(row),
    secondary: asked.secondary ?? null,
    status: "scheduled",
    username: asked.username ?? null,
    message: asked.message ?? "",
  });
  return tx.update("instance", row.id, { ...patch, job: { ...work, eventId } });
};

/** A verb that another one overtakes. */
export const overtakeJob = (tx: Tx, cloud: Cloud, row: InstanceRow): void => {
  if (row.job) moveEvent(tx, cloud, row.job.eventId, "finished");
};
