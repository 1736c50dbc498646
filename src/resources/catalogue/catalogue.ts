import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Script } from "../scripts/script.js";

/** A catalogue entry as it is served, already in wire spelling; only the members the rules need are named. */
interface Entry {
  id: string;
  [member: string]: unknown;
}
/** USD. Null: not sold by the hour, or without a monthly cap. */
interface Price {
  hourly: number | null;
  monthly: number | null;
}
/** Something with a price, dearer in some regions (contract 13.4, 8.7). */
export interface PricedEntry extends Entry {
  label: string;
  price: Price;
  region_prices: readonly (Price & { id: string })[];
}
/** A plan. */
export interface TypeEntry extends PricedEntry {
  addons: { backups: Pick<PricedEntry, "price" | "region_prices"> };
  /** MiB */
  memory: number;
  /** MiB */
  disk: number;
  vcpus: number;
  gpus: number;
  /** GB a month */
  transfer: number;
}
export interface ImageEntry extends Entry {
  label: string;
}

/** A script that Backlot ships, as `fixtures/scripts/scripts.json` says it; its text is in the file it names. */
interface ShippedScript {
  id: number;
  username: string;
  label: string;
  description: string;
  images: string[];
  created: string;
  updated: string;
  rev_note: string;
  script_file: string;
}

/** What would happen to an instance when its host is maintained (contract section 16). */
export interface MaintenancePolicy {
  slug: string;
  [member: string]: unknown;
}

/** What never changes while Backlot runs. Rows come from `fixtures/`, the order is the public API's. */
export interface Catalogue {
  regions: readonly Entry[];
  images: readonly ImageEntry[];
  types: readonly TypeEntry[];
  kernels: readonly Entry[];
  scripts: readonly Script[];
  /** Images that run their own entrypoint: OCI references by slug, from the settings. They are among `images`. */
  ownImages: Readonly<Record<string, string>>;
  balancerTypes: readonly PricedEntry[];
  volumeTypes: readonly PricedEntry[];
  transferPrices: readonly PricedEntry[];
  maintenancePolicies: readonly MaintenancePolicy[];
}

const readRows = <R>(path: string): R[] => JSON.parse(readFileSync(path, "utf8")) as R[];

/** A container of the user's own, as an entry of `/v4/images` (contract 13.1). Its size is not known before it is fetched. */
const ownImage = ([id, reference]: [string, string]): ImageEntry => ({
  id,
  label: id.slice(id.indexOf("/") + 1),
  deprecated: false,
  size: 0,
  created: null,
  updated: null,
  description: `The container image ${reference}, with its own entrypoint.`,
  created_by: "settings",
  type: "manual",
  tags: [],
  is_public: true,
  is_shared: false,
  vendor: "Own container",
  expiry: null,
  eol: null,
  regions: [],
  status: "available",
  capabilities: [],
  image_sharing: null,
});

/** Reads the catalogue from the fixtures' folder. A slug of the user's own takes the place of one that is there already. */
export const readCatalogue = (fixtures: string, ownImages: Readonly<Record<string, string>> = {}): Catalogue => {
  const scripts = join(fixtures, "scripts");
  const withText = ({ script_file, rev_note, ...entry }: ShippedScript): Script => ({
    ...entry,
    revNote: rev_note,
    isPublic: true,
    own: false,
    text: readFileSync(join(scripts, script_file), "utf8"),
  });
  return {
    regions: readRows(join(fixtures, "catalogue", "regions.json")),
    ownImages,
    images: [
      ...readRows<ImageEntry>(join(fixtures, "catalogue", "images.json")).filter(({ id }) => !Object.hasOwn(ownImages, id)),
      ...Object.entries(ownImages).map(ownImage),
    ],
    types: readRows(join(fixtures, "catalogue", "types.json")),
    kernels: readRows(join(fixtures, "catalogue", "kernels.json")),
    scripts: readRows<ShippedScript>(join(scripts, "scripts.json")).map(withText),
    balancerTypes: readRows(join(fixtures, "catalogue", "balancer-types.json")),
    volumeTypes: readRows(join(fixtures, "catalogue", "volume-types.json")),
    transferPrices: readRows(join(fixtures, "catalogue", "network-transfer-prices.json")),
    maintenancePolicies: readRows(join(fixtures, "catalogue", "maintenance-policies.json")),
  };
};
