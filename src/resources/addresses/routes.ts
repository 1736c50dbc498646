import { Fault, notFound, type Problem } from "../../kernel/fault.js";
import { type CreateBody, createSchema, filterableNames, type UpdateBody, updateSchema } from "../../kernel/field.js";
import { type Call, type Listing, type Route, route } from "../../kernel/route.js";
import type { Cloud, Reader } from "../cloud.js";
import { isDeleting, requireInstance } from "../instances/instance.js";
import { type AddressRow, addressesOf, addressRow, addressView, reverseName, sharedBy } from "./address.js";
import { addressFields, assignFields, reverseFields, shareFields } from "./fields.js";
import { reverseProblems, setReverseName } from "./reverse-name.js";
import {
  type Assignment,
  addAddress,
  assignAddresses,
  assignProblems,
  removeAddress,
  type Share,
  shareAddresses,
  shareProblems,
  typeProblems,
} from "./rules.js";

type Create = CreateBody<typeof addressFields>;
type Reverse = UpdateBody<typeof reverseFields>;

const noInstance: Problem = { reason: "No active instance has this id.", field: "cloudId" };
const ofInstanceFields = { type: addressFields.type, public: addressFields.public };

const requireAddress = (reader: Reader, address: string | undefined): AddressRow => {
  const row = addressRow(reader, address ?? "");
  if (!row) throw notFound();
  return row;
};

/** An address under an instance: one of another instance is not found there. */
const requireOwn = (reader: Reader, { params, texts }: Pick<Call<Cloud, unknown>, "params" | "texts">): AddressRow => {
  const instance = requireInstance(reader, params.instanceId);
  const row = requireAddress(reader, texts.address);
  if (row.instanceId !== instance.id) throw notFound();
  return row;
};

/** Without a view of every row: a filter over tens of thousands looks at one member of each. */
const fieldValue = (cloud: Cloud, row: AddressRow, name: string): unknown => {
  if (name === "address" || name === "region") return row[name];
  if (name === "rdns") return reverseName(row);
  if (name === "type") return "ipv4";
  return addressView(cloud, row)[name as keyof ReturnType<typeof addressView>];
};

/** One path for reading and setting a reverse name, reached in two ways. */
const reverseRoute = (path: string, scope: string, find: (reader: Reader, call: Call<Cloud, unknown>) => AddressRow): Route<Cloud> =>
  route<Cloud, Reverse>({
    method: "PUT",
    path,
    textParams: ["address"],
    scope,
    summary: "Sets what the address resolves back to; null resets it.",
    body: updateSchema(reverseFields),
    answers: "one",
    shows: "Address",
    rules: (call) => reverseProblems(call.cloud.store, find(call.cloud.store, call), call.body.rdns),
    run: (call) =>
      call.cloud.store.commit((tx) => addressView(call.cloud, setReverseName(tx, call.cloud, find(tx, call), call.body.rdns, call.caller?.username))),
  });

/** The newest spelling, and the one of 2018 (contract 2.5). */
const bothSpellings = (name: string): string[] => [`/v4/networking/ips/${name}`, `/v4/networking/ipv4/${name}`];

const assignRoute = (path: string): Route<Cloud> =>
  route<Cloud, Assignment>({
    method: "POST",
    path,
    scope: path.includes("/ipv4/") ? ["ips", "instances"] : "ips",
    summary: "Moves addresses between instances of a region, all or none; running machines follow at once.",
    body: createSchema(assignFields),
    answers: "empty",
    rules: ({ cloud, body: { region, assignments } }) =>
      region === undefined || assignments === undefined ? [] : assignProblems(cloud.store, { region, assignments }),
    run: ({ cloud, body, caller }) => cloud.store.commit((tx) => assignAddresses(tx, cloud, body, caller?.username)),
  });

const shareRoute = (path: string): Route<Cloud> =>
  route<Cloud, Share>({
    method: "POST",
    path,
    scope: path.includes("/ipv4/") ? ["ips", "instances"] : "ips",
    summary: "Which addresses of others an instance takes over while those do not run; the list replaces the one before.",
    body: createSchema(shareFields),
    answers: "empty",
    rules: ({ cloud, body: { cloudId, ips } }) => (cloudId === undefined ? [] : shareProblems(cloud.store, { cloudId, ips: ips ?? [] })),
    run: ({ cloud, body }) => cloud.store.commit((tx) => shareAddresses(tx, body)),
  });

export const addressRoutes = [
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/networking/ips",
    scope: "ips",
    summary: "Lists the account's addresses, public and private.",
    answers: "list",
    shows: "Address",
    run: ({ cloud }): Listing<AddressRow> => ({
      rows: cloud.store.list("address"),
      view: (row) => addressView(cloud, row),
      filterable: filterableNames(addressFields),
      fieldValue: (row, name) => fieldValue(cloud, row, name),
    }),
  }),
  route<Cloud, Create>({
    method: "POST",
    path: "/v4/networking/ips",
    scope: "ips",
    summary: "Gives an instance one more address.",
    body: createSchema(addressFields),
    answers: "one",
    shows: "Address",
    rules: ({ cloud, body }) => [
      ...(body.type === undefined ? [] : typeProblems(body.type)),
      ...(body.cloudId === undefined || cloud.store.get("instance", body.cloudId) ? [] : [noInstance]),
    ],
    run: ({ cloud, body, caller }) =>
      cloud.store.commit((tx) => {
        const instance = tx.get("instance", body.cloudId);
        if (!instance || isDeleting(instance)) throw new Fault("invalid", [...typeProblems(body.type), noInstance]);
        return addressView(cloud, addAddress(tx, cloud, instance, body, caller?.username));
      }),
  }),
  ...bothSpellings("assign").map(assignRoute),
  ...bothSpellings("share").map(shareRoute),
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/networking/ips/:address",
    textParams: ["address"],
    scope: "ips",
    summary: "Reads one address.",
    answers: "one",
    shows: "Address",
    run: ({ cloud, texts }) => addressView(cloud, requireAddress(cloud.store, texts.address)),
  }),
  reverseRoute("/v4/networking/ips/:address", "ips", (reader, { texts }) => requireAddress(reader, texts.address)),
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/cloud/instances/:instanceId/ips",
    scope: "instances",
    summary: "An instance's addresses by kind.",
    answers: "one",
    shows: "InstanceAddresses",
    run: ({ cloud, params }) => {
      const instance = requireInstance(cloud.store, params.instanceId);
      const views = addressesOf(cloud.store, instance.id).map((row) => addressView(cloud, row));
      const shared = sharedBy(cloud.store, instance.id).map((row) => addressView(cloud, row));
      return {
        ipv4: { public: views.filter((view) => view.public), private: views.filter((view) => !view.public), shared, reserved: [], vpc: [] },
        ipv6: { slaac: null, linkLocal: null, global: [], vpc: [] },
      };
    },
  }),
  route<Cloud, CreateBody<typeof ofInstanceFields>>({
    method: "POST",
    path: "/v4/cloud/instances/:instanceId/ips",
    scope: "instances",
    summary: "Gives this instance one more address.",
    body: createSchema(ofInstanceFields),
    answers: "one",
    shows: "Address",
    rules: ({ body }) => (body.type === undefined ? [] : typeProblems(body.type)),
    run: ({ cloud, params, body, caller }) =>
      cloud.store.commit((tx) => addressView(cloud, addAddress(tx, cloud, requireInstance(tx, params.instanceId), body, caller?.username))),
  }),
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/cloud/instances/:instanceId/ips/:address",
    textParams: ["address"],
    scope: "instances",
    summary: "Reads one address of this instance.",
    answers: "one",
    shows: "Address",
    run: (call) => addressView(call.cloud, requireOwn(call.cloud.store, call)),
  }),
  reverseRoute("/v4/cloud/instances/:instanceId/ips/:address", "instances", requireOwn),
  route<Cloud, undefined>({
    method: "DELETE",
    path: "/v4/cloud/instances/:instanceId/ips/:address",
    textParams: ["address"],
    scope: "instances",
    summary: "Takes an address away from this instance; the last public one stays.",
    answers: "empty",
    run: (call) =>
      call.cloud.store.commit((tx) => {
        const row = requireOwn(tx, call);
        removeAddress(tx, call.cloud, requireInstance(tx, row.instanceId), row, call.caller?.username);
      }),
  }),
];
