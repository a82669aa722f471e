// The steps that every attempt shares: one-shot, in a batch, interactive, or on Neon's wire. Owns
// the announcement before the write, the timed call of the store, and the metrics of the end. How
// an attempt ends is in outcomes/.
import { HighwaterError } from "@highwater/protocol";
import { type BeforeSend, type Execution } from "@highwater/store";
import { type Config } from "../config.ts";
import { type Deps } from "../deps.ts";
import { type Metrics } from "../metrics.ts";
import { type MarkBoard } from "../outcomes/marks.ts";
import { type Attempt, type CommitResponse } from "../outcomes/outcomes.ts";
import { RETRY_MS } from "../retry.ts";
import { storeError, type TransactionTrace } from "../tracing/transaction-trace.ts";
import { type Announcer, type Intent } from "../trackers/announcer.ts";
import { type Acknowledgement, type AcceptedBegin } from "../txn/request.ts";

export interface AttemptContext {
  readonly config: Pick<Config, "maxWaiting">;
  readonly deps: Pick<Deps, "clock">;
  readonly announcer: Announcer;
  readonly marks: MarkBoard;
  readonly metrics: Metrics;
}

/** The labels of an attempt's metrics. */
export interface AttemptLabels {
  readonly isolation: AcceptedBegin["isolation"];
  readonly readOnly: boolean;
  readonly form: "one_shot" | "interactive";
}

export class Attempts {
  readonly #context: AttemptContext;

  constructor(context: AttemptContext) {
    this.#context = context;
  }

  /**
   * Refuses a safe transaction while the maximum number waits for durability. Errors: `overloaded`.
   */
  refuseWaiting({ ack }: Pick<Acknowledgement, "ack">): void {
    const { marks, config } = this.#context;
    if (ack !== "durable" || marks.waiting < config.maxWaiting) return;
    throw new HighwaterError("overloaded", {
      detail: `${String(config.maxWaiting)} safe transactions already wait to become durable, the limit (maxWaiting); retry later.`,
      limit: { name: "maxWaiting", value: config.maxWaiting },
      retryAfterMs: RETRY_MS.place,
    });
  }

  /**
   * Announces a write just before it is sent to the database, in the same tick. A write that is
   * sent again is announced already.
   */
  announcing(attempt: Attempt, asked: Intent): BeforeSend {
    const intent = attempt.kept?.isRedone === true ? { ...asked, isRedone: true } : asked;
    return () => {
      if (!attempt.readOnly) attempt.announced ??= this.#context.announcer.announce(attempt, intent);
    };
  }

  /**
   * Makes the store's call that ends the attempt, and records its time in metrics and in the trace.
   */
  async timed(
    { trace, primaryEpoch, readOnly }: Attempt,
    form: AttemptLabels["form"],
    call: () => Promise<Execution>,
  ): Promise<Execution> {
    const { deps, metrics } = this.#context;
    const beganMs = deps.clock.monotonicMs();
    trace?.storeBegan(primaryEpoch.node);
    try {
      const execution = await call();
      trace?.storeEnded();
      const tookMs = deps.clock.monotonicMs() - beganMs;
      metrics.store.at(readOnly ? "read" : "write", form).observe(tookMs / 1_000);
      return execution;
    } catch (cause) {
      trace?.storeEnded(storeError(cause));
      throw cause;
    }
  }

  /**
   * Counts the result of a request. With null labels nothing ran for it, so its time is not
   * recorded.
   */
  async counted<A extends { readonly body: { readonly state: CommitResponse["body"]["state"] | "active" } }>(
    { ack }: Pick<Acknowledgement, "ack">,
    { labels, trace }: { readonly labels: AttemptLabels | null; readonly trace: TransactionTrace | null },
    run: () => Promise<A>,
  ): Promise<A> {
    const { deps, metrics } = this.#context;
    const beganMs = deps.clock.monotonicMs();
    try {
      const answer = await run();
      const { state } = answer.body;
      if (state !== "active") trace?.ended(state);
      metrics.transactions.add(ack, state);
      const tookMs = deps.clock.monotonicMs() - beganMs;
      if (labels !== null) {
        const access = labels.readOnly ? "read" : "write";
        metrics.commit.at(ack, labels.isolation, access, labels.form).observe(tookMs / 1_000);
      }
      return answer;
    } catch (cause) {
      const code = cause instanceof HighwaterError ? cause.code : "internal";
      metrics.transactions.add(ack, code);
      trace?.ended(code, code);
      throw cause;
    }
  }
}
