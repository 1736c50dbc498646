/** One thing that is wrong with a request, in the words the caller reads (description section 7). */
export interface Problem {
  /** A sentence. It never repeats the field's name. */
  reason: string;
  /** The member, parameter or header it is about, in our spelling (camelCase); `http` prints it in theirs. */
  field?: string;
}

/**
 * What went wrong, without a status code: `http/` owns the one map from kind to status.
 * `startup` never reaches a client: it ends the start with one line (cause, owner, remedy).
 */
export type FaultKind =
  | "invalid"
  | "conflict"
  | "unauthenticated"
  | "forbidden"
  | "not-found"
  | "method-not-allowed"
  | "unsupported-type"
  | "too-large"
  | "too-many"
  | "unavailable"
  | "startup";

/** A failure the caller may read. Every other error is our own bug and is answered with one calm sentence. */
export class Fault extends Error {
  constructor(
    readonly kind: FaultKind,
    readonly problems: readonly Problem[],
    options?: ErrorOptions,
  ) {
    super(problems.map((problem) => problem.reason).join(" "), options);
    this.name = "Fault";
  }
}

export const invalid = (reason: string, field?: string): Fault => new Fault("invalid", [field === undefined ? { reason } : { reason, field }]);

export const notFound = (): Fault => new Fault("not-found", [{ reason: "Not found" }]);

/** A start that cannot go on: what happened, whose thing stands in the way, what to do. */
export const cannotStart = (reason: string, cause?: unknown): Fault => new Fault("startup", [{ reason }], { cause });

/** The text of anything thrown, for a log line or an event. */
export const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
