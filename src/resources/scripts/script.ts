import { wireTime } from "../../kernel/clock.js";
import { type ScriptField, scriptFieldsOf } from "../../kernel/script-fields.js";
import type { Row } from "../../store/store.js";
import type { Cloud, Reader, Tx } from "../cloud.js";
import type { DiskRow } from "../disks/disk.js";
import type { Entity } from "../events/event.js";

/** A script of the account. Its questions are read from the text whenever somebody asks (one home). */
export interface ScriptRow extends Row {
  label: string;
  description: string;
  images: string[];
  isPublic: boolean;
  revNote: string;
  text: string;
  username: string;
  createdMs: number;
  updatedMs: number;
}

/** How often a script was deployed, shipped or not; one row a script. */
export interface DeploymentRow extends Row {
  scriptId: number;
  total: number;
}

/** The account's own begin here, so that no script Backlot ever ships takes the id of one. */
export const firstOwnScriptId = 1_001;

/** A script as the rules and a listing see it, whoever wrote it. */
export interface Script {
  id: number;
  label: string;
  description: string;
  images: readonly string[];
  isPublic: boolean;
  revNote: string;
  text: string;
  username: string;
  /** Wire times. */
  created: string;
  updated: string;
  /** False for those that Backlot ships. */
  own: boolean;
}

export const ownScript = (row: ScriptRow): Script => ({ ...row, created: wireTime(row.createdMs), updated: wireTime(row.updatedMs), own: true });

export const anyScript = (reader: Reader, cloud: Pick<Cloud, "catalogue">, id: number | undefined): Script | undefined => {
  const shipped = cloud.catalogue.scripts.find((entry) => entry.id === id);
  if (shipped) return shipped;
  const row = reader.get("script", id ?? 0);
  return row && ownScript(row);
};

const scriptOf = (row: DiskRow) => row.script?.id ?? null;
const ofScript = (row: DeploymentRow): number => row.scriptId;

export const deploymentsTotal = (reader: Reader, id: number): number => reader.find("deployment", ofScript, id)[0]?.total ?? 0;

/** Counts one deployment, in the commit that asks for it. */
export const countDeployment = (tx: Tx, scriptId: number): void => {
  const row = tx.find("deployment", ofScript, scriptId)[0];
  if (row) tx.update("deployment", row.id, { total: row.total + 1 });
  else tx.insert("deployment", { scriptId, total: 1 });
};

export const scriptEntity = (row: { id: number; label: string }): Entity => ({ kind: "script", id: row.id, label: row.label });

/** Contract 13.2. `isMine`: the caller belongs to the account that wrote it. */
export const scriptView = (reader: Reader, script: Script, isMine: boolean) => ({
  id: script.id,
  username: script.username,
  userGravatarId: "",
  label: script.label,
  description: script.description,
  images: script.images,
  deploymentsTotal: deploymentsTotal(reader, script.id),
  deploymentsActive: reader.find("disk", scriptOf, script.id).length,
  isPublic: script.isPublic,
  created: script.created,
  updated: script.updated,
  revNote: script.revNote,
  script: script.text,
  userDefinedFields: scriptFieldsOf(script.text).fields satisfies readonly ScriptField[],
  mine: isMine,
  ordinal: 0,
  logoUrl: "",
});
