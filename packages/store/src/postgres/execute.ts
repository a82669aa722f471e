// A whole transaction in one round trip: BEGIN, receipt, statements, COMMIT and the position behind it, in one write.
import { type PoolClient } from "pg";
import { HighwaterError, type Param, type Isolation, type StatementResult } from "@highwater/protocol";
import { type Execution, type TransactionSpec } from "../port.ts";
import { endOfLog, parseLsn } from "./lsn.ts";
import { Pipeline, type PipelineOutcome, type Step } from "./pipeline.ts";
import { type PreparedStatements } from "./prepared.ts";
import { codeOf, endsSession, isStalePlan } from "./sqlstate.ts";
import { COMMIT, COMMIT_EARLY, INSERT_RECEIPT, POSITION } from "./sql.ts";
import { changesRows, changesSession, refusal } from "./statement-guard.ts";

const ISOLATION_SQL: Readonly<Record<Isolation, string>> = {
  serializable: "SERIALIZABLE",
  "repeatable read": "REPEATABLE READ",
  "read committed": "READ COMMITTED",
};

const quiet = (sql: string, params: readonly string[] = []): Step => ({
  sql,
  params,
  describe: false,
  maxRows: 0,
  countAll: true,
});

interface Plan {
  readonly steps: readonly Step[];
  /** Index of the first user statement, and of COMMIT. */
  readonly first: number;
  readonly commit: number;
}

/** Throws `transaction_control` for a statement that the service cannot run inside its transaction. */
export function refuseControl(spec: TransactionSpec): void {
  for (const [index, statement] of spec.statements.entries()) {
    const refused = refusal(statement.sql);
    if (refused === null) continue;
    const detail =
      refused.keyword === "COPY"
        ? "COPY is not supported; use INSERT or SELECT."
        : `Statement ${String(index)} starts with ${refused.keyword}; the service begins and ends the transaction itself.`;
    throw new HighwaterError("transaction_control", { detail, statement: index, transactionId: spec.id });
  }
}

function plan(spec: TransactionSpec): Plan {
  const begin = quiet(
    `BEGIN ISOLATION LEVEL ${ISOLATION_SQL[spec.isolation]} ${spec.readOnly ? "READ ONLY" : "READ WRITE"}`,
  );
  // The receipt goes first: a replay is then refused before it runs anything.
  const head = spec.readOnly ? [begin] : [begin, quiet(INSERT_RECEIPT, [spec.id, spec.epoch])];
  const body = spec.statements.map((statement): Step => ({
    sql: statement.sql,
    params: (statement.params ?? []).map(paramText),
    describe: true,
    maxRows: spec.maxRows,
    countAll: changesRows(statement.sql),
  }));
  const tail = spec.readOnly
    ? [quiet(COMMIT), quiet(POSITION)]
    : [quiet(COMMIT_EARLY), quiet(COMMIT), quiet(POSITION)];
  const steps = [...head, ...body, ...tail];
  return { steps, first: head.length, commit: steps.length - 2 };
}

function paramText(value: Param): string | null {
  return value === null ? null : String(value);
}

export interface Session {
  readonly client: PoolClient;
  readonly prepared: PreparedStatements;
  readonly segmentBytes: bigint;
}

/** Statements prepared before a change of the schema may fail once; somebody may change it again at once. */
const MAX_REPLANS = 3;

/**
 * Runs the transaction on the session.
 * Errors: HighwaterError, with `outcome` unknown when the connection ended before the server's last word.
 */
export async function executeOn(session: Session, spec: TransactionSpec): Promise<Execution> {
  for (let attempt = 0; attempt < MAX_REPLANS; attempt++) {
    const done = await attemptOn(session, spec);
    if (done.kind !== "stale") return done;
  }
  throw new HighwaterError("statement_failed", {
    detail: "The statements were replanned again and again: the schema changes too fast.",
    transactionId: spec.id,
  });
}

/** `stale`: a prepared statement no longer fitted; nothing was applied and the same work may be done again at once. */
async function attemptOn(
  session: Session,
  spec: TransactionSpec,
): Promise<Execution | { readonly kind: "stale" }> {
  const { steps, first, commit } = plan(spec);
  const pipeline = new Pipeline(steps, session.prepared, spec.maxBytes);
  session.client.query(pipeline);
  let outcome: PipelineOutcome;
  try {
    outcome = await pipeline.done;
  } catch (cause) {
    // Everything was in one write, COMMIT included: nobody can tell from here how far the server came.
    throw unconfirmed(spec, cause);
  }
  if (outcome.status !== "I") await rollback(session);
  const { results, error } = outcome;
  if (error === null) return committed(session, spec, { results, first, commit });
  if (endsSession(error.severity)) throw unconfirmed(spec, error);
  if (results.length > commit) throw unconfirmed(spec, error); // Committed; only the position could not be read.
  if (error.code !== undefined && isStalePlan(error.code, error.routine)) {
    session.prepared.clear();
    return { kind: "stale" };
  }
  const failed = results.length;
  if (!spec.readOnly && failed === 1) return receiptRefused(spec, error);
  const user = failed >= first && failed < first + spec.statements.length;
  throw new HighwaterError(
    codeOf(error.code ?? ""),
    {
      detail: error.message,
      sqlstate: error.code,
      constraint: error.constraint,
      statement: user ? failed - first : undefined,
      transactionId: spec.id,
    },
    { cause: error },
  );
}

function committed(
  session: Session,
  spec: TransactionSpec,
  done: { results: readonly StatementResult[]; first: number; commit: number },
): Execution {
  const { results, first, commit } = done;
  const tag = results[commit]?.command;
  if (tag !== "COMMIT")
    throw new HighwaterError("statement_failed", {
      detail: `The server ended the transaction with ${tag ?? "nothing"} instead of COMMIT.`,
      transactionId: spec.id,
    });
  const [lsn, epoch] = results[commit + 1]?.rows[0] ?? [];
  if (epoch !== (spec.epoch as string) || lsn == null) {
    // A write has asserted its epoch with its receipt, so only its position is in doubt; a read has asserted nothing.
    if (spec.readOnly) throw new HighwaterError("epoch_changed", { transactionId: spec.id });
    throw unconfirmed(spec, new Error(`committed in epoch ${spec.epoch}, found ${String(epoch)} behind it`));
  }
  return {
    kind: "committed",
    offset: endOfLog(parseLsn(lsn), session.segmentBytes),
    exact: false,
    results: results.slice(first, first + spec.statements.length),
  };
}

function receiptRefused(
  spec: TransactionSpec,
  error: { code?: string | undefined; message: string },
): Execution {
  switch (error.code) {
    case "23505":
      return { kind: "already_settled" };
    case "23502":
    case "25006":
      throw new HighwaterError("epoch_changed", { transactionId: spec.id }, { cause: error });
    case "57014":
    case "55P03":
      // The insert waited for another transaction that has written the same receipt and has not ended.
      throw new HighwaterError(
        "transaction_in_progress",
        { transactionId: spec.id, retryAfterMs: 1_000 },
        { cause: error },
      );
    case "23514":
      throw new HighwaterError("id_out_of_window", { transactionId: spec.id }, { cause: error });
    default:
      throw new HighwaterError(
        codeOf(error.code ?? ""),
        { detail: error.message, sqlstate: error.code, transactionId: spec.id },
        { cause: error },
      );
  }
}

function unconfirmed(spec: TransactionSpec, cause: unknown): HighwaterError {
  if (spec.readOnly) return new HighwaterError("primary_unavailable", { transactionId: spec.id }, { cause });
  return new HighwaterError("commit_unconfirmed", { transactionId: spec.id }, { cause });
}

/** Ends a failed transaction; should even that fail, the pool finds a session that is not idle and ends it. */
async function rollback(session: Session): Promise<void> {
  await session.client.query("ROLLBACK").catch(() => undefined);
}

/** True when the session must be reset before another transaction uses it. */
export function leavesTraces(spec: TransactionSpec): boolean {
  return spec.statements.some((statement) => changesSession(statement.sql));
}
