// The error that every package throws, the body of the response that it becomes, and how a service
// explains each code.
import { type ErrorCode, ERRORS, type Outcome, type ProblemDetails, type Retry } from "./errors.ts";
import { type ErrorDescription, type ErrorList } from "./problem-schema.ts";

/** RFC 9457 body of an error answer. */
export type Problem = ProblemDetails & {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly code: ErrorCode;
  readonly outcome: Outcome;
  readonly retry: Retry;
};

/**
 * The error of every package of this project: a code of the catalogue, the outcome, and the native
 * cause.
 */
export class HighwaterError extends Error {
  readonly code: ErrorCode;
  readonly outcome: Outcome;
  readonly details: ProblemDetails;

  constructor(code: ErrorCode, details: ProblemDetails = {}, options?: { cause?: unknown }) {
    super(details.detail ?? ERRORS[code].title, options);
    this.name = "HighwaterError";
    this.code = code;
    this.details = details;
    this.outcome = details.outcome ?? ERRORS[code].outcome;
  }

  toProblem(): Problem {
    const { status, title, retry } = ERRORS[this.code];
    return {
      type: errorPath(this.code),
      title,
      status,
      code: this.code,
      // What the service brings back must not be run again.
      retry: this.details.redo === undefined ? retry : "never",
      ...this.details,
      outcome: this.outcome,
    };
  }
}

/** The path at which every service explains the code. */
function errorPath(code: ErrorCode): string {
  return `/errors/${code}`;
}

/** Returns the entry of a code in `GET /errors`. */
export function classOf(code: ErrorCode): ErrorList["errors"][number] {
  const { status, outcome, retry, title } = ERRORS[code];
  return { type: errorPath(code), code, status, outcome, retry, title };
}

/** Returns the text of a code in `GET /errors/{code}` and docs/reference/errors.md. */
export function describeError(
  code: ErrorCode,
): Omit<ErrorDescription, "example"> & { readonly example: Problem } {
  const { status, title, outcome, retry, cause, fix, example } = ERRORS[code];
  return {
    code,
    status,
    title,
    outcome,
    retry,
    cause,
    fix,
    example: new HighwaterError(code, example).toProblem(),
  };
}
