import type { Problem } from "../../kernel/fault.js";
import type { AccountDetails } from "./account.js";

/** Contract 14.1: letters, digits, spaces and hyphens, at most nine letters and digits; in the US five digits, or nine. */
export const zipProblems = (details: Pick<AccountDetails, "zip" | "country">): Problem[] => {
  const { zip, country } = details;
  const isPlain = /^[A-Za-z0-9 -]*$/.test(zip) && zip.replace(/[ -]/g, "").length <= 9;
  if (!isPlain) return [{ reason: "May hold letters, digits, spaces and hyphens, at most nine letters and digits.", field: "zip" }];
  const isAmerican = country.toUpperCase() === "US" && zip !== "";
  if (isAmerican && !/^\d{5}([ -]?\d{4})?$/.test(zip)) return [{ reason: "In the US it is five digits, or nine.", field: "zip" }];
  return [];
};
