// Interactive transactions: opened, called one call at a time, and ended by their client, by a time limit or by a failure.
// Owns that none is left behind with its session; how a commit ends is in outcomes.ts.
import {
  HighwaterError,
  type OpenTransactionResponse,
  type RollbackRequest,
  type RollbackResponse,
  type StatementResult,
  type StatementsRequest,
  type TransactionResponse,
  type TxnId,
} from "@highwater/protocol";
import { type Opening, type OpenTransaction } from "@highwater/store";
import { type ActiveTransactions } from "../active.ts";
import { type Announcer } from "../announcer.ts";
import { refuseTruncated, withinTime } from "../bounds.ts";
import { type Config } from "../config.ts";
import { type Deps } from "../deps.ts";
import { type Principal, requireScope } from "../identity/principal.ts";
import { type MarkBoard } from "../marks.ts";
import { type Metrics } from "../metrics.ts";
import { type Attempt, type Outcomes } from "../outcomes.ts";
import { type Primary, type Reign } from "../primary.ts";
import { type Caller } from "../txn/caller.ts";
import { INTERACTIVE } from "../txn/digest.ts";
import { checkIdWindow } from "../txn/id-window.ts";
import { type AcceptedBegin, type AcceptedCommit } from "../txn/request.ts";
import { Calls } from "./calls.ts";
import { type End, EndedTransactions, goneError } from "./ended.ts";
import { Lifetime } from "./lifetime.ts";
import { OpenLimits } from "./open-limits.ts";
import { SessionHeaders } from "./session-header.ts";

export interface CallAnswer {
  readonly status: 200 | 202;
  readonly body: OpenTransactionResponse | TransactionResponse | RollbackResponse;
}

export interface InteractiveParts {
  readonly config: Config;
  readonly deps: Deps;
  readonly primary: Primary;
  readonly announcer: Announcer;
  readonly marks: MarkBoard;
  readonly active: ActiveTransactions;
  readonly outcomes: Outcomes;
  readonly metrics: Metrics;
}

interface Open {
  readonly principal: Principal;
  readonly request: AcceptedBegin;
  readonly attempt: Attempt;
  readonly transaction: OpenTransaction;
  readonly calls: Calls<CallAnswer>;
  readonly lifetime: Lifetime;
  /** What the begin was answered, until the first call shows that the answer arrived. */
  opened: readonly StatementResult[] | null;
  /** From here on only the database's word ends it. */
  isCommitting: boolean;
  /** Frees the id and the place among the open ones. */
  readonly leave: () => void;
}

const AUTHORITY_WAIT_MS = 200;
const RETRY_MS = 500;

export class Interactive {
  readonly headers: SessionHeaders;
  readonly #parts: InteractiveParts;
  readonly #limits: OpenLimits;
  readonly #open = new Map<TxnId, Open>();
  readonly #ended: EndedTransactions<Open>;
  /** Ends that give their sessions back only now. */
  readonly #ending = new Set<Promise<void>>();

  constructor(parts: InteractiveParts) {
    const { config, deps } = parts;
    this.#parts = parts;
    this.headers = new SessionHeaders(config.name, config.identity.sessionSecret);
    this.#limits = new OpenLimits(config);
    this.#ended = new EndedTransactions(deps.clock);
  }

  get size(): number {
    return this.#open.size;
  }

  isOpen(id: TxnId): boolean {
    return this.#open.has(id);
  }

  /**
   * Opens a transaction; for a used id, the answer of the transaction that it stands for.
   * Errors: HighwaterError. The same begin again, before any other call, gets the same answer.
   */
  async begin(request: AcceptedBegin, caller: Caller): Promise<CallAnswer> {
    const { principal } = caller;
    requireScope(principal, request.readOnly ? "read" : "write");
    const open = this.#open.get(request.id);
    if (open?.opened != null && open.principal.owner === principal.owner) {
      if (JSON.stringify(open.request) !== JSON.stringify(request))
        throw new HighwaterError("id_reused", { transactionId: request.id, open: true });
      return this.#active(request.id, open, { seq: 0, results: open.opened });
    }
    const { config, primary } = this.#parts;
    checkIdWindow(request.id, {
      nowMs: primary.serverNowMs(),
      retentionMs: config.retentionMs,
      futureMs: config.idFutureMs,
    });
    const leave = this.#enter(request.id, principal);
    let isOpen = false;
    try {
      const answer = await this.#begin(request, caller, leave);
      isOpen = this.#open.has(request.id);
      return answer;
    } finally {
      if (!isOpen) leave();
    }
  }

  /** The id, and a place among the open ones. */
  #enter(id: TxnId, principal: Principal): () => void {
    const freeId = this.#parts.active.begin(id, principal.owner);
    if (freeId === null)
      throw new HighwaterError("transaction_in_progress", { transactionId: id, retryAfterMs: RETRY_MS });
    try {
      const freePlace = this.#limits.enter(principal);
      let hasLeft = false;
      return () => {
        if (hasLeft) return;
        hasLeft = true;
        freePlace();
        freeId();
      };
    } catch (cause) {
      freeId();
      throw cause;
    }
  }

  async #begin(request: AcceptedBegin, caller: Caller, leave: () => void): Promise<CallAnswer> {
    const { primary, outcomes } = this.#parts;
    const { id, readOnly } = request;
    const { owner } = caller.principal;
    const reign = primary.reign ?? (await primary.await(AUTHORITY_WAIT_MS));
    const digest = readOnly ? 0n : INTERACTIVE;
    const attempt: Attempt = { id, reign, readOnly, owner, digest, announced: null };
    const opening = await this.#openOn(reign, request, caller);
    if (opening.kind === "already_settled") {
      const committed = await outcomes.replay(attempt);
      return outcomes.answer(committed, null, { ack: "commit", level: "", maxWaitMs: 0 });
    }
    return this.#register({ attempt, request, leave, opening, principal: caller.principal });
  }

  async #openOn(reign: Reign, request: AcceptedBegin, { principal, signal }: Caller): Promise<Opening> {
    const { deps, config, active, primary } = this.#parts;
    const { role, owner, limits } = principal;
    const bounds = withinTime(active, config.totalTimeoutMs, signal);
    const spec = {
      ...{ id: request.id, epoch: reign.epoch, statements: request.statements, isolation: request.isolation },
      ...{ readOnly: request.readOnly, deferrable: request.deferrable, role, owner, digest: INTERACTIVE },
      ...{ statementTimeoutMs: limits.statementTimeoutMs, lockTimeoutMs: limits.lockTimeoutMs },
      ...{ maxRows: config.maxRows, maxBytes: config.maxResultBytes },
    };
    try {
      return await deps.store.begin(reign.node, spec, bounds.signal);
    } catch (cause) {
      const why = bounds.reasonFor(cause);
      if (
        why instanceof HighwaterError &&
        (why.code === "primary_unavailable" || why.code === "epoch_changed")
      )
        primary.nudge();
      throw why;
    } finally {
      bounds.end();
    }
  }

  #register(opened: {
    readonly attempt: Attempt;
    readonly request: AcceptedBegin;
    readonly principal: Principal;
    readonly opening: Extract<Opening, { kind: "open" }>;
    readonly leave: () => void;
  }): CallAnswer {
    const { deps, config, primary } = this.#parts;
    const { attempt, request, principal, opening, leave } = opened;
    const { id } = request;
    const limits = {
      idleTimeoutMs: principal.limits.idleTimeoutMs ?? config.idleTimeoutMs,
      totalTimeoutMs: principal.limits.totalTimeoutMs ?? config.totalTimeoutMs,
    };
    const lifetime = new Lifetime(deps.clock, limits, (limit) => {
      const detail = `The limit ${limit.name} is ${String(limit.value)} ms; the transaction was rolled back.`;
      void this.#end(id, entry, { how: "expired", detail, limit });
    });
    const entry: Open = {
      ...{ principal, request, attempt, transaction: opening.transaction, leave, lifetime },
      ...{ calls: new Calls<CallAnswer>(), opened: opening.results, isCommitting: false },
    };
    this.#open.set(id, entry);
    // The reign may have ended while it was being opened.
    if (primary.reign !== null && primary.reign.epoch !== attempt.reign.epoch) this.failedOver(primary.reign);
    return this.#active(id, entry, { seq: 0, results: opening.results });
  }

  #active(
    id: TxnId,
    { lifetime }: Open,
    call: { readonly seq: number; readonly results: readonly StatementResult[] },
  ): CallAnswer {
    const expiresAt = new Date(lifetime.expiresAtMs).toISOString();
    const results = call.results as StatementResult[];
    const { marks } = this.#parts;
    return {
      status: 200,
      body: { id, state: "active", seq: call.seq, results, expiresAt, marks: marks.newest },
    };
  }

  statements(id: TxnId, request: StatementsRequest, caller: Caller): Promise<CallAnswer> {
    return this.#call(id, request, caller, async (open) => {
      const results = await this.#whileBusy(id, open, caller, (signal) =>
        open.transaction.run(request.statements, signal),
      );
      refuseTruncated(results, this.#parts.config);
      return this.#active(id, open, { seq: request.seq, results });
    });
  }

  commit(id: TxnId, request: AcceptedCommit, caller: Caller): Promise<CallAnswer> {
    return this.#call(id, request, caller, async (open) => {
      const { announcer, outcomes } = this.#parts;
      const { attempt } = open;
      const slow = attempt.readOnly ? null : announcer.admit(request.ack);
      if (slow !== null) await slow;
      const committed = await this.#commit(id, open, request);
      return outcomes.answer(committed, attempt.announced, request);
    });
  }

  /** Nobody can cancel it any more but the hard limit of time, whose outcome is looked up. */
  async #commit(id: TxnId, open: Open, request: AcceptedCommit): ReturnType<Outcomes["conclude"]> {
    const { announcer, outcomes, active, config } = this.#parts;
    const { attempt, transaction, lifetime } = open;
    const bounds = withinTime(active, config.totalTimeoutMs, undefined);
    const held: Promise<unknown>[] = [];
    open.isCommitting = true;
    lifetime.busy();
    try {
      const executing = transaction.commit(request.statements, bounds.signal);
      // As for a one-shot transaction: what is refused without being sent is not announced, everything else is, at once.
      await Promise.race([executing, Promise.resolve()]);
      if (!attempt.readOnly)
        attempt.announced = announcer.announce(id, attempt.reign.epoch, open.request.metadata);
      const committed = await outcomes.conclude(attempt, executing, (until) => held.push(until));
      await this.#end(id, open, { how: "committed", detail: "The transaction has committed." });
      return committed;
    } catch (cause) {
      const why = bounds.reasonFor(cause);
      open.isCommitting = false;
      if (transaction.isOver) {
        const detail = why instanceof Error ? why.message : "The commit failed.";
        await this.#end(id, open, { how: "aborted", detail }, Promise.all(held));
      } else lifetime.idle();
      throw withOpen(why, this.#open.has(id));
    } finally {
      bounds.end();
    }
  }

  rollback(id: TxnId, request: RollbackRequest, caller: Caller): Promise<CallAnswer> {
    return this.#call(id, request, caller, async (open) => {
      await this.#end(id, open, { how: "rolled_back", detail: "The transaction was rolled back." });
      return { status: 200, body: { id, state: "aborted" } };
    });
  }

  /** The client's signal cancels what is running, and with it the transaction. */
  async #whileBusy<T>(
    id: TxnId,
    open: Open,
    { signal }: Caller,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const { active, config } = this.#parts;
    const { lifetime, transaction } = open;
    const bounds = withinTime(active, config.totalTimeoutMs, signal);
    lifetime.busy();
    try {
      return await work(bounds.signal);
    } catch (cause) {
      const why = bounds.reasonFor(cause);
      const ended = this.#ended.get(id);
      // It was ended from outside while this ran, and that is why this failed.
      if (ended?.entry === open) throw goneError(id, ended.end);
      if (transaction.isOver || bounds.signal.aborted) {
        const detail = why instanceof Error ? why.message : "A statement failed.";
        await this.#end(id, open, { how: "aborted", detail });
      }
      throw withOpen(why, this.#open.has(id));
    } finally {
      bounds.end();
      if (this.#open.get(id) === open) lifetime.idle();
    }
  }

  #call(
    id: TxnId,
    request: { readonly seq: number },
    caller: Caller,
    run: (open: Open) => Promise<CallAnswer>,
  ): Promise<CallAnswer> {
    const { owner } = caller.principal;
    const open = this.#open.get(id);
    const ended = open === undefined ? this.#ended.get(id) : undefined;
    const entry = open ?? ended?.entry;
    if (entry !== undefined && entry.principal.owner !== owner)
      throw new HighwaterError("transaction_not_open", { transactionId: id });
    if (entry === undefined)
      throw new HighwaterError("transaction_expired", {
        detail:
          "It was open here, has not been for a while, and was rolled back unless its commit was answered.",
        transactionId: id,
        open: false,
      });
    if (ended !== undefined && entry.calls.lastSeq !== request.seq) throw goneError(id, ended.end);
    return entry.calls.take(request.seq, request, () => {
      entry.opened = null;
      return run(entry);
    });
  }

  /** Takes it off the table at once; its session, its id and its place are free when the database has let go of them. */
  #end(id: TxnId, open: Open, end: End, until: Promise<unknown> = Promise.resolve()): Promise<void> {
    if (this.#open.get(id) !== open) return Promise.resolve();
    this.#open.delete(id);
    this.#ended.add(id, open, end);
    open.lifetime.stop();
    this.#parts.metrics.openEnds.add({ how: end.how });
    const ending = open.transaction.rollback().then(() => {
      void until.finally(open.leave);
    });
    this.#ending.add(ending);
    void ending.finally(() => this.#ending.delete(ending));
    return ending;
  }

  /** Another reign has begun: what was open in the old one is gone with its sessions. */
  failedOver(reign: Reign): void {
    for (const [id, open] of this.#open) {
      if (open.attempt.reign.epoch === reign.epoch || open.isCommitting) continue;
      void this.#end(id, open, { how: "aborted", detail: "The store failed over; everything was undone." });
    }
  }

  /** Rolls back whatever is open, as at a shutdown. What is committing is waited for. */
  async stop(): Promise<void> {
    for (const [id, open] of this.#open) {
      if (open.isCommitting) continue;
      void this.#end(id, open, { how: "aborted", detail: "The gateway was shut down." });
    }
    await Promise.all(this.#ending);
  }
}

/** The same error, saying whether the transaction is still open. */
function withOpen(cause: unknown, open: boolean): unknown {
  if (!(cause instanceof HighwaterError)) return cause;
  return new HighwaterError(cause.code, { ...cause.details, open }, { cause: cause.cause });
}
