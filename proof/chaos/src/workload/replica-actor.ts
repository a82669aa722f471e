// Commits in its own region and at once reads the same keys through a gateway of another region,
// where a replica may answer. Sometimes it reads there without asking for its own writes.
import { setTimeout as pause } from "node:timers/promises";
import { type TxnId } from "@highwater/checker";
import { type Highwater, newTransactionId } from "@highwater/sdk";
import { ofError, type Outcome } from "./outcomes.ts";
import { type Actor, type Shared } from "./parts.ts";
import { type Plan, type Planner } from "./plan.ts";
import { type Random } from "./random.ts";
import { shownBy, statementsOf } from "./schema.ts";
import { type SdkActor } from "./sdk-actor.ts";
import { call, type Reply } from "./wire.ts";

const TIMEOUT_MS = 5_000;
const SENT_MAX = 4;
const PAUSE_MS = 200;
const PAUSE_MAX_MS = 1_500;
const WITHOUT_AFTER = 0.2;

export interface ReplicaActorOptions {
  readonly shared: Shared;
  readonly client: string;
  readonly session: string;
  readonly hw: Highwater;
  readonly planner: Planner;
  readonly random: Random;
  /** Writes for the same session. */
  readonly writer: SdkActor;
}

export class ReplicaActor implements Actor {
  readonly kind = "replica";
  readonly #options: ReplicaActorOptions;

  constructor(options: ReplicaActorOptions) {
    this.#options = options;
  }

  async act(): Promise<void> {
    const { planner, random, writer } = this.#options;
    if (random.chance(WITHOUT_AFTER)) return this.#read(planner.nextSnapshotRead([]), null);
    const plan = planner.nextWrite();
    const { txn, token } = await writer.runToTheEnd(plan);
    if (token !== null) await this.#read(planner.nextSnapshotRead(plan.operations), { txn, token });
  }

  async #read(plan: Plan, after: { txn: TxnId; token: string } | null): Promise<void> {
    const { shared, client, session, hw } = this.#options;
    const { journal, recent, promises } = shared;
    const txn = newTransactionId();
    const { operations, ack, level, readOnly, isolation } = plan;
    journal.invoked({
      // Without `after`, the read may show an older state than the session has seen.
      client,
      session: after === null ? null : session,
      txn,
      rerunOf: null,
      ack,
      level,
      readOnly,
      isolation,
      after: after?.txn ?? null,
      operations,
    });
    const statements = statementsOf(operations, txn);
    const how = after === null ? { mode: "local" } : { after: after.token };
    const reply = await this.#send({ id: txn, statements, readOnly: true, ...how });
    if (reply.kind !== "answer") {
      journal.answered({ txn, ...failed(reply, plan) });
      return;
    }
    const { token, position, results } = reply.body;
    const shown = shownBy(
      operations,
      (results ?? []).map(({ rows }) => rows),
    );
    journal.note({ kind: "token", txn, token, attempt: position.epoch });
    journal.answered({
      txn,
      outcome: "committed",
      durableAt: null,
      replayed: false,
      error: null,
      shown,
      position: { epoch: position.epoch, offset: position.offset },
    });
    recent.add(txn, token);
    promises.watch(hw.promise(token, { level }), { txn, levels: [level] });
  }

  /** Tries gateways of other regions; a read may run more than once. */
  async #send(body: unknown): Promise<Reply> {
    const { shared, random } = this.#options;
    const elsewhere = shared.endpoints.filter(({ region }) => region !== shared.endpoints[0]?.region);
    let reply: Reply = { kind: "silence", why: "connection_failed" };
    for (let sent = 0; sent < SENT_MAX; sent++) {
      const { gateway } = random.pick(elsewhere.length > 0 ? elsewhere : shared.endpoints);
      reply = await call(gateway, "/v1/transactions", { body, timeoutMs: TIMEOUT_MS });
      if (reply.kind === "answer") return reply;
      if (reply.kind === "problem" && reply.problem.retry !== "wait") return reply;
      const wanted = reply.kind === "problem" ? (reply.problem.retryAfterMs ?? PAUSE_MS) : PAUSE_MS;
      await pause(Math.min(PAUSE_MAX_MS, wanted));
    }
    return reply;
  }
}

function failed(reply: Exclude<Reply, { kind: "answer" }>, plan: Plan): Outcome {
  const error = reply.kind === "problem" ? reply.problem : { code: reply.why, outcome: "unknown" as const };
  return ofError(error, plan);
}
