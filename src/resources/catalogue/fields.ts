import { z } from "zod";
import { field } from "../../kernel/field.js";

const price = z.object({ hourly: z.number().nullable(), monthly: z.number().nullable() });
const regionPrices = z.array(z.object({ id: z.string(), hourly: z.number().nullable(), monthly: z.number().nullable() }));

/** Contract 13.3. No member is documented as filterable there; id and country are, because the 2018 API had no others. */
export const regionFields = {
  id: field.read(z.string(), "Region id.", { source: "description", filter: true }),
  label: field.read(z.string(), "Where it is."),
  country: field.read(z.string(), "Two-letter country code.", { filter: true }),
  capabilities: field.read(z.array(z.string()), "What the region offers in the public cloud."),
  monitors: field.read(z.object({ alerts: z.array(z.string()), metrics: z.array(z.string()) }), "Services that can be monitored."),
  status: field.read(z.string(), "`ok` or `outage`."),
  resolvers: field.read(
    z.object({ ipv4: z.string().nullable(), ipv6: z.string().nullable() }).nullable(),
    "Resolver addresses, comma separated; null where they are not known.",
  ),
  placementGroupLimits: field.read(z.record(z.string(), z.number().nullable()), "Limits of placement groups."),
  siteType: field.read(z.string(), "`core` or `distributed`."),
};

/** Contract 13.4. */
export const typeFields = {
  id: field.read(z.string(), "Type id.", { source: "description" }),
  label: field.read(z.string(), "Name.", { filter: true }),
  price: field.read(price, "USD."),
  regionPrices: field.read(regionPrices, "Where it costs something else."),
  addons: field.read(z.object({ backups: z.object({ price, region_prices: regionPrices }) }), "Prices of extras."),
  memory: field.read(z.int(), "MB.", { filter: true }),
  disk: field.read(z.int(), "MB.", { filter: true }),
  transfer: field.read(z.int(), "GB a month.", { filter: true }),
  vcpus: field.read(z.int(), "CPUs.", { filter: true }),
  gpus: field.read(z.int(), "GPUs.", { filter: true }),
  networkOut: field.read(z.int(), "Mbit/s.", { filter: true }),
  class: field.read(z.string().nullable(), "E.g. `standard`; null for a plan of old.", { filter: true }),
  successor: field.read(z.string().nullable(), "What replaced it."),
  acceleratedDevices: field.read(z.int(), "Accelerators."),
};

/** Contract 13.5. */
export const kernelFields = {
  id: field.read(z.string(), "Kernel id."),
  label: field.read(z.string(), "Name.", { filter: true }),
  version: field.read(z.string(), "Version.", { filter: true }),
  kvm: field.read(z.boolean(), "Fit for KVM.", { filter: true }),
  architecture: field.read(z.string(), "`x86_64` or `i386`.", { filter: true }),
  pvops: field.read(z.boolean(), "Paravirtualised.", { filter: true }),
  deprecated: field.read(z.boolean(), "No longer maintained.", { filter: true }),
  built: field.read(z.string(), "UTC."),
};
/** Contract 8.7 and section 16: what balancers, volumes and transfer cost. */
export const priceFields = {
  id: field.read(z.string(), "Id of what is sold."),
  label: field.read(z.string(), "Name.", { filter: true }),
  price: field.read(price, "USD; a volume's and transfer's by the GB."),
  regionPrices: field.read(regionPrices, "Where it costs something else."),
  transfer: field.read(z.int(), "GB a month that come with it.", { filter: true }),
};
