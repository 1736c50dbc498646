import { z } from "zod";
import { field, text } from "../../kernel/field.js";

/** Empty is "not set": that is how an unset member reads, and clients send whole objects back. */
const Email = text(0, 128).refine((value) => value === "" || z.email().safeParse(value).success, "Must be an e-mail address.");
const Country = z.string().regex(/^([A-Za-z]{2})?$/, "Must be a code of two letters.");

/** Contract 14.1. */
export const accountFields = {
  address_1: field.write(text(0, 64), "First line of the address."),
  address_2: field.write(text(0, 64), "Second line."),
  city: field.write(text(0, 24), "City."),
  company: field.write(text(0, 128), "Company."),
  country: field.write(Country, "Two letters."),
  email: field.write(Email, "Where the account's owner is reached; nothing is sent."),
  firstName: field.write(text(0, 50), "First name."),
  lastName: field.write(text(0, 50), "Last name."),
  phone: field.write(text(0, 32), "Phone number."),
  state: field.write(text(0, 24), "State or province."),
  taxId: field.write(text(0, 25), "Tax number."),
  zip: field.write(z.string(), "Postal code."),
  activeSince: field.read(z.string(), "First start of this state; UTC, `YYYY-MM-DDTHH:MM:SS`."),
  activePromotions: field.read(z.array(z.unknown()), "Always empty."),
  balance: field.read(z.number(), "USD: invoices less payments; below nothing is credit."),
  balanceUninvoiced: field.read(z.number(), "USD: the running billing month so far."),
  billingSource: field.read(z.string(), "Who bills."),
  capabilities: field.read(z.array(z.string()), "What can be used here, in the words of `/v4/regions`."),
  creditCard: field.read(z.object({ lastFour: z.string().nullable(), expiry: z.string().nullable() }), "The default card; nulls without one."),
  euuid: field.read(z.string(), "Id of the account, upper case."),
};

/** Contract 14.2. */
export const settingsFields = {
  managed: field.read(z.boolean(), "Always false."),
  longviewSubscription: field.write(z.string().nullable(), "Always null; setting it is refused."),
  networkHelper: field.write(z.boolean(), "Default for new config profiles."),
  backupsEnabled: field.write(z.boolean(), "New instances have the backup service."),
  objectStorage: field.read(z.string(), "Always `disabled`."),
  interfacesForNewInstances: field.write(
    z.enum(["legacy_config_only", "legacy_config_default_but_linode_allowed", "linode_default_but_legacy_config_allowed", "linode_only"]),
    "Always `legacy_config_only`, for there are no other interfaces; any other word is refused.",
  ),
  maintenancePolicy: field.write(
    z.enum(["cloud/migrate", "cloud/power_off_on"]).nullable(),
    "What new instances have; recorded, there is no maintenance.",
  ),
};

const agreed = (note: string) => field.write(z.boolean(), note);

/** Contract 14.6. */
export const agreementFields = {
  billingAgreement: agreed("The billing agreement."),
  euModel: agreed("The EU standard contractual clauses."),
  masterServiceAgreement: agreed("The master service agreement."),
  privacyPolicy: agreed("The privacy policy."),
};

/** Contract 14.3. */
export const transferFields = {
  used: field.read(z.int(), "GB that went out this calendar month, whole ones."),
  quota: field.read(z.int(), "GB: the plans' transfer, by the part of the month their instances are there."),
  billable: field.read(z.int(), "GB beyond the quota."),
  regionTransfers: field.read(
    z.array(z.object({ id: z.string(), used: z.int(), quota: z.int(), billable: z.int() })),
    "Regions with a price of their own have a pool of their own.",
  ),
};
