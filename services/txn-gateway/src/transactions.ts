// One transaction from an accepted request to its answer: announce, run once, settle what stays unknown, wait for durability.
// The rules it follows are in txn/; the waiting, the queues and the primary are its neighbours'.
import { HighwaterError, type TransactionResponse } from "@highwater/protocol";
import { type Execution, sleep } from "@highwater/store";
import { type ActiveTransactions } from "./active.ts";
import { type Announced, type Announcer } from "./announcer.ts";
import { type Config } from "./config.ts";
import { type Deps } from "./deps.ts";
import { type Durability } from "./durability.ts";
import { type FlushHelp } from "./flush.ts";
import { type LookUps } from "./look-ups.ts";
import { type MarkBoard } from "./marks.ts";
import { type Metrics } from "./metrics.ts";
import { type Primary, type Reign } from "./primary.ts";
import { type Settler } from "./settler.ts";
import { type Committed, tokenOf, transactionAnswer } from "./txn/answer.ts";
import { checkIdWindow } from "./txn/id-window.ts";
import { type Accepted } from "./txn/request.ts";
import { provesNothingCommitted, refusalOf, type Settled } from "./txn/settled.ts";

export interface TransactionParts {
  readonly config: Config;
  readonly deps: Deps;
  readonly primary: Primary;
  readonly announcer: Announcer;
  readonly marks: MarkBoard;
  readonly durability: Durability;
  readonly flush: FlushHelp;
  readonly lookUps: LookUps;
  readonly settler: Settler;
  readonly active: ActiveTransactions;
  readonly metrics: Metrics;
}

export interface Answer {
  /** 202: committed, and not yet known to be durable. */
  readonly status: 200 | 202;
  readonly body: TransactionResponse;
}

/** A request that arrives between two reigns waits so long for the next before it is refused. */
const AUTHORITY_WAIT_MS = 200;
/** How long a client waits for an unknown outcome to be settled; the settling itself goes on for longer. */
const SETTLE_ANSWER_MS = 10_000;
const RETRY_MS = 500;

interface Attempt {
  readonly request: Accepted;
  readonly reign: Reign;
  /** Null for a read-only transaction: there is nothing that could be lost. */
  announced: Announced | null;
}

interface Done {
  readonly committed: Committed;
  readonly announced: Announced | null;
}

export class Transactions {
  readonly #parts: TransactionParts;
  /** More would only fail in the queue for a session, after having been announced. */
  readonly #activeMax: number;

  constructor(parts: TransactionParts) {
    this.#parts = parts;
    this.#activeMax = parts.config.poolSize + parts.config.poolQueue;
  }

  /** Errors: HighwaterError; an error of another kind is a fault of the service. */
  async run(request: Accepted): Promise<Answer> {
    const { metrics } = this.#parts;
    const { ack } = request;
    try {
      const answer = await this.#answer(request, await this.#runOnce(request));
      metrics.transactions.add({ ack, outcome: answer.body.state });
      return answer;
    } catch (cause) {
      metrics.transactions.add({ ack, outcome: cause instanceof HighwaterError ? cause.code : "internal" });
      throw cause;
    }
  }

  async #runOnce(request: Accepted): Promise<Done> {
    const { active, primary, announcer, config } = this.#parts;
    const { id, ack } = request;
    checkIdWindow(id, {
      nowMs: primary.serverNowMs(),
      retentionMs: config.retentionMs,
      futureMs: config.idFutureMs,
    });
    const end = active.begin(id);
    if (end === null)
      throw new HighwaterError("transaction_in_progress", { transactionId: id, retryAfterMs: RETRY_MS });
    const held: Promise<unknown>[] = [];
    try {
      if (active.size > this.#activeMax)
        throw new HighwaterError("overloaded", { transactionId: id, retryAfterMs: RETRY_MS });
      const reign = primary.reign ?? (await primary.await(AUTHORITY_WAIT_MS));
      const slow = request.readOnly ? null : announcer.admit(ack);
      if (slow !== null) await slow;
      const attempt: Attempt = { request, reign, announced: null };
      return { committed: await this.#execute(attempt, held), announced: attempt.announced };
    } finally {
      // An id whose outcome is still being settled is not free for another attempt.
      void Promise.all(held).finally(end);
    }
  }

  async #execute(attempt: Attempt, held: Promise<unknown>[]): Promise<Committed> {
    const { deps, config, primary, announcer } = this.#parts;
    const { request, reign } = attempt;
    const { id, statements, isolation, readOnly } = request;
    let execution: Execution;
    try {
      const executing = deps.store.execute(reign.node, {
        id,
        epoch: reign.epoch,
        statements,
        isolation,
        readOnly,
        maxRows: config.maxRows,
        maxBytes: config.maxResultBytes,
      });
      // What the store refuses without running it has failed by now, and such a request is not announced. All others are,
      // in this very tick, before anything has left for the database.
      await Promise.race([executing, Promise.resolve()]);
      if (!readOnly) attempt.announced = announcer.announce(id, reign.epoch, request.metadata);
      execution = await executing;
    } catch (cause) {
      if (!(cause instanceof HighwaterError)) throw cause;
      if (cause.outcome === "unknown") return this.#resolve(attempt, held, cause);
      if (cause.code === "primary_unavailable" || cause.code === "epoch_changed") primary.nudge();
      if (provesNothingCommitted(cause)) attempt.announced?.withdraw();
      throw cause;
    }
    return execution.kind === "committed" ? this.#committed(attempt, execution) : this.#replay(attempt);
  }

  #committed(attempt: Attempt, execution: Extract<Execution, { kind: "committed" }>): Committed {
    const { request, reign, announced } = attempt;
    const { offset, results } = execution;
    announced?.position(offset);
    if (!request.readOnly || request.ack === "durable") this.#parts.flush.committed(reign);
    return {
      kind: request.readOnly ? "read" : "write",
      id: request.id,
      epoch: reign.epoch,
      offset,
      attempt: reign.epoch,
      results,
    };
  }

  /** The id has been used before: the original outcome counts, and nothing was run. */
  async #replay(attempt: Attempt): Promise<Committed> {
    const { id } = attempt.request;
    return this.#conclude(attempt, await this.#parts.lookUps.find(attempt.reign, id, "commit_unconfirmed"));
  }

  /** The connection died during COMMIT, or another session holds the id: find out, or make it so that it never commits. */
  async #resolve(attempt: Attempt, held: Promise<unknown>[], cause: HighwaterError): Promise<Committed> {
    const { deps, primary } = this.#parts;
    const { id } = attempt.request;
    deps.log.warn("outcome_unknown", { transactionId: id, epoch: attempt.reign.epoch, cause });
    primary.nudge();
    const settling = this.#settle(attempt);
    held.push(settling);
    const over = new AbortController();
    const limit = sleep(deps.clock, SETTLE_ANSWER_MS, over.signal).then(() => null);
    const settled = await Promise.race([settling, limit]).finally(() => {
      over.abort();
    });
    if (settled === null) {
      const details = { transactionId: id, retryAfterMs: 2 * RETRY_MS };
      throw new HighwaterError("commit_unconfirmed", details, { cause });
    }
    if (settled.kind !== "committed") throw refusalOf(settled.kind, id);
    return this.#fromReceipt(attempt, settled);
  }

  /** Announces what it finds, also when the client has been answered meanwhile. Never rejects. */
  async #settle(attempt: Attempt): Promise<Settled | null> {
    const { settler, metrics, deps } = this.#parts;
    const settled = await settler.settle(attempt.request.id);
    const resolution = settled?.kind ?? "unsettled";
    metrics.unknownOutcomes.add({ resolution });
    deps.log.info("outcome_settled", { transactionId: attempt.request.id, resolution });
    if (settled !== null) this.#announceSettled(attempt, settled);
    return settled;
  }

  #conclude(attempt: Attempt, settled: Settled): Committed {
    this.#announceSettled(attempt, settled);
    if (settled.kind !== "committed") throw refusalOf(settled.kind, attempt.request.id);
    return this.#fromReceipt(attempt, settled);
  }

  /**
   * A position may be announced only in the epoch that the receipt names; what was carried over since then the trackers
   * know from the original's announcement. `lost` is their own word, which a withdrawal must not undo.
   */
  #announceSettled({ announced, reign }: Attempt, settled: Settled): void {
    if (settled.kind === "aborted") announced?.withdraw();
    if (settled.kind !== "committed") return;
    if (settled.attempt === reign.epoch && settled.epoch === reign.epoch) announced?.position(settled.offset);
  }

  #fromReceipt({ request }: Attempt, settled: Extract<Settled, { kind: "committed" }>): Committed {
    const { reign } = this.#parts.primary;
    // The position was read after the receipt; nothing need be there yet that would bring it to disk.
    if (reign?.epoch === settled.epoch) this.#parts.flush.committed(reign);
    const { epoch, offset, attempt } = settled;
    return { kind: "write", id: request.id, epoch, offset, attempt, results: null };
  }

  async #answer(request: Accepted, { committed, announced }: Done): Promise<Answer> {
    const { marks, durability } = this.#parts;
    const { ack, level } = request;
    const token = tokenOf(committed);
    const answer = (state: "committed" | "durable" | "pending"): Answer => ({
      status: state === "pending" ? 202 : 200,
      body: transactionAnswer(committed, {
        state,
        token,
        level,
        marks: marks.newest,
        announced: announced?.reached ?? false,
      }),
    });
    if (ack === "commit") return answer("committed");
    const { epoch, offset } = committed;
    const fate = await durability.await({ token, epoch, offset, level }, request.maxWaitMs);
    switch (fate) {
      case "durable":
        return answer("durable");
      case "pending":
      case "expired":
        return answer("pending");
      case "lost":
        throw new HighwaterError("transaction_lost", { transactionId: committed.id });
      case "broken":
        throw new HighwaterError("transaction_lost", {
          transactionId: committed.id,
          detail: `The transaction was lost although it had been durable at ${level}: the promise was broken.`,
        });
    }
  }
}
