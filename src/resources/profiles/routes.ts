import { definedOf } from "../../kernel/defined.js";
import { createSchema, filterableNames, updateSchema } from "../../kernel/field.js";
import { type Listing, route } from "../../kernel/route.js";
import { accountOf } from "../account/account.js";
import type { Cloud, Tx } from "../cloud.js";
import { recordEvent } from "../events/event.js";
import { type InstanceRow, instanceEntity, requireInstance } from "../instances/instance.js";
import { refuse, requireIdle } from "../instances/rules.js";
import { profileFields } from "./fields.js";
import { defaultHelpers, defaultRootDevice, type ProfileRow, profileEntity, profilesOf, profileView, requireProfile } from "./profile.js";
import { type ProfileCreate, type ProfileUpdate, profileProblems, rootDeviceOf } from "./rules.js";

const collection = "/v4/cloud/instances/:instanceId/configs";
const one = `${collection}/:configId`;
const defaultKernel = "cloud/latest-64bit";

const tell = (tx: Tx, cloud: Cloud, row: InstanceRow, profile: ProfileRow, change: string, username: string | undefined): void => {
  const action = `instance_config_${change}`;
  recordEvent(tx, cloud, { action, entity: instanceEntity(row), secondary: profileEntity(profile), username: username ?? null });
};

/** The members that have a home in the row under the same name. */
const plainOf = ({ helpers, devices, rootDevice, ...plain }: ProfileUpdate) => ({
  ...definedOf(plain),
  ...definedOf({ devices: devices && definedOf(devices), rootDevice: rootDeviceOf(rootDevice) }),
});

export const profileRoutes = [
  route<Cloud, undefined>({
    method: "GET",
    path: collection,
    scope: "instances",
    summary: "Lists the config profiles an instance can boot with.",
    answers: "list",
    shows: "InstanceConfig",
    run: ({ cloud, params }): Listing<ProfileRow> => ({
      rows: profilesOf(cloud.store, requireInstance(cloud.store, params.instanceId).id),
      view: profileView,
      filterable: filterableNames(profileFields),
      fieldValue: (row, name) => row[name as keyof ProfileRow],
    }),
  }),
  route<Cloud, ProfileCreate>({
    method: "POST",
    path: collection,
    scope: "instances",
    summary: "Adds a config profile to boot with.",
    body: createSchema(profileFields),
    answers: "one",
    shows: "InstanceConfig",
    rules: ({ cloud, params, body }) => profileProblems(cloud.store, cloud, requireInstance(cloud.store, params.instanceId), body),
    run: ({ cloud, params, body, caller }) =>
      cloud.store.commit((tx) => {
        const row = requireInstance(tx, params.instanceId);
        refuse(profileProblems(tx, cloud, row, body));
        const profile = tx.insert("profile", {
          instanceId: row.id,
          label: body.label,
          kernel: defaultKernel,
          comments: "",
          memoryLimit: 0,
          runLevel: "default",
          virtMode: "paravirt",
          devices: {},
          rootDevice: defaultRootDevice,
          interfaces: [],
          ...plainOf(body),
          helpers: { ...defaultHelpers, network: accountOf(tx).settings.networkHelper, ...definedOf(body.helpers) },
        });
        tell(tx, cloud, row, profile, "create", caller?.username);
        return profileView(profile);
      }),
  }),
  route<Cloud, undefined>({
    method: "GET",
    path: one,
    scope: "instances",
    summary: "Reads one config profile.",
    answers: "one",
    shows: "InstanceConfig",
    run: ({ cloud, params }) => profileView(requireProfile(cloud.store, params.instanceId, params.configId)),
  }),
  route<Cloud, ProfileUpdate>({
    method: "PUT",
    path: one,
    scope: "instances",
    summary: "Updates a config profile; it holds from the next boot on.",
    body: updateSchema(profileFields),
    answers: "one",
    shows: "InstanceConfig",
    rules: ({ cloud, params, body }) => {
      requireProfile(cloud.store, params.instanceId, params.configId);
      return profileProblems(cloud.store, cloud, requireInstance(cloud.store, params.instanceId), body);
    },
    run: ({ cloud, params, body, caller }) =>
      cloud.store.commit((tx) => {
        const row = requireInstance(tx, params.instanceId);
        const profile = requireProfile(tx, row.id, params.configId);
        refuse(profileProblems(tx, cloud, row, body));
        const updated = tx.update("profile", profile.id, { ...plainOf(body), helpers: { ...profile.helpers, ...definedOf(body.helpers) } });
        tell(tx, cloud, row, updated, "update", caller?.username);
        return profileView(updated);
      }),
  }),
  route<Cloud, undefined>({
    method: "DELETE",
    path: one,
    scope: "instances",
    summary: "Deletes a config profile; a machine that runs is left alone.",
    answers: "empty",
    run: ({ cloud, params, caller }) =>
      cloud.store.commit((tx) => {
        const row = requireInstance(tx, params.instanceId);
        const profile = requireProfile(tx, row.id, params.configId);
        requireIdle(row);
        tx.remove("profile", profile.id);
        tell(tx, cloud, row, profile, "delete", caller?.username);
      }),
  }),
];
