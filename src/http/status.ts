import type { FaultKind, Problem } from "../kernel/fault.js";
import { wireField } from "./spelling.js";

/** The one map from what went wrong to a status code (contract section 6). */
export const statusOf: Record<FaultKind, number> = {
  invalid: 400,
  conflict: 409,
  unauthenticated: 401,
  forbidden: 403,
  "not-found": 404,
  "method-not-allowed": 405,
  "too-large": 413,
  "unsupported-type": 415,
  "too-many": 429,
  unavailable: 503,
  startup: 500,
};

/** `{"errors":[{"reason","field"?}]}` (contract section 6). What stands inside the members named `verbatim` is the caller's own spelling. */
export const errorBody = (problems: readonly Problem[], verbatim: readonly string[] | "all" = []) => ({
  errors: problems.map(({ reason, field }) => (field === undefined ? { reason } : { reason, field: wireField(field, verbatim) })),
});
