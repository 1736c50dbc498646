import type { Problem } from "../../kernel/fault.js";
import { answerParts, fieldChoices, scriptFieldsOf } from "../../kernel/script-fields.js";
import type { Cloud, Reader, Tx } from "../cloud.js";
import { hasOwnEntrypoint } from "../images/image.js";
import { anyScript, countDeployment, type Script } from "./script.js";

/**
 * The deploy script of an instance, as it was when it was asked for: a script that is revised or deleted later changes no machine.
 * `own` is there for the account's scripts; a script that Backlot ships is known by its id.
 */
export interface DeployedScript {
  id: number;
  data: Record<string, string>;
  own?: { label: string; text: string };
}

/** What a create or rebuild says about a script (description 2.4). */
interface Asked {
  scriptId?: number | undefined;
  scriptData?: Record<string, string> | undefined;
}

/** Answers to a script's user defined fields (contract 9.2, 13.2), or what is wrong with them. Answers to what it does not ask are dropped. */
const scriptAnswers = (script: Pick<Script, "text">, given: Record<string, string>): { data: Record<string, string>; problems: Problem[] } => {
  const problems: Problem[] = [];
  const data: Record<string, string> = {};
  for (const field of scriptFieldsOf(script.text).fields) {
    if (field.header !== undefined) continue;
    const value = Object.hasOwn(given, field.name) ? given[field.name] : field.default;
    const choices = fieldChoices(field);
    if (value === undefined) problems.push({ reason: "The script needs an answer.", field: `scriptData.${field.name}` });
    else if (value.includes("\0")) problems.push({ reason: "Must not hold a NUL character.", field: `scriptData.${field.name}` });
    else if (choices && !answerParts(field, value).every((part) => choices.includes(part))) {
      const rule = field.manyof === undefined ? "one of" : "any of, separated by commas,";
      problems.push({ reason: `Must be ${rule} ${choices.join(", ")}.`, field: `scriptData.${field.name}` });
    } else data[field.name] = value;
  }
  return { data, problems };
};

/** Everything that is wrong with a script that is to run on a new machine of `image` (contract 9.2). */
export const deployProblems = (reader: Reader, cloud: Pick<Cloud, "catalogue">, image: string | null, asked: Asked): Problem[] => {
  if (asked.scriptId === undefined) return [];
  const script = anyScript(reader, cloud, asked.scriptId);
  if (!script) return [{ reason: "No script has this id; see /v4/cloud/scripts.", field: "scriptId" }];
  if (image === null) return [{ reason: "A script needs an image to run on.", field: "scriptId" }];
  if (hasOwnEntrypoint(reader, cloud, image)) {
    return [
      {
        reason: `${image} runs its own entrypoint, and nothing in it would run a script. Choose another image, or build the script's work into it.`,
        field: "scriptId",
      },
    ];
  }
  if (!script.images.includes("any/all") && !script.images.includes(image)) {
    return [{ reason: `This script runs on ${script.images.join(", ")} only.`, field: "scriptId" }];
  }
  return scriptAnswers(script, asked.scriptData ?? {}).problems;
};

/** The script as an instance keeps it; counts the deployment. To be called once `deployProblems` has none. */
export const deployScript = (tx: Tx, cloud: Pick<Cloud, "catalogue">, asked: Asked): DeployedScript | null => {
  const script = anyScript(tx, cloud, asked.scriptId);
  if (!script) return null;
  countDeployment(tx, script.id);
  const { data } = scriptAnswers(script, asked.scriptData ?? {});
  return { id: script.id, data, ...(script.own ? { own: { label: script.label, text: script.text } } : {}) };
};
