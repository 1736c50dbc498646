import { Fault, invalid, type Problem } from "../../kernel/fault.js";
import type { CreateBody } from "../../kernel/field.js";
import type { ScriptEntry } from "../catalogue/catalogue.js";
import type { Cloud, CloudStore, Tx } from "../cloud.js";
import { observed } from "../cloud.js";
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

/** Answers to a script's user defined fields (contract 9.2, 13.2), or what is wrong with them. */
export const scriptAnswers = (script: ScriptEntry, given: Record<string, string>): { data: Record<string, string>; problems: Problem[] } => {
  const problems: Problem[] = [];
  const data: Record<string, string> = {};
  for (const udf of script.user_defined_fields) {
    const value = Object.hasOwn(given, udf.name) ? given[udf.name] : udf.default;
    const choices = (udf.oneof ?? udf.manyof)?.split(",");
    const chosen = udf.manyof === undefined ? [value] : (value ?? "").split(",").filter((entry) => entry !== "");
    if (value === undefined) problems.push({ reason: "The script needs an answer.", field: `scriptData.${udf.name}` });
    else if (choices && !chosen.every((entry) => choices.includes(entry ?? ""))) {
      problems.push({ reason: `Must be one of ${choices.join(", ")}.`, field: `scriptData.${udf.name}` });
    } else data[udf.name] = value;
  }
  return { data, problems };
};

/** Everything that can be wrong with a create, at once (contract 9.2). */
export const createProblems = (tx: Pick<Tx, "list">, cloud: Pick<Cloud, "catalogue">, body: Partial<InstanceCreate>): Problem[] => {
  const problems = labelProblems(tx, body.label, null);
  const { regions, types, images, scripts } = cloud.catalogue;
  if (!regions.some((entry) => entry.id === body.region)) problems.push({ reason: "Unknown id; see /v4/regions.", field: "region" });
  if (!types.some((entry) => entry.id === body.type)) problems.push({ reason: "No plan has this id; see /v4/cloud/types.", field: "type" });
  const image = body.image ?? null;
  if (image !== null && !images.some((entry) => entry.id === image)) problems.push({ reason: "Unknown id; see /v4/images.", field: "image" });
  // Description 2.4; newer editions of the public API also take keys instead.
  if (image !== null && body.rootPass === undefined) {
    problems.push({ reason: "Needed when an image is given.", field: "rootPass" });
  }
  if (image === null && body.booted === true) problems.push({ reason: "An instance without an image cannot boot.", field: "booted" });
  if (body.scriptId !== undefined) {
    const script = scripts.find((entry) => entry.id === body.scriptId);
    if (!script) problems.push({ reason: "No script has this id.", field: "scriptId" });
    else if (image === null) problems.push({ reason: "A script needs an image to run on.", field: "scriptId" });
    else if (!script.images.includes("any/all") && !script.images.includes(image)) {
      problems.push({ reason: `This script runs on ${script.images.join(", ")} only.`, field: "scriptId" });
    } else problems.push(...scriptAnswers(script, body.scriptData ?? {}).problems);
  }
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
