// The documentation of one call. Each service documents its own calls with it.
import { type ErrorCode, type TSchema } from "@highwater/protocol";

export interface Parameter {
  readonly name: string;
  readonly in: "path" | "query" | "header";
  readonly required: boolean;
  readonly description: string;
  readonly schema: TSchema;
}

/** A test sends every one of them to a running gateway. */
export interface Example {
  readonly name: string;
  readonly summary: string;
  /** What must be there before it is sent: a word of the service and its tests. */
  readonly given: string;
  readonly body?: unknown;
  readonly query?: Readonly<Record<string, string>>;
  readonly status: number;
}

export interface Success {
  readonly description: string;
  /** Undefined: text, or what `contentType` says; null: nothing. */
  readonly schema?: TSchema | null;
  readonly contentType?: string;
  /** Beside JSON, where the request chooses: of texts. */
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
  /** The body may be left out. */
  readonly isRequestOptional?: true;
  readonly successes: Readonly<Record<string, Success>>;
  /** `problem`, or the name of another shape that the service's document knows. */
  readonly errorShape: string;
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
