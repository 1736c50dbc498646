import type { Problem } from "../kernel/fault.js";
import type { Listing } from "../kernel/route.js";

export interface Page {
  page: number;
  pageSize: number;
}

const defaultPageSize = 100;

const wholeNumber = (text: string | undefined, fallback: number, min: number, max: number): number | undefined => {
  if (text === undefined) return fallback;
  const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  return value >= min && value <= max ? value : undefined;
};

/** `page` and `page_size` (description 4.1), or what is wrong with them. `bounds` are the dialect's. */
export const pageOf = (query: Record<string, string | undefined>, bounds: { min: number; max: number }): { page: Page; problems: Problem[] } => {
  const problems: Problem[] = [];
  const page = wholeNumber(query.page, 1, 1, Number.MAX_SAFE_INTEGER);
  const pageSize = wholeNumber(query.page_size, defaultPageSize, bounds.min, bounds.max);
  if (page === undefined) problems.push({ reason: "Must be a whole number from 1.", field: "page" });
  if (pageSize === undefined) problems.push({ reason: `Must be ${bounds.min}-${bounds.max}`, field: "page_size" });
  return { page: { page: page ?? 1, pageSize: pageSize ?? defaultPageSize }, problems };
};

/**
 * The envelope of a list (contract 5.1). `results` counts after filtering. A page beyond the last is empty and says the page that was
 * asked for: no client asks for one unless rows went away meanwhile, and an error would break its loop.
 */
export const envelope = <R>(listing: Listing<R>, rows: readonly R[], { page, pageSize }: Page) => ({
  data: rows.slice((page - 1) * pageSize, page * pageSize).map((row) => listing.view(row)),
  page,
  pages: Math.max(1, Math.ceil(rows.length / pageSize)),
  results: rows.length,
});
