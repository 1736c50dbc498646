import type { Cloud, CloudStore, Tx } from "../cloud.js";

/** Whether an image has this id: the account's or a public one. */
export const knowsImage = (_reader: Pick<CloudStore | Tx, "get" | "list">, cloud: Pick<Cloud, "catalogue">, id: string): boolean =>
  cloud.catalogue.images.some((entry) => entry.id === id);
