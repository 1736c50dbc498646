import { invalid, notFound } from "../../kernel/fault.js";
import { type CreateBody, createSchema } from "../../kernel/field.js";
import { type Listing, route } from "../../kernel/route.js";
import { accountEntity } from "../account/account.js";
import type { Cloud, CloudStore, Tx } from "../cloud.js";
import { recordEvent } from "../events/event.js";
import { refuse } from "../instances/rules.js";
import type { Item } from "./bill.js";
import {
  creditCardFields,
  invoiceFields,
  invoiceItemFields,
  paymentFields,
  paymentMethodFields,
  paymentMethodShown,
  paymentShown,
} from "./fields.js";
import { type InvoiceRow, invoiceView, itemView, requireInvoice } from "./invoice.js";
import {
  type Card,
  cardProblems,
  centsOf,
  insertCard,
  type PaymentMethodRow,
  type PaymentRow,
  type PaymentWanted,
  paymentMethodView,
  paymentProblems,
  paymentView,
} from "./payment.js";

/** The field tables behind what these routes show. */
export const billingShapes = {
  Invoice: invoiceFields,
  InvoiceItem: invoiceItemFields,
  Payment: paymentShown,
  PaymentMethod: paymentMethodShown,
};

type MethodWanted = CreateBody<typeof paymentMethodFields>;

const noFilter = { filterable: [], fieldValue: () => undefined };

const requireMethod = (reader: Pick<CloudStore | Tx, "get">, id: number | undefined): PaymentMethodRow => {
  const row = reader.get("paymentMethod", id ?? 0);
  if (!row) throw notFound();
  return row;
};

const invoiceRoutes = [
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/account/invoices",
    scope: "account",
    summary: "Lists the invoices, newest first.",
    answers: "list",
    shows: "Invoice",
    run: ({ cloud }): Listing<InvoiceRow> => ({ rows: cloud.store.list("invoice").toReversed(), view: invoiceView, ...noFilter }),
  }),
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/account/invoices/:invoiceId",
    scope: "account",
    summary: "Reads one invoice.",
    answers: "one",
    shows: "Invoice",
    run: ({ cloud, params }) => invoiceView(requireInvoice(cloud.store, params.invoiceId)),
  }),
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/account/invoices/:invoiceId/items",
    scope: "account",
    summary: "Lists what an invoice is made of.",
    answers: "list",
    shows: "InvoiceItem",
    run: ({ cloud, params }): Listing<Item> => ({ rows: requireInvoice(cloud.store, params.invoiceId).items, view: itemView, ...noFilter }),
  }),
];

const paymentRoutes = [
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/account/payments",
    scope: "account",
    summary: "Lists the payments, newest first.",
    answers: "list",
    shows: "Payment",
    run: ({ cloud }): Listing<PaymentRow> => ({ rows: cloud.store.list("payment").toReversed(), view: paymentView, ...noFilter }),
  }),
  route<Cloud, PaymentWanted>({
    method: "POST",
    path: "/v4/account/payments",
    scope: "account",
    summary: "Notes a payment, which lowers the balance; no money moves.",
    body: createSchema(paymentFields),
    answers: "one",
    shows: "Payment",
    rules: ({ cloud, body }) => paymentProblems(cloud.store, body),
    run: ({ cloud, body, caller }) =>
      cloud.store.commit((tx) => {
        refuse(paymentProblems(tx, body));
        const row = tx.insert("payment", { paidMs: cloud.clock.now(), cents: centsOf(body.usd) ?? 0 });
        recordEvent(tx, cloud, { action: "payment_submitted", entity: accountEntity(tx), username: caller?.username ?? null });
        return paymentView(row);
      }),
  }),
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/account/payments/:paymentId",
    scope: "account",
    summary: "Reads one payment.",
    answers: "one",
    shows: "Payment",
    run: ({ cloud, params }) => {
      const row = cloud.store.get("payment", params.paymentId ?? 0);
      if (!row) throw notFound();
      return paymentView(row);
    },
  }),
];

const methodRoutes = [
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/account/payment-methods",
    scope: "account",
    summary: "Lists the cards on record.",
    answers: "list",
    shows: "PaymentMethod",
    run: ({ cloud }): Listing<PaymentMethodRow> => ({ rows: cloud.store.list("paymentMethod"), view: paymentMethodView, ...noFilter }),
  }),
  route<Cloud, MethodWanted>({
    method: "POST",
    path: "/v4/account/payment-methods",
    scope: "account",
    summary: "Records a card: its kind, last four digits and expiry.",
    body: createSchema(paymentMethodFields),
    answers: "one",
    shows: "PaymentMethod",
    rules: ({ cloud, body }) => cardProblems(body.data ?? {}, cloud.clock.now(), "data."),
    run: ({ cloud, body, caller }) =>
      cloud.store.commit((tx) => {
        refuse(cardProblems(body.data, cloud.clock.now(), "data."));
        const row = insertCard(tx, cloud.clock.now(), body.data, body.isDefault);
        recordEvent(tx, cloud, { action: "payment_method_add", entity: accountEntity(tx), username: caller?.username ?? null });
        return paymentMethodView(row);
      }),
  }),
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/account/payment-methods/:paymentMethodId",
    scope: "account",
    summary: "Reads one card.",
    answers: "one",
    shows: "PaymentMethod",
    run: ({ cloud, params }) => paymentMethodView(requireMethod(cloud.store, params.paymentMethodId)),
  }),
  route<Cloud, undefined>({
    method: "DELETE",
    path: "/v4/account/payment-methods/:paymentMethodId",
    scope: "account",
    summary: "Forgets a card; the default one stays as long as there are others.",
    answers: "empty",
    run: ({ cloud, params }) =>
      cloud.store.commit((tx) => {
        const row = requireMethod(tx, params.paymentMethodId);
        if (row.isDefault && tx.list("paymentMethod").length > 1) throw invalid("It is the default; make another one the default first.");
        tx.remove("paymentMethod", row.id);
      }),
  }),
  route<Cloud, undefined>({
    method: "POST",
    path: "/v4/account/payment-methods/:paymentMethodId/make-default",
    scope: "account",
    summary: "Makes a card the default.",
    answers: "empty",
    run: ({ cloud, params }) =>
      cloud.store.commit((tx) => {
        const { id } = requireMethod(tx, params.paymentMethodId);
        for (const row of tx.list("paymentMethod")) tx.update("paymentMethod", row.id, { isDefault: row.id === id });
      }),
  }),
  route<Cloud, Card>({
    method: "POST",
    path: "/v4/account/credit-card",
    scope: "account",
    summary: "Records a card and makes it the default.",
    body: createSchema(creditCardFields),
    answers: "empty",
    rules: ({ cloud, body }) => cardProblems(body, cloud.clock.now()),
    run: ({ cloud, body, caller }) =>
      cloud.store.commit((tx) => {
        refuse(cardProblems(body, cloud.clock.now()));
        insertCard(tx, cloud.clock.now(), body, true);
        recordEvent(tx, cloud, { action: "credit_card_updated", entity: accountEntity(tx), username: caller?.username ?? null });
      }),
  }),
];

export const billingRoutes = [...invoiceRoutes, ...paymentRoutes, ...methodRoutes];
