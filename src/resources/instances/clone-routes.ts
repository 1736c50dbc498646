import { z } from "zod";
import { invalid, type Problem } from "../../kernel/fault.js";
import { type CreateBody, createSchema, field } from "../../kernel/field.js";
import { route } from "../../kernel/route.js";
import { allocateAddress } from "../addresses/address.js";
import { addAddress } from "../addresses/rules.js";
import type { Cloud, Reader, Tx } from "../cloud.js";
import { type DiskRow, disksOf, insertDisk, isBootable } from "../disks/disk.js";
import { type Device, type Devices, type ProfileRow, profilesOf } from "../profiles/profile.js";
import { insertInstance } from "./create.js";
import { Label, Tags } from "./fields.js";
import { type InstanceRow, instanceEntity, instanceView, requireInstance } from "./instance.js";
import { freeMb, labelProblems, planProblems, refuse, regionProblems, requireIdle, typeEntry } from "./rules.js";
import { startJob } from "./start-job.js";

/** Contract 9.4. */
const clonesAtOnce = 5;

const cloneFields = {
  cloudId: field.secret(z.int(), "The instance that takes the copies; a new one is made when left out."),
  region: field.secret(z.string(), "Of the new instance."),
  type: field.secret(z.string(), "Of the new instance."),
  label: field.secret(Label, "Of the new instance."),
  group: field.secret(z.string().max(50), "Of the new instance."),
  tags: field.secret(Tags, "Of the new instance."),
  backupsEnabled: field.secret(z.boolean(), "Of the new instance."),
  privateIp: field.secret(z.boolean(), "Of the new instance."),
  disks: field.secret(z.array(z.int()), "Which disks; all when neither these nor configs are named."),
  configs: field.secret(z.array(z.int()), "Which configs, with their disks."),
};
type CloneBody = CreateBody<typeof cloneFields>;

const diskIdsOf = (profile: ProfileRow): number[] =>
  Object.values(profile.devices).flatMap((device) => (device && "diskId" in device ? [device.diskId] : []));

interface Chosen {
  disks: readonly DiskRow[];
  profiles: readonly ProfileRow[];
}

/** What is copied: all of it; or the configs that are named with their disks; or the disks that are named, and no config. */
const chosen = (reader: Reader, source: InstanceRow, body: CloneBody): Chosen => {
  const disks = disksOf(reader, source.id);
  const all = profilesOf(reader, source.id);
  if (!body.disks && !body.configs) return { disks, profiles: all };
  const profiles = all.filter((profile) => body.configs?.includes(profile.id));
  const ids = new Set([...(body.disks ?? []), ...profiles.flatMap(diskIdsOf)]);
  return { disks: disks.filter((disk) => ids.has(disk.id)), profiles };
};

const strangers = (known: ReadonlyArray<{ id: number }>, wanted: readonly number[] | undefined, name: string): Problem[] =>
  (wanted ?? []).flatMap((id, index) =>
    known.some((row) => row.id === id) ? [] : [{ reason: "The instance has none with this id.", field: `${name}[${index}]` }],
  );

const needed = (field: string): Problem => ({ reason: "Needed for a new instance.", field });

const targetProblems = (reader: Reader, cloud: Cloud, source: InstanceRow, body: CloneBody): Problem[] => {
  if (body.cloudId === undefined)
    return [
      ...(body.region === undefined ? [needed("region")] : regionProblems(cloud, body.region)),
      ...(body.type === undefined ? [needed("type")] : planProblems(cloud, body.type)),
      ...labelProblems(reader, body.label, null),
    ];
  const target = reader.get("instance", body.cloudId);
  if (!target || target.id === source.id) return [{ reason: "No other instance has this id.", field: "cloudId" }];
  return [];
};

const cloneProblems = (reader: Reader, cloud: Cloud, source: InstanceRow, body: CloneBody): Problem[] => [
  ...targetProblems(reader, cloud, source, body),
  ...strangers(disksOf(reader, source.id), body.disks, "disks"),
  ...strangers(profilesOf(reader, source.id), body.configs, "configs"),
];

const refuseTooLarge = (disks: readonly DiskRow[], freeMbOfPlan: number): void => {
  const neededMb = disks.reduce((sum, disk) => sum + disk.size, 0);
  if (neededMb > freeMbOfPlan) throw invalid(`The disks take ${neededMb} MB, and the plan has ${Math.max(0, freeMbOfPlan)} MB left.`);
};

const newTarget = (tx: Tx, cloud: Cloud, source: InstanceRow, body: CloneBody, username: string | undefined): InstanceRow => {
  const target = insertInstance(tx, cloud, {
    label: body.label,
    region: body.region ?? source.region,
    type: body.type ?? source.type,
    image: source.image,
    group: body.group ?? "",
    tags: body.tags ?? [],
    backupsEnabled: body.backupsEnabled ?? false,
    userData: source.userData,
  });
  allocateAddress(tx, cloud, target, true);
  if (body.privateIp) addAddress(tx, cloud, target, { type: "ipv4", public: false }, username);
  return target;
};

/** Rows for the copies; the machines loop fills them. Volumes are not copied, and their slots are empty in the copy. */
const copyRows = (tx: Tx, cloud: Cloud, source: InstanceRow, target: InstanceRow, { disks, profiles }: Chosen): Partial<InstanceRow> => {
  const copies = new Map<number, number>();
  for (const disk of disks) {
    const { label, size, filesystem, image } = disk;
    const copyOf = isBootable(disk) ? disk.fingerprint : null;
    copies.set(disk.id, insertDisk(tx, cloud, { instanceId: target.id, label, size, filesystem, image, copyOf }).id);
  }
  const copied = (device: Device | null | undefined): Device | null => {
    const diskId = device && "diskId" in device ? copies.get(device.diskId) : undefined;
    return diskId === undefined ? null : { diskId };
  };
  const configs = new Map<number, number>();
  for (const { id, ...profile } of profiles) {
    const devices = Object.fromEntries(Object.entries(profile.devices).map(([slot, device]) => [slot, copied(device)])) as Devices;
    configs.set(id, tx.insert("profile", { ...profile, instanceId: target.id, devices }).id);
  }
  return {
    diskId: target.diskId ?? copies.get(source.diskId ?? 0) ?? null,
    profileId: target.profileId ?? configs.get(source.profileId ?? 0) ?? null,
  };
};

const clone = (tx: Tx, cloud: Cloud, source: InstanceRow, body: CloneBody, username: string | undefined): InstanceRow => {
  requireIdle(source);
  refuse(cloneProblems(tx, cloud, source, body));
  if (tx.list("instance").filter((row) => row.job?.verb === "clone").length >= clonesAtOnce) {
    throw invalid(`At most ${clonesAtOnce} clones are made at once; wait until one is done.`);
  }
  const what = chosen(tx, source, body);
  const given = body.cloudId === undefined ? undefined : requireInstance(tx, body.cloudId);
  if (given) requireIdle(given);
  refuseTooLarge(what.disks, given ? freeMb(tx, cloud, given) : (typeEntry(cloud, body.type)?.disk ?? 0));
  const target = given ?? newTarget(tx, cloud, source, body, username);
  const patch = copyRows(tx, cloud, source, target, what);
  const waiting = startJob(
    tx,
    cloud,
    source,
    { verb: "clone_source", target: target.id },
    { username, action: "instance_clone", secondary: instanceEntity(target) },
  );
  return tx.update("instance", target.id, { ...patch, job: { verb: "clone", source: source.id, eventId: waiting.job?.eventId ?? 0 } });
};

export const cloneRoutes = [
  route<Cloud, CloneBody>({
    method: "POST",
    path: "/v4/cloud/instances/:instanceId/clone",
    scope: "instances",
    summary: "Copies an instance's disks, with all that is on them, and its configs to a new instance or to another one.",
    body: createSchema(cloneFields),
    answers: "one",
    shows: "Instance",
    rules: ({ cloud, params, body }) => cloneProblems(cloud.store, cloud, requireInstance(cloud.store, params.instanceId), body),
    run: ({ cloud, params, body, caller }) =>
      cloud.store.commit((tx) => instanceView(cloud, clone(tx, cloud, requireInstance(tx, params.instanceId), body, caller?.username), tx)),
  }),
];
