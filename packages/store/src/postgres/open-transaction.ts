// An interactive transaction on one session, from its BEGIN to its end. The session goes back when
// the transaction is over.
import { type DatabaseError } from "pg";
import { HighwaterError, type Statement, type StatementResult } from "@highwater/protocol";
import { OpenCalls } from "../open-calls.ts";
import {
  type Execution,
  type OpenCommitOptions,
  type Opening,
  type OpenTransaction,
  type ResultMeter,
  type TransactionSpec,
} from "../port.ts";
import { endedAt, type ExecutionContext, type Opened, openedBy, withPosition } from "./execute.ts";
import { failureOf, receiptRefusal, sessionLost, unconfirmed } from "./failures.ts";
import { type PipelineOutcome, type Step } from "./pipeline.ts";
import { bodyOf, dropsPrepared, headOf, refuseControl, tailOf } from "./plan.ts";
import { type PipelineRun, rollBack, runPipeline, runTogether } from "./session.ts";
import { endsSession, isStalePlan, isTransactionOver } from "./sqlstate.ts";
import { type SessionLease } from "./write-pool.ts";

type Parts = Omit<ExecutionContext, "signal">;

/**
 * Opens a transaction on the leased session. Returns the lease when no transaction is open any
 * more.
 */
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

class PostgresTransaction extends OpenCalls implements OpenTransaction {
  readonly #lease: SessionLease;
  readonly #spec: TransactionSpec;
  readonly #parts: Parts;
  #opened: Opened = {};
  /** The meter of the running call. */
  #meter: ResultMeter | undefined;
  #hasEnded = false;
  /** Whether the reset succeeded that was sent with the transaction's end. */
  #reset: Promise<boolean> | null = null;
  /** True when the server has reported that no transaction is open in the session. */
  #isIdle = false;

  constructor(lease: SessionLease, spec: TransactionSpec, parts: Parts) {
    super();
    this.#lease = lease;
    this.#spec = spec;
    this.#parts = parts;
    this.#meter = spec.meter;
    lease.session.client.once("end", this.#onLost);
  }

  get holder(): string {
    return this.#lease.session.holder;
  }

  get isOver(): boolean {
    return this.#hasEnded || this.#lease.session.isLost;
  }

  /** Null: the id has a receipt already, and no transaction is open. */
  async open(signal: AbortSignal | undefined): Promise<readonly StatementResult[] | null> {
    const { id, statements } = this.#spec;
    const head = headOf(this.#spec);
    const { results, error } = await this.#send(head.steps, statements, [], signal).catch(
      (cause: unknown) => {
        throw sessionLost(id, cause);
      },
    );
    if (error === null) {
      this.#opened = openedBy(head, results);
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

  async rollback(): Promise<void> {
    if (this.#hasEnded) return;
    await this.endCalls();
    await this.#end(true);
  }

  protected async runNow(
    statements: readonly Statement[],
    signal: AbortSignal | undefined,
    meter: ResultMeter | undefined,
  ): Promise<readonly StatementResult[]> {
    const { id } = this.#spec;
    this.#meter = meter;
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
    // No savepoint helps after a conflict, so the transaction ends and frees its locks at once.
    if (failure.code === "serialization_failure" || isTransactionOver(error.code)) await this.#end(true);
    throw failure;
  }

  protected async commitNow(
    statements: readonly Statement[],
    { signal, onBeforeSend, meter }: OpenCommitOptions,
  ): Promise<Execution> {
    const { id, readOnly } = this.#spec;
    this.#meter = meter;
    this.#refuse(statements);
    const tail = tailOf(this.#spec);
    onBeforeSend?.();
    const outcome = await this.#send([], statements, tail.steps, signal).catch((cause: unknown) => {
      throw unconfirmed(id, readOnly, cause);
    });
    const { session } = this.#lease;
    const { canceller, readPositions } = this.#parts;
    const commitAt = statements.length + tail.commit;
    const { results, error } = await withPosition(session, canceller, outcome, commitAt);
    const isSessionOver = error !== null && endsSession(error.severity);
    try {
      if (error === null) {
        const ended = endedAt(session, this.#spec, readPositions, {
          tail,
          results: results.slice(statements.length),
          ...this.#opened,
        });
        return { kind: "committed", exact: false, ...ended, results: results.slice(0, statements.length) };
      }
      if (isSessionOver || results.length > commitAt) throw unconfirmed(id, readOnly, error);
      throw this.#failure(error, results.length, statements);
    } finally {
      await this.#end(!isSessionOver);
    }
  }

  /** Checks statements before anything is sent. */
  #refuse(statements: readonly Statement[]): void {
    const { id } = this.#spec;
    refuseControl(statements, id);
    if (this.isOver) throw sessionLost(id, undefined);
  }

  /**
   * Rejects when the connection ended before the answer was complete. The session is then given up.
   */
  async #send(
    head: readonly Step[],
    statements: readonly Statement[],
    tail: readonly Step[],
    signal: AbortSignal | undefined,
  ): Promise<PipelineOutcome> {
    const { session } = this.#lease;
    const hasToReplan = dropsPrepared(statements);
    // Once cleared, each text is prepared anew, even after the statement that drops them all.
    if (hasToReplan) session.prepared.clear();
    try {
      const outcome = await this.#sendRun(tail.length > 0, {
        steps: [...head, ...bodyOf(statements, this.#spec), ...tail],
        maxBytes: this.#spec.maxBytes,
        fieldDetails: this.#spec.fieldDetails,
        meter: this.#meter,
        leaves: tail.length === 0 ? "T" : "I",
        signal: this.abortingWith(signal),
      });
      this.#isIdle = outcome.status === "I";
      return outcome;
    } catch (cause) {
      const { id, tag, readOnly } = this.#spec;
      if (!readOnly) this.#parts.canceller.giveUp({ id, tag }, session.holder);
      await this.#end(false);
      throw cause;
    } finally {
      if (hasToReplan) session.prepared.clear();
    }
  }

  /** Sends a run. The last one carries the reset of the session in the same write. */
  #sendRun(isLast: boolean, run: PipelineRun): Promise<PipelineOutcome> {
    const { session } = this.#lease;
    if (!isLast) return runPipeline(session, this.#parts.canceller, run);
    const { outcomes, isReset } = runTogether(session, this.#parts.canceller, [run]);
    this.#reset = isReset;
    return outcomes[0] as Promise<PipelineOutcome>;
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

  /** Returns the session to the pool if it is idle, else destroys it. */
  async #end(isUsable: boolean): Promise<void> {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    const { session } = this.#lease;
    session.client.off("end", this.#onLost);
    // A cancelled session is destroyed, and its transaction with it.
    const isWhole = isUsable && !session.isLost && !session.wasCancelled;
    // The answer does not wait for the reset.
    if (isWhole && this.#isIdle && this.#reset !== null)
      void this.#reset.then((keep) => {
        this.#lease.release({ keep, isReset: true });
      });
    else {
      const keep = isWhole && (this.#isIdle || (await rollBack(session, this.#parts.canceller)));
      this.#lease.release({ keep, isReset: !this.#isIdle });
    }
  }

  /** A lost session is returned at once, not only at the next call. */
  readonly #onLost = (): void => {
    void this.#end(false);
  };
}
