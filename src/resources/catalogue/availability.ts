import { z } from "zod";
import { notFound } from "../../kernel/fault.js";
import { field, filterableNames } from "../../kernel/field.js";
import { type Listing, type Route, route } from "../../kernel/route.js";
import type { Cloud } from "../cloud.js";
import type { Catalogue, MaintenancePolicy } from "./catalogue.js";

/** Which plan can be had where (contract section 16); nothing is ever sold out here. */
export const regionAvailabilityFields = {
  region: field.read(z.string(), "Region id.", { filter: true }),
  plan: field.read(z.string(), "Type id.", { filter: true }),
  available: field.read(z.boolean(), "Always true.", { filter: true }),
};

/** Which services the account may use where (contract section 16). */
export const accountAvailabilityFields = {
  region: field.read(z.string(), "Region id."),
  available: field.read(z.array(z.string()), "Services that can be used: those that Backlot has."),
  unavailable: field.read(z.array(z.string()), "The region's other services in the public cloud."),
};

/** Contract section 16; recorded only, nothing is ever maintained. */
export const maintenancePolicyFields = {
  slug: field.read(z.string(), "`cloud/NAME`."),
  label: field.read(z.string(), "Name."),
  type: field.read(z.string(), "`migrate` or `power_off_on`."),
  notificationPeriodSec: field.read(z.int(), "Notice in seconds."),
  isDefault: field.read(z.boolean(), "Taken when none is chosen."),
};

interface Offer {
  region: string;
  plan: string;
  available: boolean;
}

/** What the region catalogue calls the services that Backlot has. */
const servedHere = ["Instances", "Balancers", "Block Storage", "Scripts", "Backups"];

const offersIn = ({ types }: Catalogue, region: string): Offer[] => types.map(({ id }) => ({ region, plan: id, available: true }));

const accountView = (region: Catalogue["regions"][number]) => {
  const capabilities = Array.isArray(region.capabilities) ? (region.capabilities as string[]) : [];
  return {
    region: region.id,
    available: capabilities.filter((name) => servedHere.includes(name)),
    unavailable: capabilities.filter((name) => !servedHere.includes(name)),
  };
};

const regionOf = ({ regions }: Catalogue, id: string | undefined): Catalogue["regions"][number] => {
  const region = regions.find((entry) => entry.id === id);
  if (!region) throw notFound();
  return region;
};

export const availabilityRoutes: readonly Route<Cloud>[] = [
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/regions/availability",
    scope: null,
    summary: "Lists which plans can be had in which regions: all of them, everywhere.",
    answers: "list",
    shows: "RegionAvailability",
    run: ({ cloud }): Listing<Offer> => ({
      rows: cloud.catalogue.regions.flatMap(({ id }) => offersIn(cloud.catalogue, id)),
      view: (offer) => offer,
      filterable: filterableNames(regionAvailabilityFields),
      fieldValue: (offer, name) => offer[name as keyof Offer],
    }),
  }),
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/regions/:id/availability",
    textParams: ["id"],
    scope: null,
    summary: "Which plans can be had in one region, without the envelope of a list.",
    answers: "array",
    shows: "RegionAvailability",
    run: ({ cloud, texts }) => offersIn(cloud.catalogue, regionOf(cloud.catalogue, texts.id).id),
  }),
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/account/availability",
    scope: "account",
    summary: "Lists which services can be used in which regions.",
    answers: "list",
    shows: "AccountAvailability",
    run: ({ cloud }): Listing<Catalogue["regions"][number]> => ({
      rows: cloud.catalogue.regions,
      view: accountView,
      filterable: [],
      fieldValue: () => undefined,
    }),
  }),
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/account/availability/:id",
    textParams: ["id"],
    scope: "account",
    summary: "Which services can be used in one region.",
    answers: "one",
    shows: "AccountAvailability",
    run: ({ cloud, texts }) => accountView(regionOf(cloud.catalogue, texts.id)),
  }),
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/maintenance/policies",
    scope: null,
    summary: "Lists what maintenance would do to an instance; none ever comes.",
    answers: "list",
    shows: "MaintenancePolicy",
    run: ({ cloud }): Listing<MaintenancePolicy> => ({
      rows: cloud.catalogue.maintenancePolicies,
      view: (entry) => entry,
      filterable: [],
      fieldValue: () => undefined,
    }),
  }),
];
