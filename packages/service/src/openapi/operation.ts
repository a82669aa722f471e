// The documentation of one call. Each service documents its calls with it.
import { type ErrorCode, type TSchema } from "@highwater/protocol";

export interface Parameter {
  readonly name: string;
  readonly in: "path" | "query" | "header";
  readonly required: boolean;
  readonly description: string;
  readonly schema: TSchema;
}

/** A test sends each example to a running gateway. */
export interface Example {
  readonly name: string;
  readonly summary: string;
  /** The state that the example needs, by a name that the service and its tests share. */
  readonly given: string;
  readonly body?: unknown;
  readonly query?: Readonly<Record<string, string>>;
  readonly status: number;
}

export interface Success {
  readonly description: string;
  /** Undefined: text, or the content type in `contentType`. Null: no body. */
  readonly schema?: TSchema | null;
  readonly contentType?: string;
  /** Other text types that the request may ask for instead of JSON. */
  readonly otherTypes?: readonly string[];
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
  readonly method: "get" | "post" | "patch" | "delete";
  /** With `{name}` for each parameter. */
  readonly path: string;
  readonly id: string;
  readonly tag: string;
  readonly summary: string;
  readonly description: string;
  /** Names of alternative security schemes; empty for a call that needs no credential. */
  readonly security: readonly string[];
  readonly parameters: readonly Parameter[];
  readonly request?: TSchema;
  /** The body may be left out. */
  readonly isRequestOptional?: true;
  readonly successes: Readonly<Record<string, Success>>;
  /** `problem`, or the name of another shape in the service's document. */
  readonly errorShape: string;
  readonly errors: readonly ErrorCode[];
  readonly examples: readonly Example[];
}

/** Errors of every call that needs a caller. */
export const CALLER_ERRORS: readonly ErrorCode[] = [
  ...(["unauthenticated", "forbidden", "rate_limited", "concurrency_limited"] as const),
  ...(["authentication_unavailable", "overloaded", "internal"] as const),
];

/** Errors of every call with a body. */
export const BODY_ERRORS: readonly ErrorCode[] = [
  "invalid_request",
  "body_too_large",
  "unsupported_media_type",
];
