import { wireTime } from "../../kernel/clock.js";
import { notFound } from "../../kernel/fault.js";
import { bareName, nextSerial } from "../../kernel/names.js";
import type { Row } from "../../store/store.js";
import { type Cloud, type CloudStore, observed, type Reader, type Tx } from "../cloud.js";
import type { Entity } from "../events/event.js";

/** Contract 12. Times in seconds; 0 is "the default". */
export interface DomainRow extends Row {
  type: "master" | "slave";
  /** As it was given; compared without case. */
  domain: string;
  group: string;
  status: "active" | "disabled" | "edit_mode";
  description: string;
  soaEmail: string;
  retrySec: number;
  expireSec: number;
  refreshSec: number;
  ttlSec: number;
  masterIps: string[];
  axfrIps: string[];
  tags: string[];
  /** Of the SOA; grows with every change of the domain or its records, also over restarts. */
  serial: number;
  createdMs: number;
  updatedMs: number;
}

/** What the name server's side last found. */
export interface ObservedDomain {
  /** Why it cannot be answered as it should; null when it can. */
  error: string | null;
}

const byName = (row: DomainRow) => bareName(row.domain);

export const domainNamed = (reader: Reader, name: string): DomainRow | undefined => reader.find("domain", byName, bareName(name))[0];

export const requireDomain = (reader: Pick<CloudStore | Tx, "get">, id: number | undefined): DomainRow => {
  const row = reader.get("domain", id ?? 0);
  if (!row) throw notFound();
  return row;
};

export const domainEntity = (row: { id: number; domain: string }): Entity => ({ kind: "domain", id: row.id, label: row.domain });

/** The contract's steps (section 12), in seconds. */
const ttlSteps = [0, 30, 120, 300, 3600, 7200, 14_400, 28_800, 57_600, 86_400, 172_800, 345_600, 604_800, 1_209_600, 2_419_200];
const lastStep = 2_419_200;

/** Rounded up to the next step; above the last to the last. */
export const ttlStep = (seconds: number): number => ttlSteps.find((step) => step >= seconds) ?? lastStep;

/** What 0 stands for (contract 12), in seconds. */
export const soaTimes = (row: DomainRow): { retry: number; expire: number; refresh: number; ttl: number } => ({
  retry: row.retrySec || 14_400,
  expire: row.expireSec || 1_209_600,
  refresh: row.refreshSec || 14_400,
  ttl: row.ttlSec || 86_400,
});

/** To be called in the commit that changes a domain or one of its records. */
export const touchDomain = (tx: Tx, cloud: Pick<Cloud, "clock">, row: DomainRow): DomainRow => {
  const now = cloud.clock.now();
  return tx.update("domain", row.id, { serial: nextSerial(row.serial, now), updatedMs: now });
};

export const domainView = (cloud: Pick<Cloud, "store">, row: DomainRow) => {
  const error = row.status === "active" ? (observed(cloud.store, "domain", row.id)?.error ?? null) : null;
  return {
    id: row.id,
    type: row.type,
    domain: row.domain,
    group: row.group,
    status: error === null ? row.status : ("has_errors" as const),
    description: row.description,
    soaEmail: row.soaEmail,
    retrySec: row.retrySec,
    masterIps: row.masterIps,
    axfrIps: row.axfrIps,
    expireSec: row.expireSec,
    refreshSec: row.refreshSec,
    ttlSec: row.ttlSec,
    tags: row.tags,
    errors: error ?? "",
    created: wireTime(row.createdMs),
    updated: wireTime(row.updatedMs),
  };
};
