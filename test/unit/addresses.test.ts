import { expect, test } from "vitest";
import { formatIpv4, parseIpv4 } from "#backlot/kernel/addresses.js";

test.each(["0.0.0.0", "1.2.3.4", "10.0.0.10", "127.0.0.1", "192.168.128.200", "255.255.255.255"])("%s is an address", (text) => {
  const value = text.split(".").reduce((sum, octet) => sum * 256 + Number(octet), 0);
  expect(parseIpv4(text)).toBe(value);
  expect(formatIpv4(value)).toBe(text);
});

const refused = [
  "",
  ".",
  "1",
  "1.2.3",
  "1.2.3.",
  ".1.2.3",
  "1..2.3",
  "1.2.3.4.5",
  "1.2.3.4.",
  "01.2.3.4",
  "1.2.3.00",
  "256.1.1.1",
  "1.1.1.256",
  "1.2.3.1000",
];
test.each([...refused, " 1.2.3.4", "1.2.3.4 ", "+1.2.3.4", "1.2.3.-4", "1.2.3.4e0", "0x1.2.3.4", "1.2.3.٤", "::1", "a.b.c.d"])(
  "%j is none",
  (text) => {
    expect(parseIpv4(text)).toBeUndefined();
  },
);
