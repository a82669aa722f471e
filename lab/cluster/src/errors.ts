// The package's only error class, and its form between the supervisor process and the caller.

export type DevClusterErrorCode =
  | "BAD_OPTION"
  | "BAD_STATE"
  | "INTERNAL"
  | "PG_BINARIES_MISSING"
  | "PG_TOO_OLD"
  | "PORT_IN_USE"
  | "QUERY_FAILED"
  | "START_FAILED"
  | "SUPERVISOR_DIED"
  | "TIMEOUT"
  | "UNKNOWN_NODE";

/** Every failure of this package. Codes are API; messages are for people. */
export class DevClusterError extends Error {
  readonly code: DevClusterErrorCode;

  constructor(code: DevClusterErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = "DevClusterError";
    this.code = code;
  }
}

/** An error as plain data, which passes the IPC channel with its cause. */
export interface ErrorRecord {
  name: string;
  message: string;
  stack?: string | undefined;
  /** Own primitive fields: `code`, and a database error's severity, detail, constraint… */
  fields: Record<string, string | number | boolean>;
  cause?: ErrorRecord | undefined;
}

export function errorToRecord(error: unknown): ErrorRecord {
  if (!(error instanceof Error)) return { name: "Error", message: String(error), fields: {} };
  const fields: ErrorRecord["fields"] = {};
  for (const [key, value] of Object.entries(error)) {
    if (key === "name") continue;
    if (typeof value === "string" || typeof value === "number" || typeof value === "boolean")
      fields[key] = value;
  }
  return {
    name: error.name,
    message: error.message,
    stack: error.stack,
    fields,
    cause: error.cause === undefined ? undefined : errorToRecord(error.cause),
  };
}

export function errorFromRecord(record: ErrorRecord): Error {
  const options = record.cause === undefined ? undefined : { cause: errorFromRecord(record.cause) };
  const error =
    record.name === "DevClusterError"
      ? new DevClusterError(record.fields["code"] as DevClusterErrorCode, record.message, options)
      : Object.assign(new Error(record.message, options), { name: record.name });
  Object.assign(error, record.fields);
  if (record.stack !== undefined) error.stack = record.stack;
  return error;
}

/** Other errors become INTERNAL, so that a caller can always switch on `code`. */
export function asDevClusterError(error: unknown): DevClusterError {
  if (error instanceof DevClusterError) return error;
  return new DevClusterError("INTERNAL", error instanceof Error ? error.message : String(error), {
    cause: error,
  });
}
