// Runs transactions on one cluster: in one write, or step by step.
import { type DatabaseError } from "pg";
import {
  HighwaterError,
  type Isolation,
  type Offset,
  type Statement,
  type StatementResult,
  type TxnId,
  txnTimestampMs,
} from "@highwater/protocol";
import { OpenCalls } from "../open-calls.ts";
import {
  type Execution,
  type OpenCommitOptions,
  type Opening,
  type OpenTransaction,
  type ResultLimits,
  type ResultMeter,
  type TransactionSpec,
} from "../port.ts";
import { failureOf, sessionLost, unconfirmed } from "../postgres/failures.ts";
import { type PipelineOutcome, type Step } from "../postgres/pipeline.ts";
import { bodyOf, leavesTraces, limitSteps, quiet, refuseControl } from "../postgres/plan.ts";
import { type PipelineRun, runInOneWrite, runPipeline, type Session } from "../postgres/session.ts";
import { endsSession } from "../postgres/sqlstate.ts";
import { parseHlc } from "./hlc.ts";
import { type Sessions } from "./sessions.ts";
import { INSERT_RECEIPT, LOG_END, RECEIPT_POSITION } from "./sql.ts";
import { refuseForCockroach } from "./statements.ts";

type Committed = Extract<Execution, { kind: "committed" }>;

const ISOLATION_SQL: Readonly<Record<Isolation, string>> = {
  serializable: "SERIALIZABLE",
  "repeatable read": "REPEATABLE READ",
  "read committed": "READ COMMITTED",
};
const COMMIT = quiet("COMMIT");
/** Fails in a transaction that has failed, where COMMIT would succeed as a ROLLBACK. */
const STILL_WELL = quiet("SELECT 1");
const RECEIPT_AT = 1;
/** Beyond the server's own retries. */
const MAX_ATTEMPTS = 5;

/** Runs the transaction, again if another one was in its way: nothing of it was applied then. */
export async function execute(
  sessions: Sessions,
  spec: TransactionSpec,
  signal: AbortSignal | undefined,
): Promise<Execution> {
  refuse(spec.statements, spec.id);
  for (let attempt = 1; ; attempt++)
    try {
      return await attemptOn(sessions, spec, signal);
    } catch (cause) {
      const mayRetry = cause instanceof HighwaterError && cause.code === "serialization_failure";
      if (!mayRetry || attempt === MAX_ATTEMPTS || signal?.aborted === true) throw cause;
    }
}

async function attemptOn(
  sessions: Sessions,
  spec: TransactionSpec,
  signal: AbortSignal | undefined,
): Promise<Execution> {
  const session = await sessions.lease(spec, signal);
  let keep = false;
  try {
    const head = headOf(spec);
    const steps = [...head, ...wholeRows(spec.statements, spec), COMMIT];
    spec.onBeforeSend?.();
    const [body, position] = await inOneWrite(session, sessions, spec, runOf(spec, steps, "I", signal));
    keep = body.status === "I" && !leavesTraces(spec.statements);
    const { results, error } = body;
    if (error === null) return committedAt(spec, position, results.slice(head.length, -1));
    const isSent = results.length >= steps.length - 1;
    return refused(spec, error, { head: head.length, failed: results.length, isCommit: isSent });
  } finally {
    sessions.release(session, keep);
  }
}

/**
 * The position is read behind a Sync of its own: what stands between two of them is one transaction
 * to the server.
 */
async function inOneWrite(
  session: Session,
  { canceller }: Sessions,
  spec: TransactionSpec,
  run: PipelineRun,
): Promise<[PipelineOutcome, PipelineOutcome]> {
  const [body, position] = runInOneWrite(session, canceller, [run, positionRun(spec)]);
  if (body === undefined || position === undefined) throw new Error("two runs have two outcomes");
  try {
    return await Promise.all([body, position]);
  } catch (cause) {
    throw unconfirmed(spec.id, spec.readOnly, cause);
  }
}

function headOf(spec: TransactionSpec): Step[] {
  const access = spec.readOnly ? "READ ONLY" : "READ WRITE";
  const begin = quiet(`BEGIN ISOLATION LEVEL ${ISOLATION_SQL[spec.isolation]}, ${access}`);
  if (spec.readOnly) return [begin, ...limitSteps(spec)];
  const { id, tag, epoch, digest } = spec;
  const values = [id, tag, epoch, String(digest), String(txnTimestampMs(id))];
  return [begin, quiet(INSERT_RECEIPT, values), ...limitSteps(spec)];
}

/** The server does not let one portal wait while another one runs, so it is asked for all rows. */
export function wholeRows(statements: readonly Statement[], spec: ResultLimits): Step[] {
  return bodyOf(statements, spec).map((step) => ({ ...step, countAll: true }));
}

function runOf(
  { maxBytes, fieldDetails, meter }: TransactionSpec,
  steps: readonly Step[],
  leaves: "I" | "T",
  signal: AbortSignal | undefined,
): PipelineRun {
  return { steps, maxBytes, fieldDetails, meter, leaves, signal };
}

/**
 * For a read, the server's clock after it. For a write, the timestamp of its receipt: SHOW COMMIT
 * TIMESTAMP is too low below SERIALIZABLE, and fails at the end of a batch.
 */
function positionRun({ readOnly, id, tag }: TransactionSpec): PipelineRun {
  const step = readOnly ? quiet(LOG_END) : quiet(RECEIPT_POSITION, [id, tag]);
  return { steps: [step], maxBytes: 0, fieldDetails: false, leaves: "I", signal: undefined };
}

function committedAt(
  spec: TransactionSpec,
  { results, error }: PipelineOutcome,
  answers: readonly StatementResult[],
): Committed {
  const [first, second] = results[0]?.rows[0] ?? [];
  const [position, epoch] = spec.readOnly ? [second, first] : [first, second];
  if (spec.readOnly && error === null && epoch !== spec.epoch)
    throw new HighwaterError("epoch_changed", { transactionId: spec.id });
  if (error !== null || position == null || epoch !== spec.epoch)
    throw unconfirmed(spec.id, spec.readOnly, error ?? new Error("its receipt is not there"));
  const offset: Offset = parseHlc(position);
  // What a read could see has the database's survival goal.
  return spec.readOnly
    ? { kind: "committed", offset, exact: false, isFlushed: true, results: answers }
    : { kind: "committed", offset, exact: true, results: answers };
}

function refused(
  spec: TransactionSpec,
  error: DatabaseError,
  at: { readonly head: number; readonly failed: number; readonly isCommit: boolean },
): Execution {
  const { head, failed, isCommit } = at;
  // The server itself does not know whether it has committed (40003), or cannot say any more.
  const isUnknown = endsSession(error.severity) || error.code === "40003";
  if (isUnknown || (isCommit && error.code?.startsWith("08") === true))
    throw unconfirmed(spec.id, spec.readOnly, error);
  if (!spec.readOnly && failed === RECEIPT_AT) return refusedReceipt(spec, error);
  const isUsers = failed >= head && failed < head + spec.statements.length;
  throw failureOf(error, { id: spec.id, statement: isUsers ? failed - head : undefined });
}

function refusedReceipt(
  { id: transactionId }: TransactionSpec,
  error: DatabaseError,
): { kind: "already_settled" } {
  // The details name the row, and so the tag.
  error.detail = undefined;
  const about = { transactionId };
  switch (error.code) {
    case "23505":
      return { kind: "already_settled" };
    case "23502":
      throw new HighwaterError(
        /column "kind"/.test(error.message) ? "id_out_of_window" : "epoch_changed",
        about,
        {
          cause: error,
        },
      );
    case "25006":
    case "42P01":
    case "3F000":
      throw new HighwaterError("epoch_changed", about, { cause: error });
    case "55P03":
    case "57014":
      throw new HighwaterError(
        "transaction_in_progress",
        { ...about, retryAfterMs: 1_000 },
        { cause: error },
      );
    default:
      throw failureOf(error, { id: transactionId, statement: undefined });
  }
}

export function refuse(statements: readonly Statement[], id?: TxnId): void {
  refuseControl(statements, id);
  refuseForCockroach(statements, id);
}

export async function begin(
  sessions: Sessions,
  spec: TransactionSpec,
  signal: AbortSignal | undefined,
): Promise<Opening> {
  refuse(spec.statements, spec.id);
  const session = await sessions.lease(spec, signal);
  const transaction = new CockroachTransaction(session, sessions, spec);
  const results = await transaction.open(signal);
  return results === null ? { kind: "already_settled" } : { kind: "open", transaction, results };
}

class CockroachTransaction extends OpenCalls implements OpenTransaction {
  readonly holder: string;
  readonly #session: Session;
  readonly #sessions: Sessions;
  readonly #spec: TransactionSpec;
  #hasEnded = false;
  #hasTraces = false;

  constructor(session: Session, sessions: Sessions, spec: TransactionSpec) {
    super();
    this.holder = session.holder;
    this.#session = session;
    this.#sessions = sessions;
    this.#spec = spec;
  }

  get isOver(): boolean {
    return this.#hasEnded || this.#session.isLost;
  }

  /** Null: the id has a receipt already, and no transaction is open. */
  async open(signal: AbortSignal | undefined): Promise<readonly StatementResult[] | null> {
    const head = headOf(this.#spec);
    const { statements } = this.#spec;
    const { results, error } = await this.#send(
      [...head, ...this.#body(statements)],
      signal,
      this.#spec.meter,
    );
    if (error === null) return results.slice(head.length);
    this.#end(false);
    if (endsSession(error.severity)) throw sessionLost(this.#spec.id, error);
    refused(this.#spec, error, { head: head.length, failed: results.length, isCommit: false });
    return null;
  }

  async rollback(): Promise<void> {
    await this.endCalls();
    if (this.#hasEnded) return;
    const isUndone = await this.#session.client.query("ROLLBACK").then(
      () => true,
      () => false,
    );
    this.#end(isUndone);
  }

  #body(statements: readonly Statement[]): Step[] {
    this.#hasTraces ||= leavesTraces(statements);
    return wholeRows(statements, this.#spec);
  }

  protected async runNow(
    statements: readonly Statement[],
    signal: AbortSignal | undefined,
    meter: ResultMeter | undefined,
  ): Promise<readonly StatementResult[]> {
    this.#check(statements);
    const { results, error } = await this.#send(this.#body(statements), signal, meter);
    if (error === null) return results;
    const failure = failureOf(error, { id: this.#spec.id, statement: results.length });
    // No savepoint helps after a conflict, so the transaction ends and frees its locks at once.
    if (endsSession(error.severity) || failure.code === "serialization_failure") this.#end(false);
    if (endsSession(error.severity)) throw sessionLost(this.#spec.id, error);
    throw failure;
  }

  protected async commitNow(
    statements: readonly Statement[],
    options: OpenCommitOptions,
  ): Promise<Execution> {
    this.#check(statements);
    const { id, readOnly } = this.#spec;
    const steps = [...this.#body(statements), STILL_WELL, COMMIT];
    options.onBeforeSend?.();
    const run = { ...runOf(this.#spec, steps, "I", options.signal), meter: options.meter };
    let isIdle = false;
    try {
      const [body, position] = await inOneWrite(this.#session, this.#sessions, this.#spec, run);
      const { results, error } = body;
      isIdle = error === null;
      if (error === null) return committedAt(this.#spec, position, results.slice(0, -2));
      const isUsers = results.length < statements.length;
      const isCommit = results.length > statements.length;
      if (endsSession(error.severity) || (isCommit && /^(08|40003)/.test(error.code ?? "")))
        throw unconfirmed(id, readOnly, error);
      throw failureOf(error, { id, statement: isUsers ? results.length : undefined });
    } finally {
      this.#end(isIdle);
    }
  }

  #check(statements: readonly Statement[]): void {
    refuse(statements, this.#spec.id);
    if (this.isOver) throw sessionLost(this.#spec.id, undefined);
  }

  async #send(
    steps: readonly Step[],
    signal: AbortSignal | undefined,
    meter: ResultMeter | undefined,
  ): Promise<PipelineOutcome> {
    const run = { ...runOf(this.#spec, steps, "T", this.abortingWith(signal)), meter };
    try {
      return await runPipeline(this.#session, this.#sessions.canceller, run);
    } catch (cause) {
      this.#end(false);
      throw sessionLost(this.#spec.id, cause);
    }
  }

  #end(keep: boolean): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#sessions.release(this.#session, keep && !this.#hasTraces);
  }
}
