// Runs interactive transactions one after another: a begin, a call for each operation, a commit. It
// repeats unanswered calls under their number, as clients have to, and sometimes answered ones.
import { setTimeout as pause } from "node:timers/promises";
import { type ClientReply, type Operation, type Shown, type TxnId } from "@highwater/checker";
import { type Highwater, newTransactionId } from "@highwater/sdk";
import { type Outcome } from "./outcomes.ts";
import { type Actor, type Shared } from "./parts.ts";
import { type Plan, type Planner } from "./plan.ts";
import { type Random } from "./random.ts";
import { foundBy } from "./resolver.ts";
import { shownBy, statementsOf } from "./schema.ts";
import { attemptOf } from "./tokens.ts";
import { type Body, call, type Problem, type Reply } from "./wire.ts";

const CALL_TIMEOUT_MS = 4_000;
const SENT_MAX = 3;
const PAUSE_MS = 250;
const UNAVAILABLE_PAUSE_MS = 500;
const MAX_WAIT_MS = 2_500;
const REPEATED = 0.08;
const ROLLED_BACK = 0.05;
const THINKING_MS = 20;
const ATTEMPTS_MAX = 3;
const CONFLICT_PAUSE_MS = 60;

export interface InteractiveActorOptions {
  readonly shared: Shared;
  readonly client: string;
  readonly session: string;
  /** For promises, and for the state of transactions without an answer. */
  readonly hw: Highwater;
  readonly planner: Planner;
  readonly random: Random;
}

/** An open transaction. */
interface Open {
  readonly txn: TxnId;
  readonly gateway: string;
  stickiness: string | null;
  seq: number;
  readonly shown: Shown[];
}

type Ended = Outcome & { readonly token: string | null };

export class InteractiveActor implements Actor {
  readonly kind = "interactive";
  readonly #options: InteractiveActorOptions;
  /** The gateway to ask next: another one when this one refuses transactions. */
  #at = 0;

  constructor(options: InteractiveActorOptions) {
    this.#options = options;
  }

  async act(): Promise<void> {
    const { shared, planner, random } = this.#options;
    let plan = planner.nextWrite();
    let rerunOf: TxnId | null = null;
    for (let attempt = 1; ; attempt++) {
      const { txn, outcome, error } = await this.#run(plan, rerunOf);
      if (outcome !== "aborted") return;
      const isConflict = error === "serialization_failure";
      await pause((isConflict ? CONFLICT_PAUSE_MS : UNAVAILABLE_PAUSE_MS) * random.next());
      if (!isConflict || attempt === ATTEMPTS_MAX || shared.isStopping()) return;
      plan = planner.again(plan);
      rerunOf = txn;
    }
  }

  async #run(plan: Plan, rerunOf: TxnId | null): Promise<Outcome & { readonly txn: TxnId }> {
    const { shared, client, session, hw } = this.#options;
    const { journal, recent, promises, resolver } = shared;
    const { operations, ack, level, readOnly, isolation } = plan;
    const txn = newTransactionId();
    journal.invoked({
      client,
      session,
      txn,
      rerunOf,
      ack,
      level,
      readOnly,
      isolation,
      after: null,
      operations,
    });
    const { token, ...outcome } = await this.#transact(plan, txn);
    if (token !== null) journal.note({ kind: "token", txn, token, attempt: attemptOf(token) });
    journal.answered({ txn, ...outcome });
    if (outcome.outcome === "unknown") resolver.add({ hw, txn, level });
    if (token !== null) {
      recent.add(txn, token);
      promises.watch(hw.promise(token, { level }), { txn, levels: [level] });
    }
    return { txn, ...outcome };
  }

  async #transact(plan: Plan, txn: TxnId): Promise<Ended> {
    const { shared, random } = this.#options;
    const gateway = shared.endpoints[this.#at % shared.endpoints.length]?.gateway ?? "";
    const open: Open = { txn, gateway, stickiness: null, seq: 0, shown: [] };
    const before = [...plan.operations];
    const withCommit = random.chance(0.3) ? before.splice(-1) : [];
    const begin = { id: txn, isolation: "serializable" };
    const begun = await this.#send("/v1/transactions/begin", begin, open);
    if (begun.kind !== "answer") {
      this.#at += 1;
      return aborted(begun);
    }
    open.stickiness = begun.stickiness;
    for (const operation of before) {
      await pause(THINKING_MS * random.next());
      const failed = await this.#operate(operation, open);
      if (failed !== undefined) {
        this.#rollBack(open);
        return aborted(failed);
      }
    }
    if (random.chance(ROLLED_BACK)) {
      this.#rollBack(open);
      return aborted({ kind: "silence", why: "rolled_back" });
    }
    return this.#commit(plan, withCommit, open);
  }

  /**
   * Undefined on success. Nothing is committed before the commit is sent, so a failure here has no
   * effect.
   */
  async #operate(operation: Operation, open: Open): Promise<Reply | undefined> {
    open.seq += 1;
    const body = { seq: open.seq, statements: statementsOf([operation], open.txn) };
    const path = `/v1/transactions/${open.txn}/statements`;
    const reply = await this.#send(path, body, open);
    if (reply.kind !== "answer") return reply;
    // The service must repeat its answer and run nothing. If the answer differs, the record shows
    // it.
    const again = this.#options.random.chance(REPEATED) ? await this.#send(path, body, open) : reply;
    if (again.kind !== "answer") return again;
    open.shown.push(...shownOf([operation], again.body));
    return undefined;
  }

  async #commit(plan: Plan, withCommit: readonly Operation[], open: Open): Promise<Ended> {
    open.seq += 1;
    const statements = statementsOf(withCommit, open.txn);
    const { ack, level } = plan;
    const body = {
      seq: open.seq,
      ack,
      ...(ack === "durable" ? { level, maxWaitMs: MAX_WAIT_MS } : {}),
      ...(statements.length > 0 ? { statements } : {}),
    };
    let isUncertain = false;
    let last: Reply = { kind: "silence", why: "connection_failed" };
    for (let sent = 0; sent < SENT_MAX; sent++) {
      if (sent > 0) await pause(PAUSE_MS);
      last = await call(open.gateway, `/v1/transactions/${open.txn}/commit`, {
        body,
        stickiness: open.stickiness,
        timeoutMs: CALL_TIMEOUT_MS,
      });
      if (last.kind === "answer") return committed(last.body, plan, { withCommit, before: open.shown });
      if (last.kind === "problem" && isSettled(last.problem, isUncertain)) {
        if (last.problem.outcome === "not_applied") this.#rollBack(open);
        return settled(last.problem);
      }
      isUncertain ||= last.kind === "silence" || last.problem.outcome !== "not_applied";
      if (last.kind === "problem" && last.problem.retry !== "wait") break;
    }
    if (!isUncertain) {
      this.#rollBack(open);
      return aborted(last);
    }
    return this.#askState(plan, open, last);
  }

  /** The gateway may be down, and any other one can find out the outcome. */
  async #askState(plan: Plan, open: Open, last: Reply): Promise<Ended> {
    const unknown: Ended = { ...aborted(last), outcome: "unknown" };
    for (const { gateway } of this.#options.shared.endpoints) {
      const path = `/v1/transactions/${open.txn}?level=${encodeURIComponent(plan.level)}`;
      const reply = await call(gateway, path, { timeoutMs: CALL_TIMEOUT_MS });
      if (reply.kind !== "answer") continue;
      const found = foundBy(reply.body as unknown as Parameters<typeof foundBy>[0]);
      if (found === undefined) continue;
      const { outcome, token, position } = found;
      if (outcome !== "committed") return { ...unknown, outcome };
      // The look-up's position does not show in which epoch the reads were made.
      return { ...unknown, outcome, position, token: token ?? null, replayed: true, error: null };
    }
    return unknown;
  }

  /** Repeats the call under its number until it is answered. Resolves with the last reply. */
  async #send(path: string, body: unknown, open: Open): Promise<Reply> {
    let reply: Reply = { kind: "silence", why: "connection_failed" };
    for (let sent = 0; sent < SENT_MAX; sent++) {
      if (sent > 0) await pause(PAUSE_MS);
      reply = await call(open.gateway, path, {
        body,
        stickiness: open.stickiness,
        timeoutMs: CALL_TIMEOUT_MS,
      });
      if (reply.kind !== "silence") break;
    }
    return reply;
  }

  /** The actor does not wait for the answer: the service would roll back anyway. */
  #rollBack(open: Open): void {
    const body = { seq: open.seq + 1 };
    const path = `/v1/transactions/${open.txn}/rollback`;
    void call(open.gateway, path, { body, stickiness: open.stickiness, timeoutMs: CALL_TIMEOUT_MS });
  }
}

const shownOf = (operations: readonly Operation[], body: Body): Shown[] =>
  shownBy(
    operations,
    (body.results ?? []).map(({ rows }) => rows),
  );

/** True when the problem settles the transaction, including an earlier unanswered commit. */
function isSettled({ code, outcome, retry }: Problem, isUncertain: boolean): boolean {
  if (["transaction_lost", "transaction_aborted", "transaction_expired"].includes(code)) return true;
  return outcome === "not_applied" && retry !== "wait" && !isUncertain;
}

function settled({ code, outcome }: Problem): Ended {
  const known: ClientReply["outcome"] = outcome === "not_applied" ? "aborted" : "unknown";
  return {
    outcome: code === "transaction_lost" ? "lost" : known,
    durableAt: null,
    position: null,
    shown: null,
    replayed: false,
    error: code,
    token: null,
  };
}

function aborted(reply: Reply): Ended {
  const error = reply.kind === "problem" ? reply.problem.code : reply.kind === "silence" ? reply.why : null;
  return {
    outcome: "aborted",
    durableAt: null,
    position: null,
    shown: null,
    replayed: false,
    error,
    token: null,
  };
}

function committed(
  body: Body,
  plan: Plan,
  { before, withCommit }: { before: readonly Shown[]; withCommit: readonly Operation[] },
): Ended {
  const { token, position, state } = body;
  const replayed = body.replayed === true;
  return {
    outcome: "committed",
    durableAt: state === "durable" ? plan.level : null,
    position: { epoch: position.epoch, offset: position.offset },
    shown: replayed ? null : [...before, ...shownOf(withCommit, body)],
    replayed,
    error: null,
    token,
  };
}
