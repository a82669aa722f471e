// Interactive transactions. A client opens one, makes one call at a time, and ends it; a time limit
// or a failure can end it, too. Owns that no transaction is left behind with its session. How a
// commit ends is in outcomes/.
import {
  HighwaterError,
  type OwnedId,
  ownedName,
  type RollbackRequest,
  type StatementResult,
  type StatementsRequest,
  type TxnId,
} from "@highwater/protocol";
import { type Opening } from "@highwater/store";
import { type ResultHold } from "../answers/result-memory.ts";
import { idInUse } from "../attempts/active.ts";
import { type AttemptLabels } from "../attempts/attempts.ts";
import { lifespanMs, refuseTruncated, type TimeBounds, withinTime } from "../attempts/bounds.ts";
import { type Principal, requireScope } from "@highwater/service";
import { type Admitted, UNCOUNTED } from "../exposure/exposure.ts";
import { type Attempt } from "../outcomes/outcomes.ts";
import { type PrimaryEpoch } from "../primary/primary.ts";
import { type TransactionTrace } from "../tracing/transaction-trace.ts";
import { type Committed } from "../txn/answer.ts";
import { type Caller } from "../txn/caller.ts";
import { INTERACTIVE } from "../txn/digest.ts";
import { checkIdWindow } from "../txn/id-window.ts";
import { raised } from "../txn/minimum.ts";
import { type AcceptedBegin, type AcceptedCommit, type Acknowledgement } from "../txn/request.ts";
import { ofUsedNumber, whileOpen, withOpen } from "./call-errors.ts";
import { Calls } from "./calls.ts";
import { type End, EndedTransactions, endedError } from "./ended.ts";
import { resolveLate } from "./late-calls.ts";
import { Lifetime, type LifetimeLimits } from "./lifetime.ts";
import { OpenLimits } from "./open-limits.ts";
import {
  type CallResult,
  digestOfBegin,
  type Done,
  type HeldCallResult,
  type InteractiveContext,
  type Known,
  type Open,
} from "./open.ts";
import { openOn } from "./opening.ts";
import { isSamePrincipal, type Pinned, SessionHeaders, wrongGateway } from "./session-header.ts";
import { traceOfCommit, tracedCall } from "./traced.ts";

const AT_ONCE: Acknowledgement = { ack: "commit", level: "", maxWaitMs: 0 };
/**
 * The most that any key can allow: a transaction that a dead gateway leaves holds its id twice as
 * long.
 */
const TOTAL_TIMEOUT_MS_MAX = 86_400_000;

export class Interactive {
  readonly headers: SessionHeaders;
  readonly #parts: InteractiveContext;
  readonly #limits: OpenLimits;
  /** By `ownedName`. */
  readonly #open = new Map<string, Open>();
  readonly #ended: EndedTransactions<Known>;
  /** Ended transactions whose sessions are not free yet. */
  readonly #ending = new Set<Promise<void>>();

  constructor(parts: InteractiveContext) {
    const { config, deps, keys } = parts;
    this.#parts = parts;
    this.headers = new SessionHeaders(config.name, keys);
    this.#limits = new OpenLimits(config, deps.clock);
    this.#ended = new EndedTransactions(deps.clock);
  }

  get size(): number {
    return this.#open.size;
  }

  /**
   * True while a transaction of any owner is open under the id, or its calls are remembered.
   * Searches all of them: only a shutdown asks.
   */
  isKnown(id: TxnId): boolean {
    return [...this.#open.values()].some(({ known }) => known.attempt.id === id) || this.#ended.isKnown(id);
  }

  /** Returns the header that the client sends back with each call of the open transaction. */
  headerOf(id: TxnId, principal: Principal): string {
    const known = this.#known({ id, owner: principal.owner });
    if (known === undefined) throw new Error(`the transaction ${id} was opened, but is unknown here`);
    return this.headers.of(known.begun, principal);
  }

  #known(of: OwnedId): Known | undefined {
    return this.#open.get(ownedName(of))?.known ?? this.#ended.get(of)?.entry;
  }

  /**
   * Opens a transaction. A used id gets the answer of the transaction that used it. The same begin
   * again, by the same principal before any other call, gets the same answer. Errors:
   * HighwaterError.
   */
  async begin(request: AcceptedBegin, caller: Caller): Promise<HeldCallResult> {
    const { id } = request;
    const { principal } = caller;
    requireScope(principal, request.readOnly ? "read" : "write");
    const open = this.#open.get(ownedName({ id, owner: principal.owner }));
    if (open?.opened != null) {
      // Another key of the owner would get its rows, and a header for it.
      if (!isSamePrincipal(open.principal, principal)) throw idInUse(id);
      if (open.known.begun.digest !== digestOfBegin(request))
        throw new HighwaterError("id_reused", { transactionId: id, open: true });
      return { ...this.#active(id, open, { seq: 0, results: open.opened }), hold: open.hold.keep() };
    }
    const { config, primary } = this.#parts;
    checkIdWindow(id, {
      nowMs: primary.knownServerMs(),
      retentionMs: config.retentionMs,
      futureMs: config.idFutureMs,
    });
    // Its commit decides whether it is safe. If neither kind could be committed now, it must not
    // begin.
    if (!request.readOnly) this.#parts.exposure.check(principal.owner, "durable", request.atRisk);
    this.#parts.memory.refuse(principal.owner);
    const leave = await this.#enter(id, caller);
    const hold = this.#parts.memory.hold(principal.owner);
    try {
      return await this.#begin(request, caller, { leave, hold });
    } catch (cause) {
      hold.release();
      leave();
      throw cause;
    }
  }

  /**
   * Takes the id, and waits for a place among the open transactions. Returns the function that
   * frees both.
   */
  async #enter(id: TxnId, { principal, signal }: Caller): Promise<() => void> {
    const freeId = this.#parts.active.begin({ id, owner: principal.owner });
    if (freeId === null) throw idInUse(id);
    try {
      const freePlace = await this.#limits.enter(principal, signal);
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

  /** Unless it throws, it has called `leave`, and passed `hold` on or released it. */
  async #begin(
    request: AcceptedBegin,
    caller: Caller,
    { leave, hold }: { readonly leave: () => void; readonly hold: ResultHold },
  ): Promise<HeldCallResult> {
    const { primary, outcomes, config, keys } = this.#parts;
    const { id, readOnly } = request;
    const { owner, limits } = caller.principal;
    const lifetimeLimits = {
      idleTimeoutMs: limits.idleTimeoutMs ?? config.idleTimeoutMs,
      totalTimeoutMs: Math.min(limits.totalTimeoutMs ?? config.totalTimeoutMs, TOTAL_TIMEOUT_MS_MAX),
    };
    const primaryEpoch = await (readOnly ? primary.admit() : primary.admitWrite());
    const digest = readOnly ? 0n : INTERACTIVE;
    const kept = this.#parts.keeper.begin({ ...request, form: "interactive" }, caller.principal);
    kept?.check(request.statements);
    kept?.add(request.statements);
    const attempt: Attempt = {
      id,
      tag: keys.receiptTag(owner, id),
      primaryEpoch,
      readOnly,
      owner,
      digest,
      announced: null,
      exposed: null,
      trace: null,
      kept,
    };
    const opening = await tracedCall(
      caller,
      { name: "BEGIN", id, statements: request.statements.length },
      () =>
        openOn(primaryEpoch, request, caller, {
          ...this.#parts,
          limits: lifetimeLimits,
          hold,
          tellsOrder: kept !== null,
        }),
    ).catch((cause: unknown) => this.#refused(cause, attempt));
    if (opening.kind === "open") kept?.answered(opening.results);
    if (opening.kind === "open")
      return this.#register({ attempt, request, caller, leave, hold, opening, limits: lifetimeLimits });
    const committed = await outcomes.replay(attempt);
    const how = raised(AT_ONCE, !readOnly, caller.principal, this.#parts.rules.levels);
    const answer = await outcomes.answer(committed, null, how);
    leave();
    return { ...answer, hold };
  }

  #register(opened: {
    readonly attempt: Attempt;
    readonly request: AcceptedBegin;
    readonly caller: Caller;
    readonly opening: Extract<Opening, { kind: "open" }>;
    readonly leave: () => void;
    readonly hold: ResultHold;
    readonly limits: LifetimeLimits;
  }): HeldCallResult {
    const { deps, primary } = this.#parts;
    const { attempt, request, opening, leave, hold } = opened;
    const { id } = attempt;
    const lifetime = new Lifetime(deps.clock, opened.limits, (limit) => {
      const detail = `The limit ${limit.name} is ${String(limit.value)} ms; the transaction was rolled back.`;
      void this.#end(open, { how: "expired", detail, limit });
    });
    const begun = {
      ...({ id, epoch: attempt.primaryEpoch.epoch, access: request.readOnly ? "read" : "write" } as const),
      digest: digestOfBegin(request),
      holder: opening.transaction.holder,
      deadlineMs: primary.serverNowMs() + lifespanMs(opened.limits.totalTimeoutMs, "interactive"),
    };
    const open: Open = {
      known: { begun, attempt, calls: new Calls<Done>() },
      principal: opened.caller.principal,
      isolation: request.isolation,
      lifetime,
      leave,
      metadata: request.metadata,
      maxDelayMs: request.maxDelayMs,
      atRisk: request.atRisk,
      transaction: opening.transaction,
      opened: opening.results,
      results: [],
      hold,
      isCommitting: false,
      onEnd: () => undefined,
    };
    this.#open.set(ownedName(attempt), open);
    this.#watchCredential(open, opened.caller);
    // The transaction may end below, so its results are kept first.
    const kept = hold.keep();
    // The epoch may have ended while it was being opened.
    if (primary.current !== null && primary.current.epoch !== attempt.primaryEpoch.epoch)
      this.failedOver(primary.current);
    return { ...this.#active(id, open, { seq: 0, results: opening.results }), hold: kept };
  }

  /** Its locks must not outlive what allowed them. A commit that has begun goes on. */
  #watchCredential(open: Open, caller: Caller): void {
    const unwatch = caller.watch?.(() => {
      if (open.isCommitting) return;
      const detail = "The credential was revoked or has other rights; the transaction was rolled back.";
      void this.#end(open, { how: "aborted", detail });
    });
    if (unwatch !== undefined) open.onEnd = unwatch;
  }

  #active(
    id: TxnId,
    { lifetime }: Open,
    call: { readonly seq: number; readonly results: readonly StatementResult[] },
  ): CallResult {
    const expiresAt = new Date(lifetime.expiresAtMs).toISOString();
    const results = call.results as StatementResult[];
    const { marks } = this.#parts;
    return {
      status: 200,
      body: { id, state: "active", seq: call.seq, results, expiresAt, marks: marks.newest },
    };
  }

  async statements(pinned: Pinned, request: StatementsRequest, caller: Caller): Promise<HeldCallResult> {
    const done = await this.#call(pinned, request, caller, (open) => {
      whileOpen(() => {
        this.#parts.memory.refuse(caller.principal.owner);
        open.known.attempt.kept?.check(request.statements);
      });
      return this.#run(open, request, caller);
    });
    return answered(pinned.id, done);
  }

  async #run(open: Open, { seq, statements }: StatementsRequest, caller: Caller): Promise<Done> {
    const { attempt } = open.known;
    const { id } = attempt;
    attempt.kept?.add(statements);
    const hold = this.#parts.memory.hold(attempt.owner);
    try {
      const results = await this.#whileBusy(id, open, caller, ({ signal }) =>
        tracedCall(caller, { name: "EXECUTE", id, statements: statements.length }, () =>
          open.transaction.run(statements, signal, hold),
        ).catch((cause: unknown) => this.#refused(cause, attempt)),
      );
      refuseTruncated(results, this.#parts.config, { hold, transactionId: id, open: true });
      attempt.kept?.answered(results);
      open.results = results;
      // The transaction may have been ended meanwhile.
      if (this.#isOpen(open)) {
        open.hold.release();
        open.hold = hold.keep();
      }
      return { kind: "answered", answer: this.#active(id, open, { seq, results }), hold };
    } finally {
      hold.release();
    }
  }

  /**
   * Commits. A repeated commit is answered from what was committed, and waits for durability again.
   */
  async commit(pinned: Pinned, asked: AcceptedCommit, caller: Caller): Promise<HeldCallResult> {
    const { id, access } = pinned;
    const request = raised(asked, access === "write", caller.principal, this.#parts.rules.levels);
    // If the transaction is over, a repeated commit only reports the outcome.
    const open = this.#open.get(ownedName({ id, owner: caller.principal.owner }));
    const trace = open === undefined ? null : traceOfCommit(id, open, request, caller);
    const labels = open === undefined ? null : labelsOf(open);
    return this.#parts.attempts.counted(request, { labels, trace }, () =>
      this.#answerCommit(pinned, request, caller, trace),
    );
  }

  /**
   * Throws the error to answer. Before its commit a transaction is not safe yet, so errors of
   * statements are as fast as their rows.
   */
  async #refused(
    cause: unknown,
    attempt: Attempt,
    how: Acknowledgement & { readonly signal?: AbortSignal | undefined } = AT_ONCE,
  ): Promise<never> {
    throw await this.#parts.refusals.answer(cause, attempt, how);
  }

  async #answerCommit(
    pinned: Pinned,
    request: AcceptedCommit,
    caller: Caller,
    trace: TransactionTrace | null,
  ): Promise<HeldCallResult> {
    const { outcomes } = this.#parts;
    const { id } = pinned;
    const known = this.#known({ id, owner: caller.principal.owner });
    const done = await this.#call(pinned, request, caller, (open) => {
      const admitted = this.#admit(open, request);
      open.known.attempt.trace = trace;
      return this.#commit(id, open, request, admitted);
    }).catch((cause: unknown) => {
      if (known === undefined) throw cause;
      return this.#refused(cause, known.attempt, { ...request, signal: caller.signal });
    });
    if (done.kind === "answered") return answered(id, done);
    const hold = done.hold?.keep() ?? null;
    try {
      const kept = known?.attempt.kept;
      const how = { ...request, signal: caller.signal, trace, kept };
      return { ...(await outcomes.answer(done.committed, done.announced, how)), hold, kept: kept ?? null };
    } catch (cause) {
      hold?.release();
      throw cause;
    }
  }

  /**
   * From here on only the total time limit can cancel the commit, and then its outcome is looked
   * up.
   */
  async #commit(id: TxnId, open: Open, request: AcceptedCommit, admitted: Admitted): Promise<Done> {
    const { attempts, outcomes, active, config, memory } = this.#parts;
    const { transaction, lifetime } = open;
    const { attempt } = open.known;
    const held: Promise<unknown>[] = [];
    attempt.kept?.acknowledge(request);
    attempt.kept?.add(request.statements);
    open.isCommitting = true;
    lifetime.hold();
    attempt.exposed = admitted.exposed;
    if (admitted.slow !== null) await admitted.slow;
    const bounds = withinTime(active, lifetime.limits.totalTimeoutMs, undefined);
    const hold = memory.hold(open.known.attempt.owner);
    try {
      const onBeforeSend = attempts.announcing(attempt, {
        metadata: open.metadata,
        maxDelayMs: request.maxDelayMs ?? open.maxDelayMs,
        level: request.level,
        endsWithinMs: lifespanMs(lifetime.limits.totalTimeoutMs, "one_shot"),
      });
      const how = { signal: bounds.signal, meter: hold, onBeforeSend };
      const executing = attempts.timed(attempt, "interactive", () =>
        transaction.commit(request.statements, how),
      );
      const committed = await outcomes.conclude(attempt, executing, (until) => held.push(until));
      open.results = committed.results ?? [];
      await this.#end(open, { how: "committed", detail: "The transaction has committed." });
      if (attempt.readOnly) refuseTruncated(open.results, config, { hold, transactionId: id, open: false });
      return { kind: "committed", committed, announced: attempt.announced, hold };
    } catch (cause) {
      throw await this.#notCommitted(open, bounds.reasonFor(cause), held);
    } finally {
      // From here on its kept results count with those of ended transactions.
      hold.release();
      bounds.end();
    }
  }

  /** Returns the error to answer. */
  async #notCommitted(open: Open, why: unknown, held: readonly Promise<unknown>[]): Promise<unknown> {
    open.isCommitting = false;
    if (!open.transaction.isOver) open.lifetime.idle();
    else {
      const how = why instanceof HighwaterError && why.outcome === "not_applied" ? "aborted" : "unknown";
      const detail = why instanceof Error ? why.message : "The commit failed.";
      await this.#end(open, { how, detail }, Promise.all(held));
    }
    return withOpen(why, this.#isOpen(open));
  }

  /**
   * Counts the commit that is about to run, and returns what it must wait for first. Errors:
   * `exposure_limit`, `overloaded`, `contents_too_large`.
   */
  #admit({ known, atRisk }: Open, { ack, statements, atRisk: own }: AcceptedCommit): Admitted {
    const { exposure, attempts } = this.#parts;
    const { readOnly, owner } = known.attempt;
    return whileOpen(() => {
      attempts.refuseWaiting({ ack });
      known.attempt.kept?.check(statements);
      return readOnly ? UNCOUNTED : exposure.admit(owner, ack, own ?? atRisk);
    });
  }

  async rollback(pinned: Pinned, request: RollbackRequest, caller: Caller): Promise<HeldCallResult> {
    const { id } = pinned;
    const done = await this.#call(pinned, request, caller, async (open) => {
      open.results = [];
      await this.#end(open, { how: "rolled_back", detail: "The transaction was rolled back." });
      return { kind: "answered", answer: { status: 200, body: { id, state: "aborted" } }, hold: null };
    });
    return answered(id, done);
  }

  /**
   * Rolls back a transaction of another gateway: settles its id, so that it can never commit.
   * Errors: `wrong_gateway` for a read-only one, which leaves nothing to settle; `out_of_sequence`
   * with outcome `applied` when it has committed; those of a settlement that takes too long.
   */
  async settle(pinned: Pinned, { principal }: Caller): Promise<HeldCallResult> {
    const { id } = pinned;
    if (pinned.access === "read") throw wrongGateway(pinned);
    try {
      await resolveLate(pinned, principal, this.#parts);
    } catch (cause) {
      if (!(cause instanceof HighwaterError) || cause.code !== "transaction_expired") throw cause;
      return { status: 200, body: { id, state: "aborted" }, hold: null };
    }
    throw endedError(id, { how: "committed", detail: "The transaction has committed." });
  }

  /** Runs one call. The client's signal cancels the call, and with it the transaction. */
  async #whileBusy<T>(
    id: TxnId,
    open: Open,
    { signal }: Caller,
    work: (bounds: TimeBounds) => Promise<T>,
  ): Promise<T> {
    const { lifetime, transaction } = open;
    const bounds = withinTime(this.#parts.active, lifetime.limits.totalTimeoutMs, signal);
    lifetime.busy();
    try {
      const result = await work(bounds);
      // A request to cancel is on its way, and would cancel the next statement.
      bounds.signal.throwIfAborted();
      return result;
    } catch (cause) {
      const why = bounds.reasonFor(cause);
      const ended = this.#ended.get(open.known.attempt);
      // The call failed because the transaction was ended from outside meanwhile.
      if (ended?.entry === open.known) throw endedError(id, ended.end);
      if (transaction.isOver || bounds.signal.aborted) {
        const detail = why instanceof Error ? why.message : "A statement failed.";
        // It may have ended in another way than this error says. Its receipt shows how.
        const how = why instanceof HighwaterError && why.outcome === "unknown" ? "unknown" : "aborted";
        await this.#end(open, { how, detail });
      }
      throw withOpen(why, this.#isOpen(open));
    } finally {
      bounds.end();
      lifetime.idle();
    }
  }

  /** If `run` throws before it returns a promise, the client may use the call's number again. */
  async #call(
    pinned: Pinned,
    request: { readonly seq: number },
    caller: Caller,
    run: (open: Open) => Promise<Done>,
  ): Promise<Done> {
    const { id } = pinned;
    const { owner } = caller.principal;
    const open = this.#open.get(ownedName({ id, owner }));
    const ended = open === undefined ? this.#ended.get({ id, owner }) : undefined;
    const known = open?.known ?? ended?.entry;
    if (known !== undefined && !isOf(known, pinned))
      throw new HighwaterError("transaction_not_open", { transactionId: id });
    if (known === undefined || ended?.end.how === "unknown") {
      const committed: Committed = await resolveLate(pinned, caller.principal, this.#parts);
      return { kind: "committed", committed, announced: known?.attempt.announced ?? null, hold: null };
    }
    if (open === undefined) {
      if (ended !== undefined && known.calls.lastSeq !== request.seq) throw endedError(id, ended.end);
      return known.calls.take(request.seq, request, null);
    }
    return known.calls.take(request.seq, request, () => {
      open.opened = null;
      return run(open).catch((cause: unknown) => {
        throw ofUsedNumber(cause);
      });
    });
  }

  #isOpen(open: Open): boolean {
    return this.#open.get(ownedName(open.known.attempt)) === open;
  }

  /**
   * Removes the transaction at once. Its session, id and place become free when the database has
   * released them.
   */
  #end(open: Open, end: End, until: Promise<unknown> = Promise.resolve()): Promise<void> {
    if (!this.#isOpen(open)) return Promise.resolve();
    const { attempt } = open.known;
    this.#open.delete(ownedName(attempt));
    this.#ended.add(attempt, open.known, end, open.results);
    open.hold.release();
    open.lifetime.stop();
    open.onEnd();
    this.#parts.metrics.openEnds.add(end.how);
    const ending = open.transaction.rollback().then(() => {
      void until.finally(open.leave);
    });
    this.#ending.add(ending);
    void ending.finally(() => this.#ending.delete(ending));
    return ending;
  }

  /** Ends what was open in the old epoch when another one begins: its sessions are gone. */
  failedOver(primaryEpoch: PrimaryEpoch): void {
    for (const open of this.#open.values()) {
      if (open.known.attempt.primaryEpoch.epoch === primaryEpoch.epoch || open.isCommitting) continue;
      void this.#end(open, {
        how: "aborted",
        detail: "The store failed over, and the transaction was rolled back.",
      });
    }
  }

  /** Nothing new is opened from now on. */
  drain(): void {
    this.#limits.drain();
  }

  /** Rolls back all open transactions at a shutdown, except those that are committing. */
  async stop(): Promise<void> {
    for (const open of this.#open.values()) {
      if (open.isCommitting) continue;
      void this.#end(open, { how: "aborted", detail: "The gateway shut down." });
    }
    await Promise.all(this.#ending);
  }
}

/** True if the header comes from this begin, and not from an earlier one under the same id. */
function isOf({ begun }: Known, pinned: Pinned): boolean {
  return begun.epoch === pinned.epoch && begun.digest === pinned.digest && begun.access === pinned.access;
}

function labelsOf({ isolation, known }: Open): AttemptLabels {
  return { isolation, readOnly: known.attempt.readOnly, form: "interactive" };
}

/**
 * Answers a commit from what was committed. For any other call the transaction no longer exists.
 */
function answered(id: TxnId, done: Done): HeldCallResult {
  if (done.kind === "answered") return { ...done.answer, hold: done.hold?.keep() ?? null };
  throw endedError(id, { how: "committed", detail: "The transaction has committed." });
}
