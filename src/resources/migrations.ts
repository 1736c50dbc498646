import type { Row } from "../store/store.js";

/** What a migration is given: the rows by kind, and the rest of the document as it is. */
interface Document {
  rows: Record<string, readonly Row[]>;
}

/** Version 2: the whole API. Rows of version 1 lack these members; whatever is not here is a kind that version 1 did not have. */
const sinceVersion2: Readonly<Record<string, object>> = {
  address: { sharedWith: [] },
  // Their disks and config profile are made at the first start (instances/layout.ts): sizes need the catalogue.
  instance: {
    diskId: null,
    profileId: null,
    rescue: false,
    userData: null,
    diskEncryption: "disabled",
    maintenancePolicy: null,
    backupsSinceMs: null,
  },
};

const filled = <D extends Document>(document: D, defaults: Readonly<Record<string, object>>): D => ({
  ...document,
  rows: Object.fromEntries(
    Object.entries(document.rows).map(([kind, rows]) => [kind, defaults[kind] ? rows.map((row) => ({ ...defaults[kind], ...row })) : rows]),
  ),
});

export const schemaVersion = 2;

/** By the version they start from. */
export const migrations = { 1: <D extends Document>(document: D): D => filled(document, sinceVersion2) };
