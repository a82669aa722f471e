// One-shot transactions, from an accepted request to its answer: admit, announce, run once. How an
// attempt ends is in outcomes/, reads that need not run on the primary are in reads.ts, and the
// rules are in txn/.
import { HighwaterError } from "@highwater/protocol";
import { type Execution, type TransactionSpec } from "@highwater/store";
import { type ResultHold, type ResultMemory } from "../answers/result-memory.ts";
import { type Config } from "../config.ts";
import { type Keeper, type Kept } from "../contents/keeper.ts";
import { type Deps } from "../deps.ts";
import { type Exposure, UNCOUNTED } from "../exposure/exposure.ts";
import { type ActiveTransactions, idInUse } from "./active.ts";
import { type Attempts } from "./attempts.ts";
import { lifespanMs, refuseTruncated, withinTime } from "./bounds.ts";
import {
  type DeploymentKeys,
  NOBODY,
  type RequestTrace,
  requireScope,
  sessionPrincipal,
} from "@highwater/service";
import { type Metrics } from "../metrics.ts";
import { type CommitResponse, type Attempt, type Hold, type Outcomes } from "../outcomes/outcomes.ts";
import { type Refusals } from "../outcomes/refusals.ts";
import { type Primary } from "../primary/primary.ts";
import { RETRY_MS } from "../retry.ts";
import { TransactionTrace } from "../tracing/transaction-trace.ts";
import { type Committed } from "../txn/answer.ts";
import { type Caller } from "../txn/caller.ts";
import { digestOf } from "../txn/digest.ts";
import { checkIdWindow } from "../txn/id-window.ts";
import { raised } from "../txn/minimum.ts";
import { type Accepted, type RequestRules } from "../txn/request.ts";
import { type Reads } from "./reads.ts";

export { type CommitResponse } from "../outcomes/outcomes.ts";

/** An answer, and the memory of its results. The sender releases the memory. */
export interface HeldResponse extends CommitResponse {
  readonly hold: ResultHold;
  /** The contents, which note how the answer ends; null if the transaction is not kept. */
  readonly kept: Kept | null;
}

export interface TransactionContext {
  readonly config: Config;
  readonly deps: Deps;
  /** Makes the owner's tag in receipts. */
  readonly keys: Pick<DeploymentKeys, "receiptTag">;
  readonly primary: Primary;
  readonly attempts: Attempts;
  readonly exposure: Exposure;
  readonly active: ActiveTransactions;
  readonly outcomes: Outcomes;
  readonly reads: Reads;
  readonly refusals: Refusals;
  readonly metrics: Metrics;
  readonly memory: ResultMemory;
  readonly keeper: Keeper;
  readonly rules: Pick<RequestRules, "levels">;
}

/** What each part of a run passes on to the next. */
interface Run {
  readonly request: Accepted;
  readonly caller: Caller;
  readonly hold: ResultHold;
  readonly trace: TransactionTrace | null;
}

const OWNER_SHARE = 0.5;

export class Transactions {
  readonly #parts: TransactionContext;
  /** Transactions at a time. More would be announced and then fail in the queue for a session. */
  readonly #activeMax: number;
  /** The most of them that one owner may have. */
  readonly #ownerMax: number;

  constructor(parts: TransactionContext) {
    this.#parts = parts;
    this.#activeMax = parts.config.poolSize + parts.config.poolQueue;
    this.#ownerMax = Math.max(1, Math.floor(this.#activeMax * OWNER_SHARE));
  }

  /** Returns why no other transaction can be accepted now, or null. */
  refusal(): HighwaterError | null {
    const { active, metrics } = this.#parts;
    if (active.size < this.#activeMax) return null;
    const full = this.#full();
    metrics.refusals.add(full.code);
    return full;
  }

  #full(): HighwaterError {
    const limit = { name: "poolSize + poolQueue", value: this.#activeMax };
    return overloaded(
      `${String(limit.value)} transactions are running, the limit (${limit.name}); retry later.`,
      limit,
    );
  }

  #shareFull(): HighwaterError {
    const limit = { name: "half of poolSize + poolQueue", value: this.#ownerMax };
    return overloaded(
      `${String(limit.value)} transactions of this owner are running, the limit (${limit.name}); retry later.`,
      limit,
    );
  }

  /** Errors: HighwaterError; an error of another kind is a fault of the service. */
  async run(asked: Accepted, caller: Caller): Promise<HeldResponse> {
    const request = raised(asked, !asked.readOnly, caller.principal, this.#parts.rules.levels);
    const { isolation, readOnly } = request;
    const trace = caller.trace === undefined ? null : traceOf(caller.trace, request);
    const labels = { isolation, readOnly, form: "one_shot" } as const;
    return this.#parts.attempts.counted(request, { labels, trace }, () =>
      this.#runHeld(request, caller, trace),
    );
  }

  async #runHeld(request: Accepted, caller: Caller, trace: TransactionTrace | null): Promise<HeldResponse> {
    const { memory } = this.#parts;
    const { owner } = caller.principal;
    memory.refuse(owner);
    const hold = memory.hold(owner);
    try {
      return { ...(await this.#run({ request, caller, hold, trace })), hold };
    } catch (cause) {
      hold.release();
      throw cause;
    }
  }

  async #run(run: Run): Promise<Omit<HeldResponse, "hold">> {
    const { request, caller, hold, trace } = run;
    const { outcomes, reads, config, attempts, deps } = this.#parts;
    const askedAtMs = deps.clock.monotonicMs();
    requireScope(caller.principal, request.readOnly ? "read" : "write");
    attempts.refuseWaiting(request);
    if (request.placement !== null) {
      const read = await reads.nearby(request, request.placement, { caller, hold });
      if (read !== null) {
        const how = { ...request, served: read.served, askedAtMs, signal: caller.signal };
        return { ...(await outcomes.answer(read.committed, null, how)), kept: null };
      }
    }
    const { committed, attempt } = await this.#runOnce(run);
    if (request.readOnly) refuseTruncated(committed.results ?? [], config, { hold });
    const served = request.placement === null ? undefined : reads.servedByPrimary(attempt.primaryEpoch);
    const { signal } = caller;
    const { kept = null } = attempt;
    const how = { ...request, served, askedAtMs, signal, trace, kept };
    return { ...(await outcomes.answer(committed, attempt.announced, how)), kept };
  }

  async #runOnce(run: Run): Promise<{ committed: Committed; attempt: Attempt }> {
    const { request, caller, trace } = run;
    const { active, primary, exposure, config, outcomes, refusals } = this.#parts;
    const { id, ack, readOnly, atRisk } = request;
    const { owner } = caller.principal;
    checkIdWindow(id, {
      nowMs: primary.knownServerMs(),
      retentionMs: config.retentionMs,
      futureMs: config.idFutureMs,
    });
    const kept = this.#parts.keeper.begin({ ...request, form: "one_shot" }, caller.principal);
    kept?.check(request.statements);
    kept?.add(request.statements);
    const end = active.begin({ id, owner });
    if (end === null) throw idInUse(id);
    const held: Promise<unknown>[] = [];
    const holdId: Hold = (until) => held.push(until);
    try {
      if (active.size > this.#activeMax) throw this.#full();
      if (owner !== NOBODY && active.countOf(owner) > this.#ownerMax) throw this.#shareFull();
      const primaryEpoch = await (readOnly ? primary.admit() : primary.admitWrite());
      const { exposed, slow } = readOnly ? UNCOUNTED : exposure.admit(owner, ack, atRisk);
      if (slow !== null) await slow;
      const digest = readOnly ? 0n : digestOf(request);
      const tag = this.#parts.keys.receiptTag(owner, id);
      const attempt: Attempt = {
        id,
        tag,
        primaryEpoch,
        readOnly,
        owner,
        digest,
        announced: null,
        exposed,
        trace,
        kept,
      };
      try {
        const committed = await outcomes.conclude(attempt, this.#execute(run, attempt), holdId);
        return { committed, attempt };
      } catch (cause) {
        throw await refusals.answer(cause, attempt, { ...request, signal: caller.signal });
      }
    } finally {
      // An id whose outcome is still being settled is not free for another attempt.
      void Promise.all(held).finally(end);
    }
  }

  async #execute({ request, caller, hold }: Run, attempt: Attempt): Promise<Execution> {
    const { deps, config, active, attempts } = this.#parts;
    const { id, tag, primaryEpoch, digest } = attempt;
    const { limits, role } = caller.principal;
    const limitMs = lifespanMs(config.totalTimeoutMs, "one_shot");
    const spec: TransactionSpec = {
      id,
      tag,
      epoch: primaryEpoch.epoch,
      statements: request.statements,
      isolation: request.isolation,
      readOnly: request.readOnly,
      deferrable: request.deferrable,
      role,
      digest,
      principal: sessionPrincipal(caller.principal),
      statementTimeoutMs: limits.statementTimeoutMs,
      lockTimeoutMs: limits.lockTimeoutMs,
      maxRows: config.maxRows,
      maxBytes: config.maxResultBytes,
      meter: hold,
      limitMs,
      tellsOrder: attempt.kept != null,
      fieldDetails: request.fieldDetails ?? false,
      onBeforeSend: attempts.announcing(attempt, { ...request, endsWithinMs: limitMs }),
    };
    const bounds = withinTime(active, config.totalTimeoutMs, caller.signal);
    try {
      return await attempts.timed(attempt, "one_shot", () =>
        deps.store.execute(primaryEpoch.node, spec, bounds.signal),
      );
    } catch (cause) {
      throw bounds.reasonFor(cause);
    } finally {
      bounds.end();
    }
  }
}

function traceOf(trace: RequestTrace, request: Accepted): TransactionTrace {
  const { id, ack, isolation, readOnly, statements, level } = request;
  const traced = { id, ack, isolation, readOnly, form: "one_shot", statements: statements.length } as const;
  return new TransactionTrace(trace, traced, ack === "durable" ? level : null);
}

function overloaded(detail: string, limit: { name: string; value: number }): HighwaterError {
  return new HighwaterError("overloaded", { detail, limit, retryAfterMs: RETRY_MS.place });
}
