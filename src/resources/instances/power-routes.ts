import { z } from "zod";
import { invalid } from "../../kernel/fault.js";
import { customSchema } from "../../kernel/field.js";
import { route } from "../../kernel/route.js";
import type { Cloud, Reader } from "../cloud.js";
import { type DiskRow, disksOf, isBootable } from "../disks/disk.js";
import { resetPassword } from "../disks/password.js";
import { bootChoice } from "../profiles/boot-choice.js";
import { DeviceOf } from "../profiles/fields.js";
import { profileEntity, slots } from "../profiles/profile.js";
import { deviceProblems } from "../profiles/rules.js";
import { passwordHash, RootPass } from "./deployment.js";
import { type InstanceRow, requireInstance } from "./instance.js";
import { refuse, requireIdle, requireLegal } from "./rules.js";
import { overtakeJob, startJob } from "./start-job.js";

/** Contract 9.4: `sdh` is the rescue system's own. */
const rescueSlots = slots.filter((slot) => slot !== "sdh");

/** boot and reboot: the row says what is wanted and carries the job; the machines loop makes it true. */
const verbRoute = (verb: "boot" | "reboot", summary: string) =>
  route<Cloud, { configId?: number | null | undefined }>({
    method: "POST",
    path: `/v4/cloud/instances/:instanceId/${verb}`,
    scope: "instances",
    summary,
    body: customSchema(z.object({ configId: z.int().nullish() })),
    answers: "empty",
    run: ({ cloud, params, body, caller }) =>
      cloud.store.commit((tx) => {
        const row = requireInstance(tx, params.instanceId);
        requireLegal(cloud.store, row, verb);
        const username = caller?.username;
        const { profile, disk } = bootChoice(tx, row, body.configId ?? undefined);
        overtakeJob(tx, cloud, row);
        const patch = { power: "on" as const, boots: row.boots + 1, diskId: disk.id, profileId: profile.id, rescue: false };
        startJob(tx, cloud, row, { verb }, { username, secondary: profileEntity(profile) }, patch);
      }),
  });

const RescueDevices = z.object({
  ...(Object.fromEntries(rescueSlots.map((slot) => [slot, DeviceOf.nullish()])) as Record<
    (typeof rescueSlots)[number],
    z.ZodOptional<z.ZodNullable<typeof DeviceOf>>
  >),
  sdh: z.null("This slot is the rescue system's own.").optional(),
});
type RescueDevices = z.output<typeof RescueDevices>;

/** The system of an instance: the first of the devices that holds one, else the one last booted, else the first there is. */
const systemDisk = (reader: Reader, row: InstanceRow, devices: RescueDevices): DiskRow => {
  const named = rescueSlots.flatMap((slot) => {
    const device = devices[slot];
    return (device && "diskId" in device && reader.get("disk", device.diskId)) || [];
  });
  const last = row.diskId === null ? undefined : reader.get("disk", row.diskId);
  const disk = [...named, ...(last ? [last] : []), ...disksOf(reader, row.id)].find(isBootable);
  if (!disk) throw invalid("The instance has no disk with a system that could be repaired.");
  return disk;
};

export const powerRoutes = [
  route<Cloud, { devices?: RescueDevices | null | undefined }>({
    method: "POST",
    path: "/v4/cloud/instances/:instanceId/rescue",
    scope: "instances",
    summary:
      "Boots an instance to be repaired: the first of `devices` (`sda` to `sdg`) that holds a system, with nothing but ssh, neither deploy script nor services. The next boot ends it.",
    body: customSchema(z.object({ devices: RescueDevices.nullish() })),
    answers: "empty",
    rules: ({ cloud, params, body }) => deviceProblems(cloud.store, requireInstance(cloud.store, params.instanceId), body.devices ?? {}),
    run: ({ cloud, params, body, caller }) =>
      cloud.store.commit((tx) => {
        const row = requireInstance(tx, params.instanceId);
        requireIdle(row);
        const devices = body.devices ?? {};
        refuse(deviceProblems(tx, row, devices));
        const disk = systemDisk(tx, row, devices);
        // The public API has no event of its own for this (contract 15.3).
        const action = row.power === "on" ? "instance_reboot" : "instance_boot";
        const patch = { power: "on" as const, boots: row.boots + 1, diskId: disk.id, rescue: true };
        startJob(tx, cloud, row, { verb: "rescue" }, { username: caller?.username, action, message: "To be repaired (rescue)." }, patch);
      }),
  }),
  route<Cloud, { rootPass: string }>({
    method: "POST",
    path: "/v4/cloud/instances/:instanceId/password",
    scope: "instances",
    summary: "Sets root's password of an instance that is off; it holds from the next boot on.",
    body: customSchema(z.object({ rootPass: RootPass })),
    answers: "empty",
    run: ({ cloud, params, body, caller }) => {
      const rootPassHash = passwordHash(body.rootPass);
      return cloud.store.commit((tx) => {
        const row = requireInstance(tx, params.instanceId);
        resetPassword(tx, cloud, row, systemDisk(tx, row, {}), rootPassHash, caller?.username);
      });
    },
  }),
  verbRoute("boot", "Boots an instance that is offline, with the config of `config_id`, the only one, or the last one booted."),
  verbRoute("reboot", "Restarts a running instance; a config is chosen as at boot."),
  route<Cloud, undefined>({
    method: "POST",
    path: "/v4/cloud/instances/:instanceId/shutdown",
    scope: "instances",
    summary: "Stops a running instance.",
    answers: "empty",
    run: ({ cloud, params, caller }) =>
      cloud.store.commit((tx) => {
        const row = requireInstance(tx, params.instanceId);
        requireLegal(cloud.store, row, "shutdown");
        startJob(tx, cloud, row, { verb: "shutdown" }, { username: caller?.username }, { power: "off" });
      }),
  }),
];
