// An interactive transaction on one session, from its BEGIN to its end. The session goes back when the transaction is over.
import { type DatabaseError } from "pg";
import { HighwaterError, type Statement, type StatementResult } from "@highwater/protocol";
import { type Execution, type Opening, type OpenTransaction, type TransactionSpec } from "../port.ts";
import { endedAt, type ExecutionParts } from "./execute.ts";
import { failureOf, receiptRefusal, sessionLost, unconfirmed } from "./failures.ts";
import { type PipelineOutcome, type Step } from "./pipeline.ts";
import { bodyOf, headOf, leavesTraces, refuseControl, tailOf } from "./plan.ts";
import { runPipeline } from "./session.ts";
import { endsSession, isStalePlan, isTransactionOver } from "./sqlstate.ts";
import { type SessionLease } from "./write-pool.ts";

type Parts = Omit<ExecutionParts, "signal">;

/** Takes the lease, and gives it back when nothing is open any more. */
export async function openOn(
  lease: SessionLease,
  spec: TransactionSpec,
  parts: Parts,
  signal: AbortSignal | undefined,
): Promise<Opening> {
  const transaction = new PostgresTransaction(lease, spec, parts);
  const results = await transaction.open(signal);
  return results === null ? { kind: "already_settled" } : { kind: "open", transaction, results };
}

class PostgresTransaction implements OpenTransaction {
  readonly #lease: SessionLease;
  readonly #spec: TransactionSpec;
  readonly #parts: Parts;
  /** What a read-only transaction's first snapshot said of its position. */
  #snapshot: StatementResult | undefined;
  #leavesTraces = false;
  #hasEnded = false;
  #running: Promise<unknown> | null = null;
  /** Cuts short what is running when the transaction is rolled back meanwhile. */
  readonly #ending = new AbortController();

  constructor(lease: SessionLease, spec: TransactionSpec, parts: Parts) {
    this.#lease = lease;
    this.#spec = spec;
    this.#parts = parts;
  }

  get isOver(): boolean {
    return this.#hasEnded || this.#lease.session.isLost;
  }

  /** Null: a receipt with this id exists, and nothing is open. */
  async open(signal: AbortSignal | undefined): Promise<readonly StatementResult[] | null> {
    const { id, statements } = this.#spec;
    const head = headOf(this.#spec);
    const { results, error } = await this.#send(head.steps, statements, [], signal).catch(
      (cause: unknown) => {
        throw sessionLost(id, cause);
      },
    );
    if (error === null) {
      if (head.snapshot !== null) this.#snapshot = results[head.snapshot];
      return results.slice(head.steps.length);
    }
    await this.#end(!endsSession(error.severity));
    if (endsSession(error.severity)) throw sessionLost(id, error);
    if (results.length !== head.receipt)
      throw this.#failure(error, results.length - head.steps.length, statements);
    const refusal = receiptRefusal(error, id);
    if (refusal !== null) throw refusal;
    return null;
  }

  async run(statements: readonly Statement[], signal?: AbortSignal): Promise<readonly StatementResult[]> {
    const { id } = this.#spec;
    this.#refuse(statements);
    const { results, error } = await this.#send([], statements, [], signal).catch((cause: unknown) => {
      throw sessionLost(id, cause);
    });
    if (error === null) return results;
    if (endsSession(error.severity)) {
      await this.#end(false);
      throw sessionLost(id, error);
    }
    const failure = this.#failure(error, results.length, statements);
    // No savepoint mends a conflict: its locks go at once.
    if (failure.code === "serialization_failure" || isTransactionOver(error.code)) await this.#end(true);
    throw failure;
  }

  async commit(statements: readonly Statement[], signal?: AbortSignal): Promise<Execution> {
    const { id, readOnly } = this.#spec;
    this.#refuse(statements);
    const tail = tailOf(this.#spec);
    const { results, error } = await this.#send([], statements, tail.steps, signal).catch(
      (cause: unknown) => {
        throw unconfirmed(id, readOnly, cause);
      },
    );
    const isSessionOver = error !== null && endsSession(error.severity);
    try {
      if (error === null) {
        const offset = endedAt(this.#lease.session, this.#spec, this.#parts.readPositions, {
          tail,
          results: results.slice(statements.length),
          snapshot: this.#snapshot,
        });
        return { kind: "committed", offset, exact: false, results: results.slice(0, statements.length) };
      }
      if (isSessionOver || results.length > statements.length + tail.commit)
        throw unconfirmed(id, readOnly, error);
      throw this.#failure(error, results.length, statements);
    } finally {
      await this.#end(!isSessionOver);
    }
  }

  async rollback(): Promise<void> {
    if (this.#hasEnded) return;
    this.#ending.abort();
    await this.#running?.catch(() => undefined);
    await this.#end(true);
  }

  /** Nothing has been sent when this throws. */
  #refuse(statements: readonly Statement[]): void {
    const { id } = this.#spec;
    refuseControl(statements, id);
    if (this.isOver) throw sessionLost(id, undefined);
  }

  /** Rejects when the connection has ended before the answer was complete; the session is given up by then. */
  async #send(
    head: readonly Step[],
    statements: readonly Statement[],
    tail: readonly Step[],
    signal: AbortSignal | undefined,
  ): Promise<PipelineOutcome> {
    this.#leavesTraces ||= leavesTraces(statements);
    const ending = this.#ending.signal;
    const running = runPipeline(this.#lease.session, this.#parts.canceller, {
      steps: [...head, ...bodyOf(statements, this.#spec), ...tail],
      maxBytes: this.#spec.maxBytes,
      fieldDetails: this.#spec.fieldDetails ?? false,
      signal: signal === undefined ? ending : AbortSignal.any([signal, ending]),
    });
    this.#running = running;
    try {
      return await running;
    } catch (cause) {
      await this.#end(false);
      throw cause;
    } finally {
      this.#running = null;
    }
  }

  #failure(error: DatabaseError, failed: number, statements: readonly Statement[]): HighwaterError {
    const { id } = this.#spec;
    if (error.code !== undefined && isStalePlan(error.code, error.routine)) {
      this.#lease.session.prepared.clear();
      const detail = "The schema changed under a prepared statement; run the transaction again.";
      return new HighwaterError("serialization_failure", { detail, transactionId: id }, { cause: error });
    }
    return failureOf(error, {
      id,
      statement: failed >= 0 && failed < statements.length ? failed : undefined,
    });
  }

  /** Gives the session back: idle, or not at all. */
  async #end(isUsable: boolean): Promise<void> {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    const { session } = this.#lease;
    // Once cancelled it goes away, and its transaction with it.
    const keep = isUsable && !session.isLost && !session.wasCancelled && (await isRolledBack(session.client));
    this.#lease.release({ keep, scrub: this.#leavesTraces });
  }
}

/** ROLLBACK where nothing is open is a mere warning. */
async function isRolledBack(client: { query(sql: string): Promise<unknown> }): Promise<boolean> {
  return client.query("ROLLBACK").then(
    () => true,
    () => false,
  );
}
