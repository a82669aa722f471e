// Turns the end of an attempt into an answer: what a failed or unknown execution means, what a used
// id stands for, and when the answer may say `durable`. One-shot and interactive transactions both
// end here.
import {
  type EpochId,
  HighwaterError,
  type Offset,
  type StatementResult,
  type TxnId,
} from "@highwater/protocol";
import { type Served, type TransactionResponse } from "@highwater/protocol";
import { sleep } from "@highwater/runtime";
import { type Execution } from "@highwater/store";
import { type Deps } from "../deps.ts";
import { type Exposed, type Exposure } from "../exposure/exposure.ts";
import { type Metrics } from "../metrics.ts";
import { type FlushHelp } from "../primary/flush.ts";
import { type Primary, type PrimaryEpoch } from "../primary/primary.ts";
import { RETRY_MS } from "../retry.ts";
import { type TransactionTrace } from "../tracing/transaction-trace.ts";
import { type Announced } from "../trackers/announcer.ts";
import { type Committed, transactionAnswer } from "../txn/answer.ts";
import { type Acknowledgement } from "../txn/request.ts";
import { type Tokens } from "../txn/tokens.ts";
import { type Durability } from "./durability.ts";
import { type Finality } from "./finality.ts";
import { type LookUps } from "./look-ups.ts";
import { type MarkBoard } from "./marks.ts";
import { refusalOf, type Settled } from "./settled.ts";
import { type Settler, type WhenHeld } from "./settler.ts";

export interface OutcomeContext {
  readonly deps: Deps;
  readonly primary: Primary;
  readonly marks: MarkBoard;
  readonly durability: Durability;
  readonly exposure: Exposure;
  readonly flush: FlushHelp;
  readonly finality: Finality;
  readonly lookUps: LookUps;
  readonly settler: Settler;
  readonly metrics: Metrics;
  readonly tokens: Tokens;
}

/** One run of a transaction in the epoch in which it arrived. */
export interface Attempt {
  readonly id: TxnId;
  /** Of its receipt. */
  readonly tag: string;
  readonly primaryEpoch: PrimaryEpoch;
  readonly readOnly: boolean;
  readonly owner: bigint;
  readonly digest: bigint;
  /** Null for a read-only transaction: there is nothing that could be lost. */
  announced: Announced | null;
  /** Null: it is not counted. */
  exposed: Exposed | null;
  /** Null: it is not traced. */
  trace: TransactionTrace | null;
}

export interface CommitResponse {
  /** 202: committed, and not yet known to be durable. */
  readonly status: 200 | 202;
  readonly body: TransactionResponse;
}

/** Keeps an id from being used again until the promise has settled. */
export type Hold = (until: Promise<unknown>) => void;

/**
 * How long a client waits for an unknown outcome to be settled; the settling itself goes on for
 * longer.
 */
const SETTLE_ANSWER_MS = 10_000;

export class Outcomes {
  readonly #parts: OutcomeContext;

  constructor(parts: OutcomeContext) {
    this.#parts = parts;
  }

  /**
   * The attempt's transaction, or why there is none. `executing` is what the store answers to its
   * COMMIT. The attempt is counted as exposed from here on if and only if it has committed, or may
   * have.
   */
  async conclude(attempt: Attempt, executing: Promise<Execution>, hold: Hold): Promise<Committed> {
    const { primary } = this.#parts;
    let execution: Execution;
    try {
      execution = await executing;
    } catch (cause) {
      if (!(cause instanceof HighwaterError)) {
        // A fault of ours says nothing of what the database has done.
        void this.#settleExposed(attempt);
        throw cause;
      }
      // Another attempt holds the id and may yet commit; this one has not run. To settle the id
      // would end that one.
      if (cause.code === "transaction_in_progress") {
        this.#release(attempt);
        throw cause;
      }
      if (cause.outcome === "unknown") return this.resolve(attempt, hold, cause, "wait_for_held");
      this.#release(attempt);
      if (cause.code === "primary_unavailable" || cause.code === "epoch_changed") primary.wake();
      // It never commits. An earlier attempt under its id may have: what that one announced stays,
      // by its own name.
      attempt.announced?.withdraw();
      throw cause;
    }
    return execution.kind === "committed" ? this.#committed(attempt, execution) : this.replay(attempt);
  }

  #committed(attempt: Attempt, execution: Extract<Execution, { kind: "committed" }>): Committed {
    const { id, primaryEpoch, announced, readOnly, owner } = attempt;
    const { offset, results } = execution;
    const { epoch } = primaryEpoch;
    announced?.position(offset);
    if (attempt.trace !== null) {
      attempt.trace.committed({ epoch, offset, owner });
      if (attempt.exposed !== null) attempt.exposed.trace = attempt.trace;
    }
    if (attempt.exposed !== null) this.#parts.exposure.commit(attempt.exposed, epoch, offset);
    if (!readOnly) {
      this.#parts.flush.committed(primaryEpoch);
      this.#parts.lookUps.known.note(attempt, { attempt: epoch, epoch, offset });
    }
    const isFlushed = readOnly && execution.isFlushed === true;
    return {
      kind: readOnly ? "read" : "write",
      id,
      epoch,
      offset,
      attempt: epoch,
      owner,
      isFlushed,
      results,
    };
  }

  /** The id has been used before: the original outcome counts, and nothing was run. */
  async replay(attempt: Attempt): Promise<Committed> {
    // It is counted where it was committed.
    this.#release(attempt);
    const settled = await this.#parts.lookUps.find(attempt.primaryEpoch, attempt, "commit_unconfirmed");
    if ((await this.#parts.finality.await(settled, SETTLE_ANSWER_MS)) !== "reached")
      throw new HighwaterError("commit_unconfirmed", {
        detail: "The id is settled, but a failover could still undo that; retry.",
        transactionId: attempt.id,
        retryAfterMs: RETRY_MS.unsettled,
      });
    this.#announceSettled(attempt, settled);
    return this.#fromReceipt(attempt, settled);
  }

  /**
   * The connection died during COMMIT, or its gateway is gone: find out, or make it so that it
   * never commits. Only for those who began the attempt. Errors: `commit_unconfirmed` when that
   * takes too long; `transaction_in_progress` when another attempt holds the id, unless that is to
   * be waited for; those of a settled id.
   */
  async resolve(attempt: Attempt, hold: Hold, cause: HighwaterError, whenHeld: WhenHeld): Promise<Committed> {
    const { deps, primary } = this.#parts;
    const { id } = attempt;
    const { trace } = attempt;
    deps.log.warn("outcome_unknown", {
      transactionId: id,
      epoch: attempt.primaryEpoch.epoch,
      ...trace?.logFields,
      cause,
    });
    primary.wake();
    const settling = this.#settle(attempt, whenHeld);
    hold(settling);
    const over = new AbortController();
    const limit = sleep(deps.clock, SETTLE_ANSWER_MS, over.signal).then(() => null);
    const settled = await Promise.race([settling, limit]).finally(() => {
      over.abort();
    });
    if (settled !== null) return this.#fromReceipt(attempt, settled);
    const details = { transactionId: id, retryAfterMs: RETRY_MS.primary };
    throw new HighwaterError("commit_unconfirmed", details, { cause });
  }

  /**
   * What became of a transaction that its client has committed, or tried to, on a connection of its
   * own. Where it left no receipt, it never commits from now on. Errors: as those of `resolve`;
   * `id_reused` when another attempt has committed under the id.
   */
  async confirm(attempt: Attempt, hold: Hold): Promise<Committed> {
    const current = await this.#parts.primary.admit();
    const settled = await this.#parts.lookUps.find(current, attempt, "commit_unconfirmed");
    if (settled.kind !== "committed" || settled.digest !== attempt.digest)
      return this.resolve(attempt, hold, new HighwaterError("commit_unconfirmed"), "wait_for_held");
    this.#noteSettled(attempt, settled);
    return this.#fromReceipt(attempt, settled);
  }

  /**
   * Looks whether it has committed by now, as `confirm` does, and settles nothing. False: it has
   * not, or nothing could be found out.
   */
  async hasCommitted(attempt: Attempt): Promise<boolean> {
    const { lookUps, primary } = this.#parts;
    if (primary.current === null) return false;
    const settled = await lookUps.find(primary.current, attempt, "commit_unconfirmed").catch(() => null);
    if (settled?.kind !== "committed" || settled.digest !== attempt.digest) return false;
    this.#noteSettled(attempt, settled);
    this.#fromReceipt(attempt, settled);
    return true;
  }

  /** Its client has said for too long nothing of it: it is settled, however long that takes. */
  async settleAbandoned(attempt: Attempt): Promise<void> {
    const settled = await this.#parts.settler.settle(attempt, attempt.primaryEpoch.epoch, {
      limitMs: Number.POSITIVE_INFINITY,
    });
    if (settled !== null) this.#noteSettled(attempt, settled);
  }

  /** It has not committed, by its client's word, and never will. */
  withdraw(attempt: Attempt): void {
    this.#release(attempt);
    attempt.announced?.withdraw();
  }

  /** Announces what it finds, also when the client has been answered meanwhile. Never rejects. */
  async #settle(attempt: Attempt, whenHeld: WhenHeld): Promise<Settled | null> {
    const { settler, metrics, deps } = this.#parts;
    const beganMs = deps.clock.monotonicMs();
    metrics.settling++;
    const settled = await settler.settle(attempt, attempt.primaryEpoch.epoch, { whenHeld });
    metrics.settling--;
    const resolution = settled?.kind ?? "unsettled";
    metrics.unknownOutcomes.add(resolution);
    metrics.unknownOutcomeTime.at().observe((deps.clock.monotonicMs() - beganMs) / 1_000);
    deps.log.info("outcome_settled", { transactionId: attempt.id, resolution, ...attempt.trace?.logFields });
    if (settled === null) void this.#settleExposed(attempt);
    else this.#noteSettled(attempt, settled);
    return settled;
  }

  /**
   * A transaction that may have committed is exposed for as long as its outcome is unknown; so the
   * question is never given up.
   */
  async #settleExposed(attempt: Attempt): Promise<void> {
    if (attempt.exposed === null) return;
    const { settler, metrics } = this.#parts;
    metrics.settling++;
    const settled = await settler.settle(attempt, attempt.primaryEpoch.epoch, {
      limitMs: Number.POSITIVE_INFINITY,
    });
    metrics.settling--;
    if (settled !== null) this.#noteSettled(attempt, settled);
  }

  #noteSettled(attempt: Attempt, settled: Settled): void {
    this.#announceSettled(attempt, settled);
    if (settled.kind !== "committed") this.#release(attempt);
    // Another attempt has committed under the id; its own gateway counts it.
    else if (settled.digest !== attempt.digest) this.withdraw(attempt);
    else if (attempt.exposed !== null)
      this.#parts.exposure.commit(attempt.exposed, settled.epoch, settled.offset);
  }

  #release({ exposed }: Attempt): void {
    if (exposed !== null) this.#parts.exposure.release(exposed);
  }

  /**
   * A position may be announced only in the epoch that the receipt names; what was carried over
   * since then the trackers know from the original's announcement. `lost` is their own word, which
   * a withdrawal must not undo.
   */
  #announceSettled({ announced, primaryEpoch }: Attempt, settled: Settled): void {
    if (settled.kind === "aborted") announced?.withdraw();
    if (settled.kind !== "committed") return;
    if (settled.attempt === primaryEpoch.epoch && settled.epoch === primaryEpoch.epoch)
      announced?.position(settled.offset);
  }

  #fromReceipt(attempt: Attempt, settled: Settled): Committed {
    const { id, owner } = attempt;
    if (settled.kind !== "committed") throw refusalOf(settled.kind, id);
    if (settled.digest !== attempt.digest) throw new HighwaterError("id_reused", { transactionId: id });
    const { current: primaryEpoch } = this.#parts.primary;
    // The position was read after the receipt; nothing need be there yet that would bring it to
    // disk.
    if (primaryEpoch?.epoch === settled.epoch) this.#parts.flush.committed(primaryEpoch);
    const { epoch, offset, attempt: run } = settled;
    return { kind: "write", id, epoch, offset, attempt: run, owner, isFlushed: false, results: null };
  }

  /**
   * Answers at the commit point or at the durability point, as it was asked; a client that is gone
   * waits for nothing.
   */
  async answer(
    committed: Committed,
    announced: Announced | null,
    how: Acknowledgement & {
      readonly served?: Served | undefined;
      readonly signal?: AbortSignal | undefined;
      readonly trace?: TransactionTrace | null;
    },
  ): Promise<CommitResponse> {
    const { marks, durability, tokens } = this.#parts;
    const { ack, level, served } = how;
    const token = tokens.of(committed);
    const answer = (state: "committed" | "durable" | "pending"): CommitResponse => ({
      status: state === "pending" ? 202 : 200,
      body: transactionAnswer(committed, {
        state,
        token,
        level,
        marks: marks.newest,
        announced: announced?.reached ?? false,
        served,
      }),
    });
    if (ack === "commit") return answer("committed");
    const { epoch, offset } = committed;
    const promised = { token, epoch, offset, level };
    // What a read saw may still need help to get to disk; help where none is needed would be a
    // commit that the next read sees and has to wait for.
    const { current: primaryEpoch } = this.#parts.primary;
    if (committed.kind === "read" && !committed.isFlushed && primaryEpoch?.epoch === epoch)
      this.#parts.flush.committed(primaryEpoch);
    const verdict = await durability.await(promised, how.maxWaitMs, how.signal);
    if (verdict !== "pending" && verdict !== "expired") how.trace?.settled(verdict, level);
    switch (verdict) {
      case "durable":
        return answer("durable");
      case "pending":
      case "expired":
        return answer("pending");
      case "lost":
        throw new HighwaterError("transaction_lost", { transactionId: committed.id });
      case "retried":
        throw new HighwaterError("commit_unconfirmed", {
          transactionId: committed.id,
          detail:
            "A failover discarded this attempt, and another one under the same id committed. Send it again under the same id.",
        });
      case "broken":
        throw new HighwaterError("promise_broken", { transactionId: committed.id });
    }
  }
}

/** What a read on a replica comes to: nothing of it is anywhere but in this answer. */
export function readAt(
  id: TxnId,
  owner: bigint,
  read: {
    readonly position: { readonly epoch: EpochId; readonly offset: Offset };
    readonly results: readonly StatementResult[];
  },
): Committed {
  const { epoch, offset } = read.position;
  // A replica gets nothing that the primary has not flushed.
  return { kind: "read", id, epoch, offset, attempt: epoch, owner, isFlushed: true, results: read.results };
}
