import { definedOf } from "../../kernel/defined.js";
import { invalid } from "../../kernel/fault.js";
import { createSchema, filterableNames, type UpdateBody, updateSchema } from "../../kernel/field.js";
import { type Call, type Listing, route } from "../../kernel/route.js";
import { addressesOf } from "../addresses/address.js";
import type { Cloud, Tx } from "../cloud.js";
import { moveEvent, recordEvent } from "../events/event.js";
import { changeRoutes } from "./change-routes.js";
import { cloneRoutes } from "./clone-routes.js";
import { createInstance } from "./create.js";
import { passwordHash } from "./deployment.js";
import { instanceFields } from "./fields.js";
import { type InstanceRow, instanceEntity, instanceView, isDeleting, requireInstance } from "./instance.js";
import { meterRoutes } from "./meter-routes.js";
import { powerRoutes } from "./power-routes.js";
import { createProblems, type InstanceCreate, labelProblems, refuse, refuseCloning } from "./rules.js";
import { startJob } from "./start-job.js";
import { subRoutes } from "./sub-routes.js";

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
      const rootPassHash = passwordHash(body.rootPass);
      return cloud.store.commit((tx) => instanceView(cloud, createInstance(tx, cloud, body, rootPassHash, caller?.username), tx));
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
        if (row.job?.verb === "restore") throw invalid("A backup is being restored to this instance; wait until that is done.");
        refuseCloning(row);
        if (row.job) moveEvent(tx, cloud, row.job.eventId, "failed", "The instance was deleted before this was done.");
        startJob(tx, cloud, row, { verb: "delete" }, { username: caller?.username }, { power: "off" });
      }),
  }),
  ...powerRoutes,
  ...changeRoutes,
  ...cloneRoutes,
  ...meterRoutes,
  ...subRoutes,
];
