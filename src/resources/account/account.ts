import { wireTime } from "../../kernel/clock.js";
import type { Row } from "../../store/store.js";
import { sumOf } from "../billing/bill.js";
import { balanceCents, billingRow, uninvoiced, usdOf } from "../billing/invoice.js";
import type { Cloud, Reader, Tx } from "../cloud.js";
import type { Entity } from "../events/event.js";

/** What a caller may say about the account (contract 14.1). */
export interface AccountDetails {
  address_1: string;
  address_2: string;
  city: string;
  company: string;
  country: string;
  email: string;
  firstName: string;
  lastName: string;
  phone: string;
  state: string;
  taxId: string;
  zip: string;
}

/** Contract 14.2. */
export interface AccountSettings {
  /** Default of `helpers.network` in new config profiles. */
  networkHelper: boolean;
  /** New instances have the backup service unless they say otherwise. */
  backupsEnabled: boolean;
  /** Of new instances that do not say; absent in rows of before there was one. */
  maintenancePolicy?: string | null;
}

/** Contract 14.6: what was agreed to. */
export interface Agreements {
  billingAgreement: boolean;
  euModel: boolean;
  masterServiceAgreement: boolean;
  privacyPolicy: boolean;
}

/** What was ever changed about the account (one row, or none). */
export interface AccountRow extends Row {
  details: AccountDetails;
  settings: AccountSettings;
  agreements: Agreements;
  /** Events up to this id count as seen. */
  eventsSeen: number;
}

const fresh: Omit<AccountRow, "id"> = {
  details: {
    address_1: "",
    address_2: "",
    city: "",
    company: "",
    country: "",
    email: "",
    firstName: "",
    lastName: "",
    phone: "",
    state: "",
    taxId: "",
    zip: "",
  },
  settings: { networkHelper: true, backupsEnabled: false },
  agreements: { billingAgreement: false, euModel: false, masterServiceAgreement: false, privacyPolicy: false },
  eventsSeen: 0,
};

export const accountOf = (reader: Reader): Omit<AccountRow, "id"> => reader.list("account")[0] ?? fresh;

export const updateAccount = (tx: Tx, patch: Partial<Omit<AccountRow, "id">>): AccountRow => {
  const row = tx.list("account")[0] ?? tx.insert("account", fresh);
  return tx.update("account", row.id, patch);
};

/** The account's events are about the account itself (contract 15.3). */
export const accountEntity = (reader: Reader): Entity => ({ kind: "account", id: 1, label: accountOf(reader).details.company });

/** Feature words as in `/v4/regions`: what this account can really use. */
const capabilities = ["Instances", "Balancers", "Block Storage", "Scripts"];

/** Contract 14.1. The balance is what invoices ask for less what was paid; the running month stands apart. */
export const accountView = (cloud: Pick<Cloud, "store" | "catalogue" | "billed">, reader: Reader = cloud.store) => {
  const card = reader.list("paymentMethod").find((row) => row.isDefault);
  return {
    ...accountOf(reader).details,
    activeSince: wireTime(billingRow(reader)?.sinceMs ?? 0),
    activePromotions: [],
    balance: usdOf(balanceCents(reader)),
    balanceUninvoiced: usdOf(sumOf(uninvoiced(cloud))),
    billingSource: "cloud",
    capabilities,
    creditCard: { lastFour: card?.lastFour ?? null, expiry: card?.expiry ?? null },
    euuid: cloud.store.owner.toUpperCase(),
  };
};

/** Contract 14.2. */
export const settingsView = ({ networkHelper, backupsEnabled, maintenancePolicy = null }: AccountSettings) => ({
  managed: false,
  longviewSubscription: null,
  networkHelper,
  backupsEnabled,
  objectStorage: "disabled",
  interfacesForNewInstances: "legacy_config_only",
  maintenancePolicy,
});
