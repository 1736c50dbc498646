import { Fault, notFound, type Problem } from "../../kernel/fault.js";
import { createSchema, filterableNames } from "../../kernel/field.js";
import { type Listing, route } from "../../kernel/route.js";
import type { Cloud } from "../cloud.js";
import { isDeleting, requireInstance } from "../instances/instance.js";
import { type AddressRow, addressesOf, addressRow, addressView } from "./address.js";
import { addressFields } from "./fields.js";
import { addAddress, typeProblems } from "./rules.js";

const noInstance: Problem = { reason: "No active instance has this id.", field: "cloudId" };
const createBody = createSchema(addressFields);
const ofInstanceBody = createSchema({ type: addressFields.type, public: addressFields.public });

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
      fieldValue: (row, name) => addressView(cloud, row)[name as keyof ReturnType<typeof addressView>],
    }),
  }),
  route({
    method: "POST",
    path: "/v4/networking/ips",
    scope: "ips",
    summary: "Gives an instance one more address.",
    body: createBody,
    answers: "one",
    shows: "Address",
    rules: ({ cloud, body }: { cloud: Cloud; body: { type?: string; cloudId?: number } }) => [
      ...(body.type === undefined ? [] : typeProblems(body.type)),
      ...(body.cloudId === undefined || cloud.store.get("instance", body.cloudId) ? [] : [noInstance]),
    ],
    run: ({
      cloud,
      body,
      caller,
    }: {
      cloud: Cloud;
      body: { type: string; public: boolean; cloudId: number };
      caller: { username: string } | undefined;
    }) =>
      cloud.store.commit((tx) => {
        const instance = tx.get("instance", body.cloudId);
        if (!instance || isDeleting(instance)) throw new Fault("invalid", [...typeProblems(body.type), noInstance]);
        return addressView(cloud, addAddress(tx, cloud, instance, body, caller?.username));
      }),
  }),
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/networking/ips/:address",
    textParams: ["address"],
    scope: "ips",
    summary: "Reads one address.",
    answers: "one",
    shows: "Address",
    run: ({ cloud, texts }) => {
      const row = addressRow(cloud.store, texts.address ?? "");
      if (!row) throw notFound();
      return addressView(cloud, row);
    },
  }),
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/cloud/instances/:instanceId/ips",
    scope: "instances",
    summary: "An instance's addresses by kind.",
    answers: "one",
    run: ({ cloud, params }) => {
      const instance = requireInstance(cloud.store, params.instanceId);
      const views = addressesOf(cloud.store, instance.id).map((row) => addressView(cloud, row));
      return {
        ipv4: { public: views.filter((view) => view.public), private: views.filter((view) => !view.public), shared: [], reserved: [], vpc: [] },
        ipv6: { slaac: null, linkLocal: null, global: [], vpc: [] },
      };
    },
  }),
  route({
    method: "POST",
    path: "/v4/cloud/instances/:instanceId/ips",
    scope: "instances",
    summary: "Gives this instance one more address.",
    body: ofInstanceBody,
    answers: "one",
    shows: "Address",
    rules: ({ body }: { body: { type?: string } }) => (body.type === undefined ? [] : typeProblems(body.type)),
    run: ({
      cloud,
      params,
      body,
      caller,
    }: {
      cloud: Cloud;
      params: Record<string, number>;
      body: { type: string; public: boolean };
      caller: { username: string } | undefined;
    }) => cloud.store.commit((tx) => addressView(cloud, addAddress(tx, cloud, requireInstance(tx, params.instanceId), body, caller?.username))),
  }),
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/cloud/instances/:instanceId/ips/:address",
    textParams: ["address"],
    scope: "instances",
    summary: "Reads one address of this instance.",
    answers: "one",
    shows: "Address",
    run: ({ cloud, params, texts }) => {
      const row = addressRow(cloud.store, texts.address ?? "");
      if (row?.instanceId !== requireInstance(cloud.store, params.instanceId).id) throw notFound();
      return addressView(cloud, row);
    },
  }),
];
