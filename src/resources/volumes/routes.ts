import { z } from "zod";
import { createSchema, customSchema, filterableNames, type UpdateBody, updateSchema } from "../../kernel/field.js";
import { type Listing, route } from "../../kernel/route.js";
import type { Cloud, Tx } from "../cloud.js";
import { recordEvent } from "../events/event.js";
import { requireInstance } from "../instances/instance.js";
import { refuse } from "../instances/rules.js";
import { fillSlot, profileFor } from "../profiles/device-slots.js";
import { VolumeLabel, VolumeSize, volumeFields } from "./fields.js";
import {
  attachProblems,
  createProblems,
  labelProblems,
  requireAttachable,
  requireCloneable,
  requireDeletable,
  requireDetachable,
  requireResizable,
  type VolumeCreate,
} from "./rules.js";
import { requireVolume, type VolumeRow, volumeEntity, volumeJob, volumeStatus, volumesOf, volumeView } from "./volume.js";

const defaultSizeGb = 20;

type VolumeUpdate = UpdateBody<typeof volumeFields>;

/** Null for an optional member is absent (contract, decision 8). */
const absentAsNull = <S extends z.ZodType>(schema: S) => schema.nullish().transform((value) => value ?? undefined);

const attachBody = customSchema(z.object({ cloudId: z.int(), configId: absentAsNull(z.int()), persistAcrossBoots: absentAsNull(z.boolean()) }));
type AttachBody = z.infer<(typeof attachBody)["schema"]> & { cloudId: number; configId?: number; persistAcrossBoots?: boolean };

const newRow = (cloud: Cloud, wanted: Pick<VolumeRow, "label" | "region" | "sizeGb" | "tags" | "encryption" | "copyOf">): Omit<VolumeRow, "id"> => ({
  ...wanted,
  createdMs: cloud.clock.now(),
  updatedMs: cloud.clock.now(),
  made: false,
  instanceId: null,
  configId: null,
  forBoot: null,
  jobs: [],
});

/** A volume that stays over boots has a slot of a config profile, while there is a free one (contract 11 `config_id`). */
const nameInProfile = (tx: Tx, row: VolumeRow, instanceId: number, configId: number | undefined): void => {
  const profile = profileFor(tx, instanceId, configId);
  if (profile !== undefined && profile !== "several") fillSlot(tx, profile, { volumeId: row.id });
};

const createVolume = (tx: Tx, cloud: Cloud, body: VolumeCreate, username: string | undefined): VolumeRow => {
  refuse(createProblems(tx, cloud, body));
  const instance = body.cloudId == null ? undefined : tx.get("instance", body.cloudId);
  const wanted = {
    label: body.label,
    region: instance?.region ?? body.region ?? "",
    sizeGb: body.size ?? defaultSizeGb,
    tags: body.tags ?? [],
    encryption: body.encryption ?? "disabled",
    copyOf: null,
  };
  const row = tx.insert("volume", newRow(cloud, wanted));
  const create = volumeJob(tx, cloud, row, "create", { username });
  if (!instance) return tx.update("volume", row.id, { jobs: [create] });
  const attach = volumeJob(tx, cloud, row, "attach", { username, instance });
  nameInProfile(tx, row, instance.id, body.configId ?? undefined);
  return tx.update("volume", row.id, { instanceId: instance.id, configId: body.configId ?? null, jobs: [create, attach] });
};

const cloneVolume = (tx: Tx, cloud: Cloud, source: VolumeRow, label: string, username: string | undefined): VolumeRow => {
  requireCloneable(source);
  refuse(labelProblems(tx, label, null));
  const { region, sizeGb, encryption } = source;
  const row = tx.insert("volume", newRow(cloud, { label, region, sizeGb, tags: [], encryption, copyOf: source.id }));
  recordEvent(tx, cloud, { action: "volume_clone", entity: volumeEntity(source), secondary: volumeEntity(row), username: username ?? null });
  return tx.update("volume", row.id, { jobs: [volumeJob(tx, cloud, row, "create", { username })] });
};

const attachVolume = (tx: Tx, cloud: Cloud, row: VolumeRow, body: AttachBody, username: string | undefined): VolumeRow => {
  requireAttachable(row);
  const persists = body.persistAcrossBoots ?? true;
  refuse(attachProblems(tx, cloud, body.cloudId, row.region, { persists, configId: body.configId }));
  const instance = requireInstance(tx, body.cloudId);
  if (persists) nameInProfile(tx, row, instance.id, body.configId);
  return tx.update("volume", row.id, {
    instanceId: instance.id,
    configId: body.configId ?? null,
    // Of an instance that is off, the boot it is attached for is the next.
    forBoot: persists ? null : instance.boots + (instance.power === "on" ? 0 : 1),
    updatedMs: cloud.clock.now(),
    jobs: [...row.jobs, volumeJob(tx, cloud, row, "attach", { username, instance })],
  });
};

const listing = (cloud: Cloud, rows: readonly VolumeRow[]): Listing<VolumeRow> => ({
  rows,
  view: (row) => volumeView(cloud, row),
  filterable: filterableNames(volumeFields),
  fieldValue: (row, name) => (name === "status" ? volumeStatus(row) : row[name as keyof VolumeRow]),
});

const path = "/v4/volumes/:volumeId";

export const volumeRoutes = [
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/volumes",
    scope: "volumes",
    summary: "Lists the account's volumes.",
    answers: "list",
    shows: "Volume",
    run: ({ cloud }) => listing(cloud, cloud.store.list("volume")),
  }),
  route<Cloud, VolumeCreate>({
    method: "POST",
    path: "/v4/volumes",
    scope: "volumes",
    summary: "Creates a volume, and attaches it when an instance is given.",
    body: createSchema(volumeFields),
    answers: "one",
    shows: "Volume",
    rules: ({ cloud, body }, flagged) => createProblems(cloud.store, cloud, body, flagged),
    run: ({ cloud, body, caller }) => cloud.store.commit((tx) => volumeView(cloud, createVolume(tx, cloud, body, caller?.username), tx)),
  }),
  route<Cloud, undefined>({
    method: "GET",
    path,
    scope: "volumes",
    summary: "Reads one volume.",
    answers: "one",
    shows: "Volume",
    run: ({ cloud, params }) => volumeView(cloud, requireVolume(cloud.store, params.volumeId)),
  }),
  route<Cloud, VolumeUpdate>({
    method: "PUT",
    path,
    scope: "volumes",
    summary: "Updates label and tags; members left out stay.",
    body: updateSchema(volumeFields),
    answers: "one",
    shows: "Volume",
    rules: ({ cloud, params, body }) => labelProblems(cloud.store, body.label, requireVolume(cloud.store, params.volumeId).id),
    run: ({ cloud, params, body, caller }) =>
      cloud.store.commit((tx) => {
        const row = requireVolume(tx, params.volumeId);
        refuse(labelProblems(tx, body.label, row.id));
        const { label = row.label, tags = row.tags } = body;
        const updated = tx.update("volume", row.id, { label, tags, updatedMs: cloud.clock.now() });
        recordEvent(tx, cloud, { action: "volume_update", entity: volumeEntity(updated), username: caller?.username ?? null });
        return volumeView(cloud, updated, tx);
      }),
  }),
  route<Cloud, undefined>({
    method: "DELETE",
    path,
    scope: "volumes",
    summary: "Deletes a volume with its data; it must be detached and active.",
    answers: "empty",
    run: ({ cloud, params, caller }) =>
      cloud.store.commit((tx) => {
        const row = requireVolume(tx, params.volumeId);
        requireDeletable(tx, row);
        tx.update("volume", row.id, { jobs: [volumeJob(tx, cloud, row, "delete", { username: caller?.username })] });
      }),
  }),
  route<Cloud, AttachBody>({
    method: "POST",
    path: `${path}/attach`,
    scope: ["volumes", "instances"],
    summary:
      "Attaches a volume to an instance of its region: it is mounted at `/mnt/LABEL` while that runs (a runtime that mounts at a boot only: from the next on).",
    body: attachBody as never,
    answers: "one",
    shows: "Volume",
    run: ({ cloud, params, body, caller }) =>
      cloud.store.commit((tx) => volumeView(cloud, attachVolume(tx, cloud, requireVolume(tx, params.volumeId), body, caller?.username), tx)),
  }),
  route<Cloud, undefined>({
    method: "POST",
    path: `${path}/detach`,
    scope: ["volumes", "instances"],
    summary: "Detaches a volume; `cloud_id` is null when it is done.",
    answers: "empty",
    run: ({ cloud, params, caller }) =>
      cloud.store.commit((tx) => {
        const row = requireVolume(tx, params.volumeId);
        requireDetachable(row);
        const instance = tx.get("instance", row.instanceId ?? 0);
        tx.update("volume", row.id, { jobs: [volumeJob(tx, cloud, row, "detach", { username: caller?.username, instance })] });
      }),
  }),
  route<Cloud, { size: number }>({
    method: "POST",
    path: `${path}/resize`,
    scope: "volumes",
    summary: "Makes a volume larger; it never shrinks.",
    body: customSchema(z.object({ size: VolumeSize })),
    answers: "one",
    shows: "Volume",
    run: ({ cloud, params, body, caller }) =>
      cloud.store.commit((tx) => {
        const row = requireVolume(tx, params.volumeId);
        requireResizable(row, body.size);
        const job = volumeJob(tx, cloud, row, "resize", { username: caller?.username, fromGb: row.sizeGb });
        return volumeView(cloud, tx.update("volume", row.id, { sizeGb: body.size, updatedMs: cloud.clock.now(), jobs: [job] }), tx);
      }),
  }),
  route<Cloud, { label: string }>({
    method: "POST",
    path: `${path}/clone`,
    scope: "volumes",
    summary: "Makes a new volume with a copy of this one's data.",
    body: customSchema(z.object({ label: VolumeLabel })),
    answers: "one",
    shows: "Volume",
    rules: ({ cloud, body }) => labelProblems(cloud.store, body.label, null),
    run: ({ cloud, params, body, caller }) =>
      cloud.store.commit((tx) => volumeView(cloud, cloneVolume(tx, cloud, requireVolume(tx, params.volumeId), body.label, caller?.username), tx)),
  }),
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/cloud/instances/:instanceId/volumes",
    scope: "instances",
    summary: "Lists the volumes attached to an instance.",
    answers: "list",
    shows: "Volume",
    run: ({ cloud, params }) => listing(cloud, volumesOf(cloud.store, requireInstance(cloud.store, params.instanceId).id)),
  }),
];
