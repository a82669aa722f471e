// The steps of a transaction: what is sent before, after and around the statements of a request.
// Pure.
import { HighwaterError, type Isolation, type Param, type Statement, type TxnId } from "@highwater/protocol";
import { type AsSent, type ResultLimits, type TransactionSpec } from "../port.ts";
import { type Step } from "./pipeline.ts";
import {
  COMMIT,
  COMMIT_EARLY,
  INSERT_ORDERED_RECEIPT,
  INSERT_RECEIPT,
  ORDER,
  POSITION,
  SNAPSHOT_POSITION,
} from "./sql.ts";
import { factsOf, leadingWords } from "./statement-guard.ts";

const ISOLATION_SQL: Readonly<Record<Isolation, string>> = {
  serializable: "SERIALIZABLE",
  "repeatable read": "REPEATABLE READ",
  "read committed": "READ COMMITTED",
};

/**
 * By the first word of a step of the service: the command tag that the server sends when the step
 * succeeded.
 */
const TAGS: Readonly<Record<string, RegExp | string>> = {
  BEGIN: "BEGIN",
  SET: "SET",
  INSERT: "INSERT 0 1",
  SELECT: /^SELECT [01]$/,
  COMMIT: "COMMIT",
};

/** A step of the service's own: its answer is never cut, and its columns are not needed. */
export function quiet(sql: string, params: readonly (string | null)[] = []): Step {
  const tag = TAGS[sql.split(" ", 1)[0] ?? ""];
  if (tag === undefined) throw new Error(`no tag is known for ${sql}`);
  const step = { sql, params, describe: false, maxRows: 0, countAll: true, tag };
  return params.length === 0 ? { ...step, isFixed: true } : step;
}

const COMMIT_STEPS: readonly Step[] = [quiet(COMMIT_EARLY), quiet(COMMIT)];
export const POSITION_STEP = quiet(POSITION);
const ORDER_STEP = quiet(ORDER);
/**
 * Takes the first snapshot of a read-only transaction. Until then SET could make it a write, which
 * would have no receipt.
 */
const FIRST_SNAPSHOT_STEP = quiet("SELECT");
const RECEIPT_INDEX = 1;

export type TransactionOptions = Omit<TransactionSpec, "statements">;
type TailOptions = Pick<TransactionOptions, "readOnly" | "isolation" | "tellsOrder">;

export interface Head {
  readonly steps: readonly Step[];
  /** Index of the receipt's insert; null for a read. */
  readonly receipt: number | null;
  /** Index of the step that returns the order of a write; absent where none of these does. */
  readonly order?: number;
}

/** Its order is known with its first snapshot; else only behind its last statement. */
function isOrderedAtFirst({ isolation, tellsOrder = false }: TailOptions): boolean {
  return tellsOrder && isolation !== "read committed";
}

/**
 * The steps before the first statement. The receipt comes first, so that a replay is refused before
 * it runs anything.
 */
export function headOf(spec: TransactionOptions): Head {
  const { isolation, readOnly, deferrable = false } = spec;
  const begin = beginOf(isolation, readOnly, deferrable);
  const limits = limitSteps(spec);
  if (!readOnly) {
    const values = [spec.id, spec.tag, spec.epoch, String(spec.digest)];
    const isOrdered = isOrderedAtFirst(spec);
    const sql = isOrdered ? INSERT_ORDERED_RECEIPT : INSERT_RECEIPT;
    const receipt: Step = { ...quiet(sql, values), isNamed: true };
    const steps = [begin, receipt, ...limits];
    return { steps, receipt: RECEIPT_INDEX, ...(isOrdered && { order: RECEIPT_INDEX }) };
  }
  return { steps: [begin, ...limits, FIRST_SNAPSHOT_STEP], receipt: null };
}

const begins = new Map<string, Step>();

function beginOf(isolation: Isolation, readOnly: boolean, deferrable: boolean): Step {
  const access = `READ ${readOnly ? "ONLY" : "WRITE"}${deferrable ? " DEFERRABLE" : ""}`;
  const sql = `BEGIN ISOLATION LEVEL ${ISOLATION_SQL[isolation]} ${access}`;
  let begin = begins.get(sql);
  if (begin === undefined) begins.set(sql, (begin = quiet(sql)));
  return begin;
}

/**
 * Limits of this transaction alone. Their values are in the text, because each key has few of them.
 */
export function limitSteps(limits: {
  readonly statementTimeoutMs?: number | null;
  readonly lockTimeoutMs?: number | null;
}): Step[] {
  const steps: Step[] = [];
  for (const [name, value] of [
    ["statement_timeout", limits.statementTimeoutMs],
    ["lock_timeout", limits.lockTimeoutMs],
  ] as const)
    // To PostgreSQL, zero means no limit.
    if (value != null) steps.push(quiet(`SET LOCAL ${name} TO ${String(Math.max(1, Math.floor(value)))}`));
  return steps;
}

export interface Tail {
  readonly steps: readonly Step[];
  /** Among the results, the index of COMMIT, and of the step that reads the position. */
  readonly commit: number;
  readonly position: number;
  /** Index of the step that reads the order of a write; absent where none of these does. */
  readonly order?: number;
}

const WRITE_TAIL: Tail = { steps: [...COMMIT_STEPS, POSITION_STEP], commit: 1, position: 2 };
/** A step that several transactions share reads the position. */
const SHARED_WRITE_TAIL: Tail = { ...WRITE_TAIL, steps: COMMIT_STEPS };
const [ORDERED_TAIL, SHARED_ORDERED_TAIL] = [WRITE_TAIL, SHARED_WRITE_TAIL].map(({ steps }): Tail => ({
  steps: [ORDER_STEP, ...steps],
  commit: 2,
  position: 3,
  order: 0,
})) as [Tail, Tail];
/**
 * In READ COMMITTED every statement has its own snapshot. In the others a table that was truncated
 * or changed since the snapshot shows that all the same: MVCC does not hide it. So only a position
 * that is read behind COMMIT bounds what was seen.
 */
const READ_TAIL: Tail = { steps: [quiet(COMMIT), quiet(SNAPSHOT_POSITION)], commit: 0, position: 1 };

/**
 * The steps after the last statement. With `sharesPosition`, a later step reads the position for
 * several writes.
 */
export function tailOf(options: TailOptions, sharesPosition = false): Tail {
  const { readOnly, tellsOrder = false } = options;
  if (!readOnly && tellsOrder && !isOrderedAtFirst(options))
    return sharesPosition ? SHARED_ORDERED_TAIL : ORDERED_TAIL;
  if (!readOnly) return sharesPosition ? SHARED_WRITE_TAIL : WRITE_TAIL;
  return READ_TAIL;
}

export function bodyOf(statements: readonly AsSent[], limits: ResultLimits): Step[] {
  return statements.map(({ sql, params, types, binary = [] }) => {
    const { changesRows, rollsBack } = factsOf(sql);
    const values = params?.map((value, at) =>
      binary.includes(at) ? Buffer.from(String(value), "base64") : paramText(value),
    );
    const step = {
      sql,
      params: values ?? [],
      describe: true,
      countAll: changesRows,
      ...(types && { types }),
    };
    return { ...step, maxRows: limits.maxRows, ...(rollsBack ? { mayRollBack: true } : {}) };
  });
}

function paramText(value: Param): string | null {
  return value === null ? null : String(value);
}

/**
 * Throws `transaction_control` for a statement that the service cannot run inside its transaction.
 */
export function refuseControl(statements: readonly Statement[], id?: TxnId): void {
  for (const [index, statement] of statements.entries()) {
    const refused = factsOf(statement.sql).refusal;
    if (refused === null) continue;
    const detail =
      refused.keyword === "COPY"
        ? "COPY is not supported; use INSERT or SELECT."
        : `Statement ${String(index)} starts with ${refused.keyword}; the service begins and ends the transaction itself.`;
    throw new HighwaterError("transaction_control", { detail, statement: index, transactionId: id });
  }
}

/** True when the session must be reset before another transaction uses it. */
export function leavesTraces(statements: readonly Statement[]): boolean {
  return statements.some((statement) => factsOf(statement.sql).changesSession);
}

/**
 * True when a statement may drop prepared statements of its session, the service's own among them.
 */
export function dropsPrepared(statements: readonly Statement[]): boolean {
  return statements.some(({ sql }) => ["DEALLOCATE", "DISCARD"].includes(leadingWords(sql, 1)[0] ?? ""));
}
