import { wireTime } from "../../kernel/clock.js";
import type { Problem } from "../../kernel/fault.js";
import type { Row } from "../../store/store.js";
import type { Reader, Tx } from "../cloud.js";
import { balanceCents, usdOf } from "./invoice.js";

/** A payment that somebody noted: no money moves. */
export interface PaymentRow extends Row {
  paidMs: number;
  cents: number;
}

/** A card as it is kept: never its number or its code. */
export interface PaymentMethodRow extends Row {
  createdMs: number;
  isDefault: boolean;
  cardType: string;
  lastFour: string;
  /** `MM/YYYY` */
  expiry: string;
}

/** Contract 14.4: the least payment, and the most without and with a card on record. */
const leastCents = 500;
const mostCents = 200_000;
const mostByCardCents = 5_000_000;

/** `$5.00` or `5.00` in cents; undefined for any other text (contract 14.4). */
export const centsOf = (usd: string): number | undefined => {
  const match = /^\$?(\d{1,9})\.(\d{2})$/.exec(usd);
  return match ? Number(match[1]) * 100 + Number(match[2]) : undefined;
};

export interface PaymentWanted {
  usd: string;
  paymentMethodId?: number | undefined;
}

export const paymentProblems = (reader: Reader, { usd, paymentMethodId }: Partial<PaymentWanted>): Problem[] => {
  const problems: Problem[] = [];
  const methods = reader.list("paymentMethod");
  if (paymentMethodId !== undefined && !methods.some((row) => row.id === paymentMethodId)) {
    problems.push({ reason: "No payment method has this id.", field: "paymentMethodId" });
  }
  const cents = usd === undefined ? undefined : centsOf(usd);
  if (cents === undefined) return problems;
  const balance = balanceCents(reader);
  const least = balance > 0 && balance < leastCents ? balance : leastCents;
  const most = methods.length > 0 ? mostByCardCents : mostCents;
  if (cents < least || cents > most) {
    problems.push({ reason: `Must be ${usdOf(least).toFixed(2)}-${usdOf(most).toFixed(2)}`, field: "usd" });
  }
  return problems;
};

export const paymentView = (row: PaymentRow) => ({ id: row.id, date: wireTime(row.paidMs), usd: usdOf(row.cents) });

/** Issuers by how a number begins (ISO/IEC 7812). */
const issuers: ReadonlyArray<[RegExp, string]> = [
  [/^4/, "Visa"],
  [/^(5[1-5]|2[2-7])/, "MasterCard"],
  [/^3[47]/, "American Express"],
  [/^6(011|5|4[4-9])/, "Discover"],
];

export interface Card {
  cardNumber: string;
  expiryMonth: number;
  expiryYear: number;
}

/** The check digit of ISO/IEC 7812 (Luhn). */
const hasCheckDigit = (digits: string): boolean => {
  const sum = [...digits].reverse().reduce((total, digit, place) => {
    const value = Number(digit) * (place % 2 === 1 ? 2 : 1);
    return total + (value > 9 ? value - 9 : value);
  }, 0);
  return sum % 10 === 0;
};

/** `under` is where the card stands in the body. Reasons never repeat the number. */
export const cardProblems = (card: Partial<Card>, nowMs: number, under = ""): Problem[] => {
  const problems: Problem[] = [];
  if (card.cardNumber !== undefined && !(/^\d{13,19}$/.test(card.cardNumber) && hasCheckDigit(card.cardNumber))) {
    problems.push({ reason: "Not the number of a card; 4111111111111111 is one for tests.", field: `${under}cardNumber` });
  }
  const now = new Date(nowMs);
  if (card.expiryMonth !== undefined && card.expiryYear !== undefined) {
    const isPast = card.expiryYear * 12 + card.expiryMonth - 1 < now.getUTCFullYear() * 12 + now.getUTCMonth();
    if (isPast) problems.push({ reason: "The card has expired.", field: `${under}expiryYear` });
  }
  return problems;
};

/** Keeps what may be kept of a card. The first is the default, and so is one that asks to be. */
export const insertCard = (tx: Tx, nowMs: number, card: Card, wantsDefault: boolean): PaymentMethodRow => {
  const isDefault = wantsDefault || tx.list("paymentMethod").length === 0;
  if (isDefault) for (const other of tx.list("paymentMethod")) tx.update("paymentMethod", other.id, { isDefault: false });
  return tx.insert("paymentMethod", {
    createdMs: nowMs,
    isDefault,
    cardType: issuers.find(([begins]) => begins.test(card.cardNumber))?.[1] ?? "Unknown",
    lastFour: card.cardNumber.slice(-4),
    expiry: `${String(card.expiryMonth).padStart(2, "0")}/${card.expiryYear}`,
  });
};

export const paymentMethodView = (row: PaymentMethodRow) => ({
  id: row.id,
  type: "credit_card",
  isDefault: row.isDefault,
  created: wireTime(row.createdMs),
  data: { cardType: row.cardType, lastFour: row.lastFour, expiry: row.expiry },
});
