// From a request body to an accepted transaction: schema, defaults and the rules that need neither clock nor database.
import {
  HighwaterError,
  type Isolation,
  parseTxnId,
  type Statement,
  TransactionRequest,
  type TxnId,
  validate,
} from "@highwater/protocol";

export type Ack = "commit" | "durable";

export interface Accepted {
  readonly id: TxnId;
  readonly statements: readonly Statement[];
  readonly isolation: Isolation;
  readonly readOnly: boolean;
  readonly ack: Ack;
  readonly level: string;
  readonly maxWaitMs: number;
  readonly metadata: Readonly<Record<string, string>> | undefined;
}

export interface RequestRules {
  /** Weakest first. */
  readonly levels: readonly string[];
  readonly maxWaitMs: number;
}

const PREFERRED_LEVEL = "region";
const METADATA_KEY_CHARS = 64;

/** The level of a request that names none: `region` where it exists, or else the strongest. */
export function defaultLevel(levels: readonly string[]): string {
  const level = levels.includes(PREFERRED_LEVEL) ? PREFERRED_LEVEL : levels.at(-1);
  if (level === undefined) throw new Error("no level is configured");
  return level;
}

export function checkLevel(level: string | undefined, levels: readonly string[]): string {
  if (level === undefined) return defaultLevel(levels);
  if (levels.includes(level)) return level;
  throw new HighwaterError("unknown_level", {
    detail: `The level ${JSON.stringify(level)} is not configured; there are ${levels.join(", ")}.`,
  });
}

export function checkId(text: string): TxnId {
  const id = parseTxnId(text);
  if (id === undefined)
    throw new HighwaterError("invalid_id", { detail: "The id must be a UUID of version 7." });
  return id;
}

/** Throws `invalid_request` with every fault, `invalid_id` or `unknown_level`. */
export function acceptRequest(body: unknown, rules: RequestRules): Accepted {
  const checked = validate(TransactionRequest, body);
  if (!checked.ok) throw invalid(checked.faults);
  const request = checked.value;
  const faults = [...statementFaults(request.statements), ...metadataFaults(request.metadata)];
  if (faults.length > 0) throw invalid(faults);
  return {
    id: checkId(request.id),
    statements: request.statements,
    isolation: request.isolation ?? "serializable",
    readOnly: request.readOnly ?? false,
    ack: request.ack ?? "commit",
    level: checkLevel(request.level, rules.levels),
    maxWaitMs: request.maxWaitMs ?? rules.maxWaitMs,
    metadata: request.metadata,
  };
}

/** PostgreSQL's wire ends a text at its first zero character: what follows would be read as something else. */
function statementFaults(statements: readonly Statement[]): string[] {
  return statements.flatMap(({ sql }, index) =>
    sql.includes("\0") ? [`/statements/${String(index)}/sql: must not have a zero character`] : [],
  );
}

function metadataFaults(metadata: Readonly<Record<string, string>> | undefined): string[] {
  return Object.keys(metadata ?? {}).flatMap((key) =>
    key.length < 1 || key.length > METADATA_KEY_CHARS
      ? [`/metadata: a key must have 1 to ${String(METADATA_KEY_CHARS)} characters`]
      : [],
  );
}

function invalid(faults: readonly string[]): HighwaterError {
  return new HighwaterError("invalid_request", { detail: faults.join("; "), fields: faults });
}
