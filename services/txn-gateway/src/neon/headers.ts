// The request headers of the wire: how rows are written, how a batch runs, who asks, and what this
// service adds to that.
import { HighwaterError, type Isolation } from "@highwater/protocol";
import { type Ack } from "../txn/request.ts";

export type RequestHeaders = Readonly<Record<string, string | string[] | undefined>>;

export interface Format {
  /**
   * Values as PostgreSQL's text. Otherwise booleans, numbers that JSON can hold, JSON and arrays
   * are decoded.
   */
  readonly rawText: boolean;
  /** Rows as arrays. Otherwise as objects by column name. */
  readonly arrayMode: boolean;
}

/** For batches only, as the wire has it: a single query runs with the server's default options. */
export interface BatchOptions {
  readonly isolation: Isolation;
  readonly readOnly: boolean;
  readonly deferrable: boolean;
  /** What the answer repeats of it. */
  readonly echo: Readonly<Record<string, string>>;
}

/** What is not given stays out, and gets the defaults of every other transaction. */
export interface Wishes {
  readonly id?: string;
  readonly ack?: Ack;
  readonly level?: string;
  readonly maxWaitMs?: number;
  readonly readOnly?: true;
}

export const DEFAULT_ISOLATION: Isolation = "read committed";

/** PostgreSQL runs READ UNCOMMITTED as READ COMMITTED. */
const ISOLATIONS: Readonly<Record<string, Isolation>> = {
  ReadUncommitted: "read committed",
  ReadCommitted: "read committed",
  RepeatableRead: "repeatable read",
  Serializable: "serializable",
};

const OURS = "highwater-";
const KNOWN: ReadonlySet<string> = new Set([
  "highwater-ack",
  "highwater-level",
  "highwater-max-wait-ms",
  "highwater-read-only",
  "highwater-transaction-id",
]);

function single(headers: RequestHeaders, name: string): string | undefined {
  const value = headers[name];
  return Array.isArray(value) ? value.join(", ") : value;
}

/** The wire's rule: whatever is not exactly `true` is false. */
function isTrue(headers: RequestHeaders, name: string): boolean {
  return single(headers, name) === "true";
}

export function formatOf(headers: RequestHeaders): Format {
  return {
    rawText: isTrue(headers, "neon-raw-text-output"),
    arrayMode: isTrue(headers, "neon-array-mode"),
  };
}

export function batchOptionsOf(headers: RequestHeaders): BatchOptions {
  const named = single(headers, "neon-batch-isolation-level");
  const isolation = named === undefined ? DEFAULT_ISOLATION : ISOLATIONS[named];
  if (isolation === undefined)
    throw invalid([
      `Neon-Batch-Isolation-Level: invalid isolation level; use one of ${Object.keys(ISOLATIONS).join(", ")}`,
    ]);
  const readOnly = isTrue(headers, "neon-batch-read-only");
  const deferrable = isTrue(headers, "neon-batch-deferrable");
  return {
    isolation,
    readOnly,
    // Without the other two PostgreSQL takes it and does nothing.
    deferrable: deferrable && readOnly && isolation === "serializable",
    echo: {
      ...(named === undefined ? {} : { "neon-batch-isolation-level": named }),
      ...(readOnly ? { "neon-batch-read-only": "true" } : {}),
      ...(deferrable ? { "neon-batch-deferrable": "true" } : {}),
    },
  };
}

/** A header of ours that is misspelt would weaken a promise in silence, so it is refused. */
export function wishesOf(headers: RequestHeaders): Wishes {
  const faults = Object.keys(headers)
    .filter((name) => name.startsWith(OURS) && !KNOWN.has(name))
    .map((name) => `${name}: is not a known header`);
  const ack = single(headers, "highwater-ack");
  if (ack !== undefined && ack !== "commit" && ack !== "durable")
    faults.push("highwater-ack: must be commit or durable");
  const wait = single(headers, "highwater-max-wait-ms");
  if (wait !== undefined && !/^[0-9]{1,9}$/.test(wait))
    faults.push("highwater-max-wait-ms: must be a whole number");
  const readOnly = single(headers, "highwater-read-only");
  if (readOnly !== undefined && readOnly !== "true" && readOnly !== "false")
    faults.push("highwater-read-only: must be true or false");
  if (faults.length > 0) throw invalid(faults);
  const id = single(headers, "highwater-transaction-id");
  const level = single(headers, "highwater-level");
  return {
    ...(id === undefined ? {} : { id }),
    ...(ack === undefined ? {} : { ack: ack as Ack }),
    ...(level === undefined ? {} : { level }),
    ...(wait === undefined ? {} : { maxWaitMs: Number(wait) }),
    ...(readOnly === "true" ? { readOnly: true } : {}),
  };
}

/**
 * The credential as an Authorization header: the header itself, or else the password of the
 * connection string. User, host, database and options of that string are the client's own words and
 * are not looked at.
 */
export function authorizationOf(headers: RequestHeaders): string | undefined {
  const header = single(headers, "authorization");
  if (header !== undefined) return header;
  const text = single(headers, "neon-connection-string");
  if (text === undefined) return undefined;
  const password = passwordOf(text);
  return password === "" ? undefined : `Bearer ${password}`;
}

/** No message quotes the text: it holds a secret. */
function passwordOf(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || !/^postgres(ql)?:$/.test(url.protocol))
    throw invalid(["Neon-Connection-String: must be a URL like postgresql://user:KEY@host/database"]);
  try {
    return decodeURIComponent(url.password);
  } catch {
    throw invalid(["Neon-Connection-String: the password's percent-encoding is malformed"]);
  }
}

export function invalid(faults: readonly string[]): HighwaterError {
  return new HighwaterError("invalid_request", { detail: faults.join("; "), fields: faults });
}
