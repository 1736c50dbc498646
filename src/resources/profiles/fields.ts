import { z } from "zod";
import { field, integer, text } from "../../kernel/field.js";
import { slots } from "./profile.js";

/** Null is absent here too. */
const lenient = <S extends z.ZodType>(schema: S) => schema.nullish().transform((value) => value ?? undefined);

/** Clients send the member that does not apply as null. */
export const DeviceOf = z
  .object({ diskId: lenient(z.int()), volumeId: lenient(z.int()) })
  .refine(({ diskId, volumeId }) => (diskId === undefined) !== (volumeId === undefined), "Name either a disk_id or a volume_id.")
  .transform(({ diskId, volumeId }) => (diskId === undefined ? { volumeId: volumeId ?? 0 } : { diskId }));

const Devices = z.object(
  Object.fromEntries(slots.map((slot) => [slot, DeviceOf.nullish()])) as Record<
    (typeof slots)[number],
    z.ZodOptional<z.ZodNullable<typeof DeviceOf>>
  >,
);

const Helpers = z.object({
  updatedbDisabled: lenient(z.boolean()),
  distro: lenient(z.boolean()),
  modulesDep: lenient(z.boolean()),
  network: lenient(z.boolean()),
  devtmpfsAutomount: lenient(z.boolean()),
});

const InterfaceRow = z.object({
  purpose: z.enum(["public", "vlan"], "Must be public or vlan; there are no VPCs here."),
  label: lenient(z.string()),
  ipamAddress: lenient(z.string()),
  primary: lenient(z.boolean()),
});
export const Interfaces = z.array(InterfaceRow).max(3, "Must hold at most 3 entries.");

/** Contract 9.5. */
export const profileFields = {
  id: field.read(z.int().positive(), "Given at creation, never reused.", { filter: true }),
  label: field.write(text(1, 48), "Name.", { required: true, filter: true }),
  kernel: field.write(z.string(), "Id from `/v4/cloud/kernels`; recorded, the engine's kernel runs."),
  comments: field.write(z.string().max(65_535), "For people."),
  memoryLimit: field.write(integer(0, 10_000_000), "MB; 0 is all of the plan's. Enforced at boot on Docker."),
  runLevel: field.write(z.enum(["default", "single", "binbash"]), "Anything but `default` boots without services and script."),
  virtMode: field.write(z.enum(["paravirt", "fullvirt"]), "Recorded."),
  helpers: field.write(Helpers, "Recorded."),
  devices: field.write(Devices, "Slots `sda` to `sdh`: null, or an object with `disk_id` or `volume_id`.", { required: true }),
  rootDevice: field.write(z.string(), "`/dev/sda` when left out, and for a value that is no device: its disk is the machine's file system."),
  interfaces: field.write(Interfaces, "Recorded."),
};
