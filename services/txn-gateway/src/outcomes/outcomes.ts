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
import { type Kept } from "../contents/keeper.ts";
import { type Metrics } from "../metrics.ts";
import { type FlushHelp } from "../primary/flush.ts";
import { type Primary, type PrimaryEpoch } from "../primary/primary.ts";
import { RETRY_MS } from "../retry.ts";
import { type TransactionTrace } from "../tracing/transaction-trace.ts";
import { type Announced } from "../trackers/announcer.ts";
import { type Committed, transactionAnswer } from "../txn/answer.ts";
import { achievedLevel } from "../txn/minimum.ts";
import { type Acknowledgement, type RequestRules } from "../txn/request.ts";
import { type Tokens } from "../txn/tokens.ts";
import { type AttemptVerdict, type Durability } from "./durability.ts";
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
  readonly rules: Pick<RequestRules, "levels"> & {
    /** Levels that the database meets with its answer to a commit. */
    readonly metByCommit: readonly string[];
  };
}

/** One run of a transaction in the epoch in which it arrived. */
export interface Attempt {
  readonly id: TxnId;
  /** The owner's tag in its receipt. */
  readonly tag: string;
  readonly primaryEpoch: PrimaryEpoch;
  readonly readOnly: boolean;
  readonly owner: bigint;
  readonly digest: bigint;
  /** Null for a read-only transaction, which has nothing to lose. */
  announced: Announced | null;
  /** Null if it does not count as exposed. */
  exposed: Exposed | null;
  /** Null if it is not traced. */
  trace: TransactionTrace | null;
  /** Where its contents are collected; absent if they are not to be kept. */
  readonly kept?: Kept | null;
}

export interface CommitResponse {
  /** 202: committed, and not yet known to be durable. */
  readonly status: 200 | 202;
  readonly body: TransactionResponse;
}

/** Keeps an id from being used again until the promise has settled. */
export type Hold = (until: Promise<unknown>) => void;

/** How long a client waits for an unknown outcome to be settled. Settling goes on after that. */
const SETTLE_ANSWER_MS = 10_000;

export class Outcomes {
  readonly #parts: OutcomeContext;

  constructor(parts: OutcomeContext) {
    this.#parts = parts;
  }

  /**
   * Returns the attempt's transaction, or throws why there is none. `executing` is the store's
   * answer to its COMMIT. From here on the attempt counts as exposed if it has committed or may
   * have.
   */
  async conclude(attempt: Attempt, executing: Promise<Execution>, hold: Hold): Promise<Committed> {
    const { primary } = this.#parts;
    let execution: Execution;
    try {
      execution = await executing;
    } catch (cause) {
      if (!(cause instanceof HighwaterError)) {
        // A fault of the gateway does not show what the database has done.
        void this.#settleExposed(attempt);
        throw cause;
      }
      // Another attempt holds the id and may still commit. This one has not run, and settling the
      // id would end the other.
      if (cause.code === "transaction_in_progress") {
        this.#release(attempt);
        throw cause;
      }
      if (cause.outcome === "unknown") return this.resolve(attempt, hold, cause, "wait_for_held");
      this.#release(attempt);
      if (cause.code === "primary_unavailable" || cause.code === "epoch_changed") primary.wake();
      // This attempt never commits. An earlier one under its id may have, so that one's
      // announcement stays: it has its own name.
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
    attempt.kept?.committed(announced, { epoch, offset }, results, execution.order);
    if (attempt.trace !== null) {
      attempt.trace.committed({ epoch, offset, owner });
      if (attempt.exposed !== null) attempt.exposed.trace = attempt.trace;
    }
    if (attempt.exposed !== null) this.#parts.exposure.commit(attempt.exposed, epoch, offset);
    if (!readOnly || this.#parts.deps.store.commitsDurably) this.#parts.flush.committed(primaryEpoch, offset);
    if (!readOnly) this.#parts.lookUps.known.note(attempt, { attempt: epoch, epoch, offset });
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

  /** Answers a used id with the original outcome. Nothing ran. */
  async replay(attempt: Attempt): Promise<Committed> {
    // The gateway that committed it counts it.
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
   * Finds out whether an attempt committed whose connection died during COMMIT or whose gateway is
   * gone. If it has not, it never will. Only the client that began the attempt may ask. Errors:
   * `commit_unconfirmed` when settling takes too long; `transaction_in_progress` when another
   * attempt holds the id and is not waited for; those of a settled id.
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
   * Finds out the outcome of a transaction that its client has tried to commit on a connection of
   * its own. If it left no receipt, it can never commit from now on. Errors: those of `resolve`;
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
   * Looks up whether it has committed by now, and settles nothing. False: it has not, or the
   * look-up failed.
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

  /**
   * Settles a transaction whose client has not reported its end for too long. Goes on until that
   * succeeds.
   */
  async settleAbandoned(attempt: Attempt): Promise<void> {
    const settled = await this.#parts.settler.settle(attempt, attempt.primaryEpoch.epoch, {
      limitMs: Number.POSITIVE_INFINITY,
    });
    if (settled !== null) this.#noteSettled(attempt, settled);
  }

  /** Withdraws a transaction that, by its client's report, has not committed and never will. */
  withdraw(attempt: Attempt): void {
    this.#release(attempt);
    attempt.announced?.withdraw();
  }

  /**
   * Settles the id and announces the outcome, even if the client was answered meanwhile. Never
   * rejects.
   */
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
   * Settles until it succeeds: a transaction that may have committed is exposed until its outcome
   * is known.
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
    // Another attempt has committed under the id, and its gateway counts it.
    else if (settled.digest !== attempt.digest) this.withdraw(attempt);
    else if (attempt.exposed !== null)
      this.#parts.exposure.commit(attempt.exposed, settled.epoch, settled.offset);
  }

  #release({ exposed }: Attempt): void {
    if (exposed !== null) this.#parts.exposure.release(exposed);
  }

  /**
   * Announces a position only in the epoch that the receipt names. If the transaction was carried
   * over since, the trackers know it from the original's announcement. `lost` comes from the
   * trackers, and a withdrawal must not undo it.
   */
  #announceSettled({ announced, primaryEpoch, kept, digest }: Attempt, settled: Settled): void {
    if (settled.kind === "aborted") announced?.withdraw();
    if (settled.kind !== "committed") return;
    if (settled.attempt !== primaryEpoch.epoch || settled.epoch !== primaryEpoch.epoch) return;
    announced?.position(settled.offset);
    // Its results are not known, so it is kept as evidence.
    if (settled.digest === digest) kept?.committed(announced, settled, null);
  }

  #fromReceipt(attempt: Attempt, settled: Settled): Committed {
    const { id, owner } = attempt;
    const { hold } = this.#parts.primary;
    // Whether the service brings it back is decided by then.
    if (settled.kind === "lost" && hold.leftMs(settled.epoch) > 0) throw refusalOf({ kind: "held" }, id);
    if (settled.kind !== "committed") throw refusalOf(settled, id);
    if (settled.digest !== attempt.digest) throw new HighwaterError("id_reused", { transactionId: id });
    const { current: primaryEpoch } = this.#parts.primary;
    // The position was read after the receipt, and perhaps no flush has been asked for up to it
    // yet.
    if (primaryEpoch?.epoch === settled.epoch) this.#parts.flush.committed(primaryEpoch, settled.offset);
    const { epoch, offset, attempt: run } = settled;
    return { kind: "write", id, epoch, offset, attempt: run, owner, isFlushed: false, results: null };
  }

  /**
   * Answers after the commit or when durable, as the request asks. A client that is gone waits for
   * nothing.
   */
  async answer(
    committed: Committed,
    announced: Announced | null,
    how: Acknowledgement & {
      readonly served?: Served | undefined;
      /** When a read arrived, by the monotonic clock. Its snapshot is younger. */
      readonly askedAtMs?: number;
      readonly signal?: AbortSignal | undefined;
      readonly trace?: TransactionTrace | null;
      readonly kept?: Kept | null | undefined;
    },
  ): Promise<CommitResponse> {
    const { marks, durability, tokens, deps, rules } = this.#parts;
    const { ack, level, isDurableOnly = false } = how;
    const served = (): Served | undefined =>
      isDurableOnly && how.served !== undefined && how.askedAtMs !== undefined
        ? withAge(how.served, deps.clock.monotonicMs() - how.askedAtMs)
        : how.served;
    const token = tokens.of(committed);
    const answer = async (state: "committed" | "durable" | "pending"): Promise<CommitResponse> => {
      const achieved = achievedLevel(
        marks.strongest(committed, rules.levels),
        state === "durable" ? level : null,
        rules.levels,
      );
      // Of a replay, the attempt that committed was kept or not.
      const isReplay = committed.results === null;
      const kept = isReplay || how.kept == null ? undefined : await how.kept.whenReached();
      return {
        status: state === "pending" ? 202 : 200,
        body: transactionAnswer(committed, {
          state,
          token,
          level,
          achieved,
          isMetByCommit: achieved !== null && rules.metByCommit.includes(achieved),
          marks: marks.newest,
          announced: announced?.reached ?? false,
          served: served(),
          kept,
        }),
      };
    };
    if (ack === "commit") return answer("committed");
    const { epoch, offset } = committed;
    const promised = { token, epoch, offset, level };
    // The rows that a read saw may need a flush. A needless flush would be one more commit that the
    // next read sees and has to wait for.
    const { current: primaryEpoch } = this.#parts.primary;
    if (committed.kind === "read" && !committed.isFlushed && primaryEpoch?.epoch === epoch)
      this.#parts.flush.committed(primaryEpoch, offset);
    const verdict = await durability.await(promised, how.maxWaitMs, how.signal);
    if (verdict !== "pending" && verdict !== "expired") how.trace?.settled(verdict, level);
    if (isDurableOnly && verdict !== "durable") throw unconfirmed(committed.id, verdict, how);
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

/** The snapshot had everything up to its lag when the read arrived; since then it has aged. */
function withAge(served: Served, sinceMs: number): Served {
  const { behindMs } = served;
  return { ...served, ageMs: behindMs === null ? null : behindMs + Math.ceil(sinceMs) };
}

/** The read saw data that may be lost, or is; a new snapshot may not have it. */
function unconfirmed(
  transactionId: TxnId,
  verdict: AttemptVerdict,
  { level, maxWaitMs }: Acknowledgement,
): HighwaterError {
  const isOpen = verdict === "pending" || verdict === "expired";
  return new HighwaterError("read_unconfirmed", {
    detail: isOpen
      ? `The read saw data that is not durable at ${level} yet, after ${String(maxWaitMs)} ms (maxWaitMs).`
      : `A failure discarded data that the read saw, before it was durable at ${level}.`,
    transactionId,
    retryAfterMs: RETRY_MS.soon,
  });
}

/** The result of a read on a replica. It is recorded nowhere else. */
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
