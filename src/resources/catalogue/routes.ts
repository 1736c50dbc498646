import { notFound } from "../../kernel/fault.js";
import { type FieldTable, filterableNames } from "../../kernel/field.js";
import { type Listing, type Route, route } from "../../kernel/route.js";
import { snake } from "../../kernel/snake.js";
import type { Cloud } from "../cloud.js";
import type { Catalogue } from "./catalogue.js";
import { kernelFields, priceFields, regionFields, typeFields } from "./fields.js";

interface Collection {
  name: Exclude<keyof Catalogue, "images" | "scripts" | "ownImages">;
  path: string;
  shows: string;
  fields: FieldTable;
  /** Slugs hold a slash, so they take the rest of the path. Absent: entries are not served one by one. */
  id?: "text" | "slug";
}

const collections: readonly Collection[] = [
  { name: "regions", path: "/v4/regions", shows: "Region", fields: regionFields, id: "text" },
  { name: "types", path: "/v4/cloud/types", shows: "Type", fields: typeFields, id: "text" },
  { name: "kernels", path: "/v4/cloud/kernels", shows: "Kernel", fields: kernelFields, id: "slug" },
  { name: "balancerTypes", path: "/v4/balancers/types", shows: "Price", fields: priceFields },
  { name: "volumeTypes", path: "/v4/volumes/types", shows: "Price", fields: priceFields },
  { name: "transferPrices", path: "/v4/network-transfer/prices", shows: "Price", fields: priceFields },
];

const words: Partial<Record<keyof Catalogue, string>> = {
  balancerTypes: "prices of balancers",
  volumeTypes: "prices of volumes, by the GB",
  transferPrices: "prices of transfer beyond the quota, by the GB",
};

type Entry = { id: string; [member: string]: unknown };

const listRoute = ({ name, path, shows, fields }: Collection): Route<Cloud> =>
  route<Cloud, undefined>({
    method: "GET",
    path,
    scope: null,
    summary: `Lists the ${words[name] ?? name}.`,
    answers: "list",
    shows,
    run: ({ cloud }): Listing<Entry> => ({
      rows: cloud.catalogue[name] as readonly Entry[],
      view: (entry) => entry,
      filterable: filterableNames(fields),
      fieldValue: (entry, member) => entry[snake(member)],
    }),
  });

const entryRoute = ({ name, path, shows, id }: Collection): Route<Cloud> =>
  route<Cloud, undefined>({
    method: "GET",
    path: `${path}/${id === "slug" ? "*" : ":"}id`,
    textParams: ["id"],
    scope: null,
    summary: `Reads one of the ${name}.`,
    answers: "one",
    verbatimAnswer: true,
    shows,
    run: ({ cloud, texts }) => {
      const entry = (cloud.catalogue[name] as readonly Entry[]).find((candidate) => candidate.id === texts.id);
      if (!entry) throw notFound();
      return entry;
    },
  });

/** Catalogue lists are answered without a token (description 5.5). Entries are stored as they stand on the wire. */
export const catalogueRoutes = collections.flatMap((collection) => [listRoute(collection), ...(collection.id ? [entryRoute(collection)] : [])]);
