import { Fault, invalid, type Problem } from "../../kernel/fault.js";
import type { CreateBody } from "../../kernel/field.js";
import type { Cloud, CloudStore, Tx } from "../cloud.js";
import { observed } from "../cloud.js";
import { deployProblems } from "../scripts/deploy.js";
import type { instanceFields } from "./fields.js";
import { type InstanceRow, instanceStatus } from "./instance.js";

export type InstanceCreate = CreateBody<typeof instanceFields>;

const labelTaken = (tx: Pick<Tx, "list">, label: string, except: number | null): boolean =>
  tx.list("instance").some((row) => row.label === label && row.id !== except);

/** `instance` and the id (contract 9.1), with a number behind it when somebody chose just that. */
export const defaultLabel = (tx: Pick<Tx, "list">, id: number): string => {
  for (let count = 1; ; count += 1) {
    const label = count === 1 ? `instance${id}` : `instance${id}-${count}`;
    if (!labelTaken(tx, label, id)) return label;
  }
};

export const labelProblems = (tx: Pick<Tx, "list">, label: string | undefined, except: number | null): Problem[] =>
  label !== undefined && labelTaken(tx, label, except) ? [{ reason: "Another instance has it; it must be unique.", field: "label" }] : [];

/** Everything that can be wrong with a create, at once (contract 9.2). */
export const createProblems = (tx: Pick<Tx, "get" | "list">, cloud: Pick<Cloud, "catalogue">, body: Partial<InstanceCreate>): Problem[] => {
  const problems = labelProblems(tx, body.label, null);
  const { regions, types, images } = cloud.catalogue;
  if (!regions.some((entry) => entry.id === body.region)) problems.push({ reason: "Unknown id; see /v4/regions.", field: "region" });
  if (!types.some((entry) => entry.id === body.type)) problems.push({ reason: "No plan has this id; see /v4/cloud/types.", field: "type" });
  const image = body.image ?? null;
  if (image !== null && !images.some((entry) => entry.id === image)) problems.push({ reason: "Unknown id; see /v4/images.", field: "image" });
  // Description 2.4; newer editions of the public API also take keys instead.
  if (image !== null && body.rootPass === undefined) {
    problems.push({ reason: "Needed when an image is given.", field: "rootPass" });
  }
  if (image === null && body.booted === true) problems.push({ reason: "An instance without an image cannot boot.", field: "booted" });
  problems.push(...deployProblems(tx, cloud, image, body));
  return problems;
};

export const refuse = (problems: readonly Problem[]): void => {
  if (problems.length > 0) throw new Fault("invalid", problems);
};

/** Contract 9.4: an instance with a job under way takes no other. */
const requireIdle = (row: InstanceRow): void => {
  if (row.job) throw invalid("Instance busy.");
};

/** Which verbs are legal when (contract 9.4). Throws the reason. */
export const requireLegal = (store: Pick<CloudStore, "observed">, row: InstanceRow, verb: "boot" | "reboot" | "shutdown"): void => {
  // The set-up order of description 4.3 boots right after creation, so a create that does not boot never stands in the way.
  if (!(row.job?.verb === "create" && row.power === "off")) requireIdle(row);
  const status = row.job ? "offline" : instanceStatus(row, observed(store as CloudStore, "instance", row.id));
  if (verb === "boot") {
    if (row.image === null) throw invalid("There is nothing to boot: the instance has no image.");
    if (status === "running") throw invalid("The instance is already running.");
  } else if (status !== "running" && !(verb === "shutdown" && row.power === "on")) {
    throw invalid(`The instance is ${status}; boot it first.`);
  }
};
