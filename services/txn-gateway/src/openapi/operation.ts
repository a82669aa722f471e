// What the documentation says of one call. The calls themselves are in the files beside this one.
import { type ErrorCode, type TSchema } from "@highwater/protocol";

export interface Parameter {
  readonly name: string;
  readonly in: "path" | "query" | "header";
  readonly required: boolean;
  readonly description: string;
  readonly schema: TSchema;
}

/** What must be there before an example is sent: a transaction that is committed or open under the example's id, or nothing. */
export type Given = "nothing" | "committed" | "open";

/** A test sends every one of them to a running gateway. */
export interface Example {
  readonly name: string;
  readonly summary: string;
  readonly given: Given;
  readonly body?: unknown;
  readonly query?: Readonly<Record<string, string>>;
  readonly status: number;
}

export interface Success {
  readonly description: string;
  /** Undefined: text. */
  readonly schema?: TSchema;
  readonly headers?: readonly ResponseHeader[];
  readonly links?: Readonly<Record<string, unknown>>;
  readonly example?: unknown;
}

export interface ResponseHeader {
  readonly name: string;
  readonly required: boolean;
  readonly description: string;
  readonly schema: TSchema;
}

export interface Operation {
  readonly method: "get" | "post";
  /** With `{name}` for its parameters. */
  readonly path: string;
  readonly id: string;
  readonly tag: string;
  readonly summary: string;
  readonly description: string;
  /** Names of security schemes, any of which will do; empty for a call that is open to all. */
  readonly security: readonly string[];
  readonly parameters: readonly Parameter[];
  readonly request?: TSchema;
  readonly successes: Readonly<Record<string, Success>>;
  /** `neon`: errors have the shape, and some another status, of that wire. */
  readonly errorShape: "problem" | "neon";
  readonly errors: readonly ErrorCode[];
  readonly examples: readonly Example[];
}

/** Every call that needs a caller can be answered with these. */
export const CALLER_ERRORS: readonly ErrorCode[] = [
  ...(["unauthenticated", "forbidden", "rate_limited", "concurrency_limited"] as const),
  ...(["authentication_unavailable", "overloaded", "internal"] as const),
];

/** Every call that has a body can be answered with these. */
export const BODY_ERRORS: readonly ErrorCode[] = [
  "invalid_request",
  "body_too_large",
  "unsupported_media_type",
];

/** Of what the database says to statements. */
export const STATEMENT_ERRORS: readonly ErrorCode[] = [
  ...(["transaction_control", "statement_failed", "constraint_violation", "serialization_failure"] as const),
  ...(["statement_timeout", "result_too_large", "cancelled", "transaction_aborted"] as const),
];

/** Of the search for the primary. */
export const PRIMARY_ERRORS: readonly ErrorCode[] = ["primary_unavailable", "split_brain", "epoch_changed"];
