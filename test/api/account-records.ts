import type { Json, TestCloud } from "../support/cloud.js";
import { startCloud } from "../support/cloud.js";
import { until } from "../support/until.js";
import { createBalancer, freshLabel, occupyPort } from "./world.js";

export const card = { card_number: "4111111111111111", expiry_month: 12, expiry_year: 2099, cvv: "123" };

/** A cloud whose billing months take a quarter of a second, with an invoice. */
export const invoicedCloud = async (): Promise<TestCloud> => {
  const cloud = await startCloud({ speed: 10_000_000 });
  await createBalancer(cloud);
  await until(async () => (await cloud.api.get("/v4/account/invoices")).body.results > 0, { what: "the first invoice" });
  return cloud;
};

/** One live record of each shape that the account shows. */
export const accountRecords = async (cloud: TestCloud): Promise<Record<string, Json>> => {
  const get = async (path: string) => (await cloud.api.get(path)).body;
  const first = async (path: string) => (await get(path)).data[0];
  const post = async (path: string, body: object) => (await cloud.api.post(path, body)).body;
  const label = freshLabel("tag");
  const balancer = await createBalancer(cloud, { tags: [label] });
  await occupyPort(cloud, balancer);
  const quick = await invoicedCloud();
  const [invoice] = (await quick.api.get("/v4/account/invoices")).body.data;
  const [item] = (await quick.api.get(`/v4/account/invoices/${invoice.id}/items`)).body.data;
  await quick.close();
  return {
    Account: await get("/v4/account"),
    AccountSettings: await get("/v4/account/settings"),
    AccountTransfer: await get("/v4/account/transfer"),
    Agreements: await get("/v4/account/agreements"),
    Invoice: invoice,
    InvoiceItem: item,
    Payment: await post("/v4/account/payments", { usd: "5.00" }),
    PaymentMethod: await post("/v4/account/payment-methods", { type: "credit_card", is_default: true, data: card }),
    Notification: await first("/v4/account/notifications"),
    Price: await first("/v4/volumes/types"),
    Tag: await first("/v4/tags"),
    TaggedThing: await first(`/v4/tags/${label}`),
  };
};
