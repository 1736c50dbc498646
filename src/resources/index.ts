import type { FieldTable } from "../kernel/field.js";
import type { Route } from "../kernel/route.js";
import { absentRoutes } from "./absent/absent.js";
import { accountRoutes, accountShapes } from "./account/routes.js";
import { addressFields, instanceAddressFields } from "./addresses/fields.js";
import { addressRoutes } from "./addresses/routes.js";
import { backupFields, backupsFields } from "./backups/fields.js";
import { backupRoutes } from "./backups/routes.js";
import { balancerFields } from "./balancers/fields.js";
import { balancerRoutes } from "./balancers/routes.js";
import { billingRoutes, billingShapes } from "./billing/routes.js";
import { accountAvailabilityFields, availabilityRoutes, maintenancePolicyFields, regionAvailabilityFields } from "./catalogue/availability.js";
import { kernelFields, priceFields, regionFields, typeFields } from "./catalogue/fields.js";
import { catalogueRoutes } from "./catalogue/routes.js";
import type { Cloud } from "./cloud.js";
import { configFields } from "./configs/fields.js";
import { rebuildRoute } from "./configs/rebuild.js";
import { configRoutes } from "./configs/routes.js";
import { diskFields } from "./disks/fields.js";
import { diskRoutes } from "./disks/routes.js";
import { domainFields } from "./domains/fields.js";
import { importRoutes } from "./domains/import.js";
import { domainRoutes } from "./domains/routes.js";

import { eventFields } from "./events/fields.js";
import { eventRoutes } from "./events/routes.js";
import { imageFields } from "./images/fields.js";
import { imageRoutes } from "./images/routes.js";
import { instanceFields } from "./instances/fields.js";
import { instanceRoutes } from "./instances/routes.js";
import { loginFields } from "./logins/fields.js";
import { loginRoutes } from "./logins/routes.js";
import { nodeFields } from "./nodes/fields.js";
import { nodeRoutes } from "./nodes/routes.js";
import { notificationFields, notificationRoutes } from "./notifications/routes.js";
import { appRoutes } from "./oauth/app-routes.js";
import { clientRoutes } from "./oauth/client-routes.js";
import { appFields, clientFields } from "./oauth/fields.js";
import { sshKeyFields, userProfileFields } from "./profile/fields.js";
import { userProfileRoutes } from "./profile/routes.js";
import { sshKeyRoutes } from "./profile/ssh-key-routes.js";
import { profileFields } from "./profiles/fields.js";
import { profileRoutes } from "./profiles/routes.js";
import { recordFields } from "./records/fields.js";
import { recordRoutes } from "./records/routes.js";
import { scriptFields } from "./scripts/fields.js";
import { scriptRoutes } from "./scripts/routes.js";
import { tagFields, taggedThingFields, tagRoutes } from "./tags/routes.js";
import { tokenFields } from "./tokens/fields.js";
import { tokenRoutes } from "./tokens/routes.js";
import { userFields } from "./users/fields.js";
import { userRoutes } from "./users/routes.js";
import { volumeFields } from "./volumes/fields.js";
import { volumeRoutes } from "./volumes/routes.js";

/** What Backlot has. Paths with a fixed last part stand before those whose last part is an id. */
const builtRoutes: readonly Route<Cloud>[] = [
  ...availabilityRoutes,
  ...catalogueRoutes,
  ...scriptRoutes,
  ...imageRoutes,
  ...balancerRoutes,
  ...configRoutes,
  rebuildRoute,
  ...nodeRoutes,
  ...instanceRoutes,
  ...diskRoutes,
  ...backupRoutes,
  ...profileRoutes,
  ...addressRoutes,
  ...importRoutes,
  ...domainRoutes,
  ...recordRoutes,
  ...eventRoutes,
  ...accountRoutes,
  ...billingRoutes,
  ...notificationRoutes,
  ...tagRoutes,
  ...userRoutes,
  ...loginRoutes,
  ...userProfileRoutes,
  ...sshKeyRoutes,
  ...tokenRoutes,
  ...clientRoutes,
  ...appRoutes,
  ...volumeRoutes,
];

const isBuilt = ({ method, path }: Route<Cloud>): boolean => builtRoutes.some((entry) => entry.method === method && entry.path === path);

/** Every route of the native dialect: what is not built stands first, since its paths are fixed, and only as long as it is not. */
export const routes: readonly Route<Cloud>[] = [...absentRoutes.filter((entry) => !isBuilt(entry)), ...builtRoutes];

/** The field table behind each name a route `shows`. */
export const shapes: Readonly<Record<string, FieldTable>> = {
  RegionAvailability: regionAvailabilityFields,
  AccountAvailability: accountAvailabilityFields,
  MaintenancePolicy: maintenancePolicyFields,
  Region: regionFields,
  Image: imageFields,
  Type: typeFields,
  Kernel: kernelFields,
  Script: scriptFields,
  Balancer: balancerFields,
  Config: configFields,
  Node: nodeFields,
  Instance: instanceFields,
  Disk: diskFields,
  Backup: backupFields,
  Backups: backupsFields,
  InstanceConfig: profileFields,
  Address: addressFields,
  Domain: domainFields,
  Record: recordFields,
  InstanceAddresses: instanceAddressFields,
  Event: eventFields,
  Price: priceFields,
  ...accountShapes,
  ...billingShapes,
  Notification: notificationFields,
  Tag: tagFields,
  TaggedThing: taggedThingFields,
  User: userFields,
  Login: loginFields,
  Profile: userProfileFields,
  SshKey: sshKeyFields,
  Token: tokenFields,
  OauthClient: clientFields,
  App: appFields,
  Volume: volumeFields,
};
