import { randomBytes } from "node:crypto";
import { encrypt } from "unixcrypt";
import { z } from "zod";
import { createSchema, customSchema, filterableNames, type UpdateBody, updateSchema } from "../../kernel/field.js";
import { type Call, type Listing, route } from "../../kernel/route.js";
import { accountOf } from "../account/account.js";
import { addressesOf, allocateAddress } from "../addresses/address.js";
import { addAddress } from "../addresses/rules.js";
import type { Cloud, Tx } from "../cloud.js";
import { moveEvent, recordEvent } from "../events/event.js";
import { deployScript } from "../scripts/deploy.js";
import { instanceFields } from "./fields.js";
import { type Alerts, type InstanceRow, instanceEntity, instanceView, isDeleting, type Job, requireInstance } from "./instance.js";
import { createProblems, defaultLabel, type InstanceCreate, labelProblems, refuse, requireLegal } from "./rules.js";

/** Contract 9.1: 90 percent a CPU, 10 Mbit/s, 80 percent, 10,000 operations a second. */
const defaultAlerts = (vcpus: number): Alerts => ({ cpu: 90 * vcpus, networkIn: 10, networkOut: 10, transferQuota: 80, io: 10_000 });

const startJob = (tx: Tx, cloud: Cloud, row: InstanceRow, verb: Job["verb"], username: string | undefined): Job => ({
  verb,
  eventId: recordEvent(tx, cloud, {
    action: `instance_${verb}`,
    entity: instanceEntity(row),
    status: "scheduled",
    username: username ?? null,
    ...(verb === "create" && row.image !== null
      ? {
          secondary: {
            kind: "image" as const,
            id: row.image,
            label: cloud.catalogue.images.find((entry) => entry.id === row.image)?.label ?? row.image,
          },
        }
      : {}),
  }),
});

const createInstance = (tx: Tx, cloud: Cloud, body: InstanceCreate, rootPassHash: string | null, username: string | undefined) => {
  refuse(createProblems(tx, cloud, body));
  const now = cloud.clock.now();
  const image = body.image ?? null;
  const boots = image !== null && body.booted !== false;
  const vcpus = cloud.catalogue.types.find((entry) => entry.id === body.type)?.vcpus ?? 1;
  const inserted = tx.insert("instance", {
    label: body.label ?? "",
    region: body.region,
    type: body.type,
    image,
    group: body.group ?? "",
    tags: body.tags ?? [],
    createdMs: now,
    updatedMs: now,
    power: boots ? "on" : "off",
    boots: boots ? 1 : 0,
    job: null,
    rootPassHash,
    authorizedKeys: body.authorizedKeys ?? [],
    script: deployScript(tx, cloud, body),
    scriptReported: false,
    watchdogEnabled: body.watchdogEnabled ?? true,
    backupsEnabled: body.backupsEnabled ?? accountOf(tx).settings.backupsEnabled,
    backupsSchedule: { day: null, window: null, ...definedOf(body.backups?.schedule) },
    alerts: { ...defaultAlerts(vcpus), ...definedOf(body.alerts) },
    hostUuid: randomBytes(20).toString("hex"),
  });
  const named = body.label === undefined ? tx.update("instance", inserted.id, { label: defaultLabel(tx, inserted.id) }) : inserted;
  const row = tx.update("instance", named.id, { job: startJob(tx, cloud, named, "create", username) });
  allocateAddress(tx, cloud, row, true);
  if (body.privateIp) addAddress(tx, cloud, row, { type: "ipv4", public: false }, username);
  return instanceView(cloud, row, tx);
};

const definedOf = <T extends object>(value: T | undefined): Partial<{ [N in keyof T]: Exclude<T[N], undefined> }> =>
  Object.fromEntries(Object.entries(value ?? {}).filter(([, member]) => member !== undefined)) as Partial<{
    [N in keyof T]: Exclude<T[N], undefined>;
  }>;

const updateInstance = (tx: Tx, cloud: Cloud, row: InstanceRow, body: UpdateBody<typeof instanceFields>, username: string | undefined) => {
  refuse(labelProblems(tx, body.label, row.id));
  const { alerts, backups, ...plain } = body;
  const updated = tx.update("instance", row.id, {
    ...definedOf(plain),
    alerts: { ...row.alerts, ...definedOf(alerts) },
    backupsSchedule: { ...row.backupsSchedule, ...definedOf(backups?.schedule) },
    updatedMs: cloud.clock.now(),
  });
  recordEvent(tx, cloud, { action: "instance_update", entity: instanceEntity(updated), username: username ?? null });
  return instanceView(cloud, updated, tx);
};

/** boot, reboot and shutdown: the row says what is wanted and carries the job; the machines loop makes it true. */
const verbRoute = (verb: "boot" | "reboot" | "shutdown", summary: string) =>
  route<Cloud, { configId?: number | null | undefined }>({
    method: "POST",
    path: `/v4/cloud/instances/:instanceId/${verb}`,
    scope: "instances",
    summary,
    body: customSchema(z.object({ configId: z.int().nullish() })),
    answers: "empty",
    run: ({ cloud, params, caller }) =>
      cloud.store.commit((tx) => {
        const row = requireInstance(tx, params.instanceId);
        requireLegal(cloud.store, row, verb);
        if (row.job) moveEvent(tx, cloud, row.job.eventId, "finished");
        const on = verb !== "shutdown";
        tx.update("instance", row.id, {
          power: on ? "on" : "off",
          boots: on ? row.boots + 1 : row.boots,
          job: startJob(tx, cloud, row, verb, caller?.username),
        });
      }),
  });

export const instanceRoutes = [
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/cloud/instances",
    scope: "instances",
    summary: "Lists the account's instances.",
    answers: "list",
    shows: "Instance",
    run: ({ cloud }): Listing<InstanceRow> => ({
      rows: cloud.store.list("instance"),
      view: (row) => instanceView(cloud, row),
      filterable: filterableNames(instanceFields),
      fieldValue: (row, name) => (name === "ipv4" ? addressesOf(cloud.store, row.id).map((entry) => entry.address) : row[name as keyof InstanceRow]),
    }),
  }),
  route<Cloud, InstanceCreate>({
    method: "POST",
    path: "/v4/cloud/instances",
    scope: "instances",
    summary: "Creates an instance, deploys its image and boots it unless `booted` is false.",
    body: createSchema(instanceFields),
    answers: "one",
    shows: "Instance",
    rules: ({ cloud, body }) => createProblems(cloud.store, cloud, body),
    run: ({ cloud, body, caller }) => {
      const rootPassHash = body.rootPass === undefined ? null : encrypt(body.rootPass);
      return cloud.store.commit((tx) => createInstance(tx, cloud, body, rootPassHash, caller?.username));
    },
  }),
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/cloud/instances/:instanceId",
    scope: "instances",
    summary: "Reads one instance.",
    answers: "one",
    shows: "Instance",
    run: ({ cloud, params }) => instanceView(cloud, requireInstance(cloud.store, params.instanceId)),
  }),
  route<Cloud, UpdateBody<typeof instanceFields>>({
    method: "PUT",
    path: "/v4/cloud/instances/:instanceId",
    scope: "instances",
    summary: "Updates an instance; members left out stay.",
    body: updateSchema(instanceFields),
    answers: "one",
    shows: "Instance",
    rules: ({ cloud, params, body }) => labelProblems(cloud.store, body.label, requireInstance(cloud.store, params.instanceId).id),
    run: ({ cloud, params, body, caller }) =>
      cloud.store.commit((tx) => updateInstance(tx, cloud, requireInstance(tx, params.instanceId), body, caller?.username)),
  }),
  route<Cloud, undefined>({
    method: "DELETE",
    path: "/v4/cloud/instances/:instanceId",
    scope: "instances",
    summary: "Deletes an instance; its addresses are freed when its machine is gone.",
    answers: "empty",
    run: ({ cloud, params, caller }: Call<Cloud, undefined>) =>
      cloud.store.commit((tx) => {
        const row = requireInstance(tx, params.instanceId);
        if (isDeleting(row)) return;
        if (row.job) moveEvent(tx, cloud, row.job.eventId, "failed", "The instance was deleted before this was done.");
        tx.update("instance", row.id, { power: "off", job: startJob(tx, cloud, row, "delete", caller?.username) });
      }),
  }),
  verbRoute("boot", "Boots an instance that is offline."),
  verbRoute("reboot", "Restarts a running instance."),
  verbRoute("shutdown", "Stops a running instance."),
];
