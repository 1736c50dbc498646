import { z } from "zod";
import { field, integer } from "../../kernel/field.js";
import { centsOf } from "./payment.js";

/** Contract 14.4. */
export const invoiceFields = {
  id: field.read(z.int().positive(), "Grows with every invoice."),
  date: field.read(z.string(), "When the billing month ended; UTC, `YYYY-MM-DDTHH:MM:SS`."),
  label: field.read(z.string(), "Name."),
  subtotal: field.read(z.number(), "USD, without tax."),
  tax: field.read(z.number(), "Always 0."),
  taxSummary: field.read(z.array(z.unknown()), "Always empty."),
  total: field.read(z.number(), "USD."),
  billingSource: field.read(z.string(), "Who bills."),
};

export const invoiceItemFields = {
  label: field.read(z.string(), "What it was, with its label and id."),
  type: field.read(z.string(), "Always `hourly`."),
  from: field.read(z.string(), "From when in this month it was there; UTC, by the clock on the wall."),
  to: field.read(z.string(), "Until when."),
  quantity: field.read(z.int(), "Billed hours: real ones times `--speed`, each begun one counted whole."),
  unitPrice: field.read(z.string(), "USD an hour."),
  amount: field.read(z.number(), "USD; at most the monthly price."),
  tax: field.read(z.number(), "Always 0."),
  total: field.read(z.number(), "USD."),
  region: field.read(z.string().nullable(), "Region id."),
};

const Usd = z.string().refine((usd) => centsOf(usd) !== undefined, 'Must be an amount with two decimals, such as "20.00".');

export const paymentFields = {
  id: field.read(z.int().positive(), "Grows with every payment."),
  date: field.read(z.string(), "UTC, `YYYY-MM-DDTHH:MM:SS`."),
  usd: field.create(Usd, 'Amount as text with two decimals, such as `"20.00"`. Reads back as a number.', { required: true }),
  paymentMethodId: field.secret(z.int(), "Card to note it for. No money moves."),
};

/** What is shown of a payment: the amount is a number there. */
export const paymentShown = { ...paymentFields, usd: field.read(z.number(), "USD.") };

const CardNumber = z.string();
const cardMembers = { cardNumber: CardNumber, expiryMonth: integer(1, 12), expiryYear: integer(2000, 2100) };

export const paymentMethodFields = {
  id: field.read(z.int().positive(), "Given at creation, never reused."),
  type: field.create(z.enum(["credit_card"]), "Only cards are kept here.", { required: true }),
  isDefault: field.create(z.boolean(), "Payments are noted for the default one.", { required: true }),
  created: field.read(z.string(), "UTC, `YYYY-MM-DDTHH:MM:SS`."),
  data: field.create(z.object({ ...cardMembers, cvv: z.string().optional() }), "The card. Only its kind, last four digits and expiry are kept.", {
    required: true,
  }),
};

export const paymentMethodShown = {
  ...paymentMethodFields,
  data: field.read(z.object({ cardType: z.string(), lastFour: z.string(), expiry: z.string() }), "What is kept of the card."),
};

/** The older way to set the card (contract 14.4). */
export const creditCardFields = {
  cardNumber: field.secret(CardNumber, "Digits only. Only the last four are kept.", { required: true }),
  expiryMonth: field.secret(cardMembers.expiryMonth, "1 to 12.", { required: true }),
  expiryYear: field.secret(cardMembers.expiryYear, "Four digits.", { required: true }),
  cvv: field.secret(z.string(), "Neither checked nor kept."),
};
