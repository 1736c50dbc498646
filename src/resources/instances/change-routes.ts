import { z } from "zod";
import { invalid, type Problem } from "../../kernel/fault.js";
import { type CreateBody, createSchema, customSchema, field, integer } from "../../kernel/field.js";
import { route } from "../../kernel/route.js";
import type { Cloud, Reader, Tx } from "../cloud.js";
import { allocatedMb, disksOf } from "../disks/disk.js";
import { recordEvent } from "../events/event.js";
import { volumesOf } from "../volumes/volume.js";
import { imageEntity } from "./create.js";
import { deploymentFields, deploymentOf, deploymentProblems, passwordHash } from "./deployment.js";
import { Metadata } from "./fields.js";
import { type InstanceRow, instanceEntity, instanceView, requireInstance } from "./instance.js";
import { clearLayout, defaultSwapMb, layOut } from "./layout.js";
import { planProblems, refuse, regionProblems, requireIdle, typeEntry } from "./rules.js";
import { startJob } from "./start-job.js";

const rebuildFields = {
  image: field.secret(z.string(), "Image slug from `/v4/images`.", { required: true }),
  ...deploymentFields,
  booted: field.secret(z.boolean(), "False leaves it off. Default: true."),
  swapSize: field.secret(integer(0, 10_000_000), "MB of the swap disk. Default 512."),
  metadata: field.secret(Metadata, "`user_data`, base64; what was given before stays when left out."),
};
type Rebuild = CreateBody<typeof rebuildFields>;

const rebuildProblems = (reader: Reader, cloud: Cloud, row: InstanceRow, body: Partial<Rebuild>): Problem[] => {
  const planMb = typeEntry(cloud, row.type)?.disk ?? 0;
  const problems = deploymentProblems(reader, cloud, body);
  return (body.swapSize ?? 0) < planMb
    ? problems
    : [...problems, { reason: `Must leave room for the image's disk: the plan allows ${planMb} MB.`, field: "swapSize" }];
};

const rebuild = (tx: Tx, cloud: Cloud, row: InstanceRow, body: Rebuild, rootPassHash: string | null, username: string | undefined): InstanceRow => {
  requireIdle(row);
  refuse(rebuildProblems(tx, cloud, row, body));
  const dropped = disksOf(tx, row.id).map((disk) => disk.fingerprint);
  clearLayout(tx, row.id);
  const deployment = deploymentOf(tx, cloud, body, rootPassHash);
  layOut(tx, cloud, row, deployment, { swapMb: body.swapSize ?? defaultSwapMb });
  const isOn = body.booted !== false;
  return startJob(
    tx,
    cloud,
    row,
    { verb: "rebuild", dropped },
    { username, secondary: imageEntity(tx, cloud, deployment.image) },
    {
      image: deployment.image,
      power: isOn ? "on" : "off",
      boots: isOn ? row.boots + 1 : row.boots,
      rescue: false,
      userData: body.metadata?.userData ?? row.userData,
    },
  );
};

/** A new plan must have room for the disks as they are (contract 9.4). */
const resizeProblems = (reader: Reader, cloud: Cloud, row: InstanceRow, type: string | undefined): Problem[] => {
  const unknown = planProblems(cloud, type);
  if (unknown.length > 0) return unknown;
  if (type === row.type) return [{ reason: "The instance is already on this plan." }];
  const allocated = allocatedMb(reader, row.id);
  const planMb = typeEntry(cloud, type)?.disk ?? 0;
  if (allocated <= planMb) return [];
  return [{ reason: `More disk is allocated (${allocated} MB) than the new plan allows (${planMb} MB); resize or delete disks first.` }];
};

/** The disk that takes the room a larger plan gives: the only one that is no swap (contract 9.4). */
const growingDisk = (reader: Reader, row: InstanceRow): number | null => {
  const disks = disksOf(reader, row.id).filter((disk) => disk.filesystem !== "swap");
  return disks.length === 1 ? (disks[0]?.id ?? null) : null;
};

const resizeFields = {
  type: field.secret(z.string(), "Id of the new plan, from `/v4/cloud/types`.", { required: true }),
  allowAutoDiskResize: field.secret(z.boolean(), "Lets the only disk that is no swap grow with the plan. Default: true."),
  migrationType: field.secret(z.enum(["cold", "warm"]), "Default: cold, with a restart."),
};
type Resize = CreateBody<typeof resizeFields>;

export const changeRoutes = [
  route<Cloud, Rebuild>({
    method: "POST",
    path: "/v4/cloud/instances/:instanceId/rebuild",
    scope: "instances",
    summary: "Deletes an instance's disks and configs and deploys an image anew; boots unless `booted` is false.",
    body: createSchema(rebuildFields),
    answers: "one",
    shows: "Instance",
    rules: ({ cloud, params, body }) => rebuildProblems(cloud.store, cloud, requireInstance(cloud.store, params.instanceId), body),
    run: ({ cloud, params, body, caller }) => {
      const rootPassHash = passwordHash(body.rootPass);
      return cloud.store.commit((tx) =>
        instanceView(cloud, rebuild(tx, cloud, requireInstance(tx, params.instanceId), body, rootPassHash, caller?.username), tx),
      );
    },
  }),
  route<Cloud, Resize>({
    method: "POST",
    path: "/v4/cloud/instances/:instanceId/resize",
    scope: "instances",
    summary: "Moves an instance to another plan: cold with a restart, warm without one.",
    body: createSchema(resizeFields),
    answers: "empty",
    rules: ({ cloud, params, body }) => resizeProblems(cloud.store, cloud, requireInstance(cloud.store, params.instanceId), body.type),
    run: ({ cloud, params, body, caller }) =>
      cloud.store.commit((tx) => {
        const row = requireInstance(tx, params.instanceId);
        requireIdle(row);
        refuse(resizeProblems(tx, cloud, row, body.type));
        const username = caller?.username;
        const growDiskId = body.allowAutoDiskResize === false ? null : growingDisk(tx, row);
        recordEvent(tx, cloud, { action: "instance_resize_create", entity: instanceEntity(row), username: username ?? null });
        startJob(tx, cloud, row, { verb: "resize", type: body.type, warm: body.migrationType === "warm", growDiskId }, { username });
      }),
  }),
  route<Cloud, { region?: string | null | undefined }>({
    method: "POST",
    path: "/v4/cloud/instances/:instanceId/migrate",
    scope: "instances",
    summary: "Moves an instance to another region: its disks go with it, its addresses are new.",
    body: customSchema(z.object({ region: z.string().nullish(), type: z.enum(["cold", "warm"]).nullish(), upgrade: z.boolean().nullish() })),
    answers: "empty",
    run: ({ cloud, params, body, caller }) =>
      cloud.store.commit((tx) => {
        const row = requireInstance(tx, params.instanceId);
        requireIdle(row);
        const region = body.region ?? undefined;
        if (region === undefined) throw invalid("No migration is pending here; say where to move it.", "region");
        refuse(regionProblems(cloud, region));
        if (region === row.region) throw invalid("The instance is there already.", "region");
        const [volume] = volumesOf(tx, row.id);
        if (volume) throw invalid(`The volume ${volume.label} stays in ${row.region}; detach it first.`);
        startJob(tx, cloud, row, { verb: "migrate", region }, { username: caller?.username, message: `From ${row.region} to ${region}.` });
      }),
  }),
  route<Cloud, undefined>({
    method: "POST",
    path: "/v4/cloud/instances/:instanceId/mutate",
    scope: "instances",
    summary: "Moves an instance of a plan that is no longer sold to the plan that follows it.",
    answers: "empty",
    run: ({ cloud, params, caller }) =>
      cloud.store.commit((tx) => {
        const row = requireInstance(tx, params.instanceId);
        requireIdle(row);
        const type = typeEntry(cloud, row.type)?.successor;
        if (typeof type !== "string") throw invalid(`Nothing follows the plan ${row.type}: there is nothing to upgrade to.`);
        refuse(resizeProblems(tx, cloud, row, type).map(({ reason }) => ({ reason })));
        startJob(tx, cloud, row, { verb: "mutate", type, warm: false, growDiskId: growingDisk(tx, row) }, { username: caller?.username });
      }),
  }),
];
