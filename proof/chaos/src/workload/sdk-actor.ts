// Runs transactions by the SDK one after another, as an application does: runs the body again after
// a conflict, waits for promises, and reacts to losses.
import { setTimeout as pause } from "node:timers/promises";
import { type Level, type TxnId } from "@highwater/checker";
import {
  type Highwater,
  HighwaterError,
  newTransactionId,
  type Session,
  type StatementInput,
  type Transaction,
  type TransactionOptions,
} from "@highwater/sdk";
import { better, ofError, ofTransaction, type Outcome } from "./outcomes.ts";
import { type Actor, type Shared } from "./parts.ts";
import { metadataOf, type Plan, type Planner } from "./plan.ts";
import { type Random } from "./random.ts";
import { statementsOf } from "./schema.ts";
import { attemptOf } from "./tokens.ts";

const ATTEMPTS_MAX = 5;
const CONFLICT_PAUSE_MS = 15;
const UNAVAILABLE_PAUSE_MS = 400;
/** After this many transactions, a session waits for all of them together. */
const SESSION_WAIT_EVERY = 12;
const SESSION_TXNS_MAX = 50;
const SENT_LATE = 0.1;

export interface SdkActorOptions {
  readonly shared: Shared;
  readonly client: string;
  readonly hw: Highwater;
  readonly planner: Planner;
  /** For pauses only: they are not reproducible, so plans must not depend on them. */
  readonly random: Random;
  /** The level at which the session waits for everything. */
  readonly level: Level;
  /** The session's name; null: no session, and no order between transactions. */
  readonly session: string | null;
}

export interface Run {
  readonly txn: TxnId;
  readonly outcome: Outcome;
  readonly token: string | null;
  /** True when the body may run again under a new id. */
  readonly isForAgain: boolean;
}

export class SdkActor implements Actor {
  readonly kind = "sdk";
  readonly #options: SdkActorOptions;
  readonly #session: Session | null;
  #sessionTxns: TxnId[] = [];

  constructor(options: SdkActorOptions) {
    this.#options = options;
    this.#session = options.session === null ? null : options.hw.session();
  }

  async act(): Promise<void> {
    const { planner } = this.#options;
    const { outcome, txn, isForAgain } = await this.runToTheEnd(planner.next());
    if (outcome.outcome === "aborted" && !isForAgain) await pause(UNAVAILABLE_PAUSE_MS * this.#jitter());
    this.#rememberForSession(txn, outcome);
  }

  /** Runs a plan, and again after conflicts. */
  async runToTheEnd(first: Plan, firstRerunOf: TxnId | null = null): Promise<Run> {
    const { shared, planner } = this.#options;
    let plan = first;
    let rerunOf = firstRerunOf;
    for (let attempt = 1; ; attempt++) {
      const run = await this.#run(plan, { rerunOf, ownSession: firstRerunOf === null });
      if (!run.isForAgain || attempt === ATTEMPTS_MAX || shared.isStopping()) return run;
      await pause(CONFLICT_PAUSE_MS * attempt * this.#jitter());
      plan = planner.again(plan);
      rerunOf = run.txn;
    }
  }

  async #run(
    plan: Plan,
    { rerunOf, ownSession }: { rerunOf: TxnId | null; ownSession: boolean },
  ): Promise<Run> {
    const { shared, client, hw, session } = this.#options;
    const { journal, resolver, recent, promises } = shared;
    const txn = newTransactionId();
    const { operations, ack, level, readOnly, isolation } = plan;
    const ofSession = ownSession ? session : null;
    journal.invoked({
      client,
      session: ofSession,
      txn,
      rerunOf,
      ack,
      level,
      readOnly,
      isolation,
      after: null,
      operations,
      metadata: metadataOf(txn),
      ...(plan.keep && { keep: true }),
    });
    const send = this.#sender(plan, txn, ofSession !== null);
    const [one, other] = await Promise.all(plan.isDuplicated ? [send(), send()] : [send()]);
    if (one === undefined) throw new Error("a transaction was not sent");
    const outcome = other === undefined ? one.outcome : better(one.outcome, other.outcome);
    const best = other !== undefined && outcome === other.outcome ? other : one;
    const { transaction, error } = best;
    this.#noteToken(txn, transaction);
    journal.answered({ txn, ...outcome });
    if (outcome.outcome === "unknown") resolver.add({ hw, txn, level });
    if (transaction !== undefined) {
      recent.add(txn, transaction.token);
      promises.watch(transaction, {
        txn,
        levels: [level, ...plan.alsoAt],
        onLost: () => {
          // Who brings back what was answered and kept is the operator.
          if (!plan.keep || plan.onLost !== "rerun") this.#onLost(plan, txn);
        },
      });
    }
    if (outcome.outcome === "lost") this.#onLost(plan, txn);
    if (outcome.outcome === "committed" && !readOnly && this.#options.random.chance(SENT_LATE))
      shared.late.add(() => this.#resend(plan, txn));
    const isForAgain = outcome.outcome === "aborted" && error?.retry === "transaction";
    return { txn, outcome, token: transaction?.token ?? null, isForAgain };
  }

  /** Noted before the answer is recorded, because a known commit must have its token. */
  #noteToken(txn: TxnId, transaction: Transaction | undefined): void {
    if (transaction === undefined) return;
    const { token } = transaction;
    this.#options.shared.journal.note({ kind: "token", txn, token, attempt: attemptOf(token) });
  }

  #sender(plan: Plan, txn: TxnId, inSession: boolean): () => Promise<Sent> {
    const { hw } = this.#options;
    const statements: StatementInput[] = statementsOf(plan.operations, txn);
    const options: TransactionOptions = {
      id: txn,
      ack: plan.ack,
      // The history has what was answered, and the verdict apart from it.
      onTimeout: "pending",
      level: plan.level,
      isolation: "serializable",
      readOnly: plan.readOnly,
      metadata: metadataOf(txn),
      ...(plan.keep && { keep: true }),
    };
    return async () => {
      try {
        const runner = inSession && this.#session !== null ? this.#session : hw;
        const transaction = await runner.transaction(statements, options);
        return { outcome: ofTransaction(transaction, plan), transaction };
      } catch (error) {
        if (!(error instanceof HighwaterError)) throw error;
        return { outcome: ofError(error, plan), error };
      }
    };
  }

  #onLost(plan: Plan, txn: TxnId): void {
    const { reruns } = this.#options.shared;
    if (plan.onLost === "rerun")
      reruns.add(async () => {
        await this.runToTheEnd(this.#options.planner.again(plan), txn);
      });
    // A read-only transaction leaves nothing by which to refuse its id, so it would run again.
    if (plan.onLost === "resend" && !plan.readOnly) reruns.add(() => this.#resend(plan, txn));
  }

  /**
   * Sends an id again that committed and may be lost. The answer is recorded as another verdict.
   */
  async #resend(plan: Plan, txn: TxnId): Promise<void> {
    const { journal, promises } = this.#options.shared;
    const { outcome, transaction } = await this.#sender(plan, txn, false)();
    if (transaction !== undefined) promises.watch(transaction, { txn, levels: [plan.level] });
    else if (outcome.outcome === "lost" || outcome.error === "id_expired")
      journal.report({
        txn,
        level: plan.level,
        verdict: outcome.outcome === "lost" ? "lost" : "expired",
        by: "promise",
        tracker: null,
        attempt: null,
        rule: "resent",
      });
  }

  #rememberForSession(txn: TxnId, { outcome }: Outcome): void {
    if (this.#session === null || outcome !== "committed") return;
    const { shared, random, level } = this.#options;
    this.#sessionTxns.push(txn);
    if (this.#sessionTxns.length > SESSION_TXNS_MAX) this.#sessionTxns = [];
    if (this.#sessionTxns.length < SESSION_WAIT_EVERY || !random.chance(0.3)) return;
    // A session reports a lost transaction once and then forgets it, so each is waited for only
    // once.
    const txns = this.#sessionTxns;
    this.#sessionTxns = [];
    const session = this.#session;
    shared.reruns.add(() => shared.promises.watchSession(session, level, txns));
  }

  #jitter(): number {
    return 0.5 + this.#options.random.next();
  }
}

interface Sent {
  readonly outcome: Outcome;
  readonly transaction?: Transaction;
  readonly error?: HighwaterError;
}
