// The operators of a run with replays. They bring back what was lost while faults go on: some two
// at a time, some as a dry run, some that are gone in the middle. At the end one of them ends each
// lost transaction.
import { setTimeout as pause } from "node:timers/promises";
import { type Level } from "@highwater/checker";
import { decodeToken, type ReplayReport, type ReplayRequest } from "@highwater/protocol";
import { nowMs } from "../clock.ts";
import { type Endpoint } from "../parts.ts";
import { askNowAndThen, RecentTokens } from "./asker.ts";
import { type Journal } from "./journal.ts";
import { type NamedTracker } from "./messages.ts";
import { usualLevel } from "./plan.ts";
import { Random } from "./random.ts";
import { attemptOf } from "./tokens.ts";

const CALM_MS = [1_500, 7_000] as const;
const LIMIT_MS = 60_000;
/** One that is gone in the middle stays this long at most. */
const GONE_MS = 1_500;
const INDEPENDENT = { all: 65, rows: 20, none: 15 } as const;
/** Replays at the end until nothing is left to be brought back, or it does not come to an end. */
const REPLAYS_MAX = 5;
const ROUNDS_MAX = 60;
const ROUNDS_PAUSE_MS = 1_000;

export interface OperatorOptions {
  readonly journal: Journal;
  readonly seed: number;
  readonly levels: readonly Level[];
  readonly endpoints: readonly Endpoint[];
  readonly trackers: readonly NamedTracker[];
}

export class Operator {
  readonly #options: OperatorOptions;
  readonly #random: Random;
  readonly #recent = new RecentTokens();
  readonly #stopping = new AbortController();
  #running: Promise<unknown> = Promise.resolve();

  constructor(options: OperatorOptions) {
    this.#options = options;
    this.#random = new Random(`${String(options.seed)}/operator`);
  }

  start(): void {
    const { journal, levels, trackers, seed } = this.#options;
    const { signal } = this.#stopping;
    const random = new Random(`${String(seed)}/operator/asker`);
    this.#running = Promise.all([
      this.#work(),
      askNowAndThen({ journal, recent: this.#recent, random, levels, trackers, signal }),
    ]);
    // The code that stops it gets the error.
    this.#running.catch(() => undefined);
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  async #work(): Promise<void> {
    const random = this.#random;
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      await pause(CALM_MS[0] + random.below(CALM_MS[1] - CALM_MS[0]), undefined, { signal }).catch(
        () => undefined,
      );
      if (signal.aborted) return;
      const one = (): Promise<unknown> => {
        const dryRun = random.chance(0.15);
        const independent = random.weighted(INDEPENDENT);
        const limitMs = random.chance(0.25) ? 1 + random.below(GONE_MS) : LIMIT_MS;
        return this.#replay({ dryRun, independent }, AbortSignal.any([signal, AbortSignal.timeout(limitMs)]));
      };
      await Promise.all(random.chance(0.3) ? [one(), one()] : [one()]);
    }
  }

  /** Null: refused, or no answer. */
  async #replay(request: ReplayRequest, signal: AbortSignal): Promise<ReplayReport | null> {
    const { gateway } = this.#random.pick(this.#options.endpoints);
    const atMs = nowMs();
    try {
      const response = await fetch(`${gateway}/v1/lost/replay`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(request),
        signal,
      });
      if (!response.ok) {
        await response.text();
        return null;
      }
      const report = (await response.json()) as ReplayReport;
      for (const { id, replayedBy, token } of report.transactions)
        if (replayedBy !== undefined && token !== undefined) this.#record(id, replayedBy, token, atMs);
      return report;
    } catch {
      return null;
    }
  }

  /** A replay is a transaction like any other, and has to keep the same promises. */
  #record(root: string, txn: string, token: string, atMs: number): void {
    const { journal, levels } = this.#options;
    const content = decodeToken(token);
    if (content === undefined) throw new Error(`a replay of ${root} has a token that is none`);
    const { epoch, offset } = content;
    journal.note({ kind: "token", txn, token, attempt: attemptOf(token) });
    journal.write({
      type: "invocation",
      atMs,
      client: "operator",
      session: null,
      txn,
      rerunOf: null,
      redoOf: root,
      ack: "commit",
      level: usualLevel(levels),
      readOnly: false,
      isolation: "serializable",
      after: null,
      operations: [],
    });
    journal.answered({
      txn,
      outcome: "committed",
      durableAt: null,
      shown: [],
      replayed: false,
      error: null,
      position: { epoch, offset: String(offset) },
    });
    this.#recent.add(txn, token);
  }

  /** After the last failure, when each verdict is known. */
  async finish(): Promise<void> {
    for (let round = 1; ; round++) {
      const report = await this.#replay({ dryRun: false, independent: "all" }, AbortSignal.timeout(LIMIT_MS));
      const isWhole = report?.trackers.answered === report?.trackers.asked;
      const isLast = report?.transactions.every(({ token }) => token === undefined) === true;
      if (report !== null && isWhole && (isLast || round > REPLAYS_MAX)) {
        for (const { id: txn, attempt, outcome, reason, kind } of report.transactions) {
          const why = [reason, kind].filter((each) => each !== undefined).join(": ");
          const record = { type: "end", atMs: nowMs(), txn, attempt, outcome } as const;
          this.#options.journal.write({ ...record, reason: why === "" ? null : why });
        }
        return;
      }
      if (round === ROUNDS_MAX) throw new Error("not all trackers say what was lost");
      await pause(ROUNDS_PAUSE_MS);
    }
  }
}
