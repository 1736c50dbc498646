import { wireTime } from "../../kernel/clock.js";
import type { Row } from "../../store/store.js";
import type { Cloud, Tx } from "../cloud.js";

type EntityKind =
  | "instance"
  | "balancer"
  | "config"
  | "node"
  | "ipaddress"
  | "image"
  | "token"
  | "account"
  | "script"
  | "tag"
  | "domain"
  | "disk"
  | "profile"
  | "user"
  | "user_profile"
  | "user_ssh_key"
  | "oauth_client"
  | "volume";

/** What an event is about. `parentId` is the balancer of a config or the instance of a disk, for the url. */
export interface Entity {
  kind: EntityKind;
  id: number | string;
  label: string;
  parentId?: number;
  /** The config of a node, for the url. */
  configId?: number;
}

export type EventStatus = "scheduled" | "started" | "finished" | "failed" | "notification";

/** Contract 15.1. Times are milliseconds since the epoch inside. */
export interface EventRow extends Row {
  action: string;
  createdMs: number;
  startedMs: number | null;
  endedMs: number | null;
  status: EventStatus;
  username: string | null;
  entity: Entity | null;
  secondary: Entity | null;
  message: string;
  read: boolean;
}

/** The newest this many events are kept. */
const keptEvents = 10_000;

/**
 * Adds an event inside the commit that makes the change, so it exists before the answer leaves (contract 15.2). Returns its id.
 * `scheduled` begins a job's life, `notification` is an instant action.
 */
export const recordEvent = (
  tx: Tx,
  cloud: Pick<Cloud, "clock">,
  event: { action: string; entity: Entity | null; status?: EventStatus; secondary?: Entity | null; username?: string | null; message?: string },
): number => {
  const createdMs = cloud.clock.now();
  const { id } = tx.insert("event", {
    action: event.action,
    createdMs,
    startedMs: event.status === "started" ? createdMs : null,
    endedMs: event.status === "finished" || event.status === "failed" ? createdMs : null,
    status: event.status ?? "notification",
    username: event.username ?? null,
    entity: event.entity,
    secondary: event.secondary ?? null,
    message: event.message ?? "",
    read: false,
  });
  tx.remove("event", id - keptEvents);
  return id;
};

/**
 * Moves a job's event on; an event that was pruned meanwhile is no error. What has ended stays ended: the loop may begin a job whose
 * instance was deleted a moment before, and whoever polls would wait for ever.
 */
export const moveEvent = (tx: Tx, cloud: Pick<Cloud, "clock">, id: number, status: "started" | "finished" | "failed", message?: string): void => {
  const row = tx.get("event", id);
  if (!row || row.endedMs !== null) return;
  const now = cloud.clock.now();
  tx.update("event", id, {
    status,
    startedMs: row.startedMs ?? now,
    ...(status === "started" ? {} : { endedMs: now }),
    ...(message === undefined ? {} : { message }),
  });
};

const entityUrls: Record<EntityKind, (entity: Entity) => string> = {
  instance: ({ id }) => `/v4/cloud/instances/${id}`,
  balancer: ({ id }) => `/v4/balancers/${id}`,
  config: ({ id, parentId }) => `/v4/balancers/${parentId}/configs/${id}`,
  node: ({ id, parentId, configId }) => `/v4/balancers/${parentId}/configs/${configId}/nodes/${id}`,
  ipaddress: ({ id }) => `/v4/networking/ips/${id}`,
  image: ({ id }) => `/v4/images/${id}`,
  token: ({ id }) => `/v4/profile/tokens/${id}`,
  account: () => "/v4/account",
  disk: ({ id, parentId }) => `/v4/cloud/instances/${parentId}/disks/${id}`,
  profile: ({ id, parentId }) => `/v4/cloud/instances/${parentId}/configs/${id}`,
  volume: ({ id }) => `/v4/volumes/${id}`,
  script: ({ id }) => `/v4/cloud/scripts/${id}`,
  domain: ({ id }) => `/v4/domains/${id}`,
  tag: ({ id }) => `/v4/tags/${encodeURIComponent(id)}`,
  user: ({ id }) => `/v4/account/users/${id}`,
  user_profile: () => "/v4/profile",
  user_ssh_key: ({ id }) => `/v4/profile/sshkeys/${id}`,
  oauth_client: ({ id }) => `/v4/account/oauth-clients/${id}`,
};
const entityWords: Partial<Record<EntityKind, string>> = {
  config: "balancer_config",
  node: "balancer_node",
  profile: "instance_config",
  user_profile: "profile",
};

/** Contract 2.4: id, label, the kind's word and where it is read. */
export const entityView = (entity: Entity | null) =>
  entity && { id: entity.id, label: entity.label, type: entityWords[entity.kind] ?? entity.kind, url: entityUrls[entity.kind](entity) };

const percents: Record<EventStatus, number | null> = { scheduled: 0, started: 50, finished: 100, failed: 100, notification: null };

/** Contract 15.1; duration in seconds. `seenUpTo` is the last event that was marked as seen, with all before it. A job in progress reads 50 percent: we know that it runs, not how far it is. */
export const eventView = (row: EventRow, nowMs: number, seenUpTo: number) => ({
  id: row.id,
  action: row.action,
  created: wireTime(row.createdMs),
  duration: row.startedMs === null ? null : ((row.endedMs ?? nowMs) - row.startedMs) / 1000,
  entity: entityView(row.entity),
  secondaryEntity: entityView(row.secondary),
  percentComplete: percents[row.status],
  rate: null,
  read: row.read,
  seen: row.id <= seenUpTo,
  status: row.status,
  timeRemaining: row.status === "finished" ? 0 : null,
  username: row.username,
  message: row.message,
});
