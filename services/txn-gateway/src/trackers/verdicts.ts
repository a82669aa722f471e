// Asks a tracker for verdicts on transactions whose epoch has ended, or that are looked up by id. A
// failover ends all waits at once, so questions travel together: for each level one that asks for
// now and one that waits.
import { LIMITS, type Verdict, VerdictsResponse } from "@highwater/protocol";
import { sleep } from "@highwater/runtime";
import { Batcher } from "../batcher.ts";
import { type Deps } from "../deps.ts";
import { askTracker } from "./ask-tracker.ts";
import { type TrackerOrder } from "./order.ts";

export interface VerdictQuestion {
  readonly token: string;
  readonly level: string;
  readonly limitMs: number;
  /** No client waits for the answer any more: the last one will do. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * How long a tracker may wait for verdicts that are still pending. Short: who asks meanwhile waits
 * for the next batch.
 */
const WAIT_MS = 500;
const OPEN: ReadonlySet<TrackerVerdict> = new Set<TrackerVerdict>([null, "pending", "unknown"]);
const PAUSE_MS = 200;

/**
 * Null: no tracker answers. `retried`: this attempt is lost, and another under the same id has
 * committed; a client that ran the transaction again under a new id would do it twice.
 */
export type TrackerVerdict = Verdict | "retried" | null;

interface Lanes {
  readonly now: Batcher<string, TrackerVerdict>;
  readonly waiting: Batcher<string, TrackerVerdict>;
}

export class Verdicts {
  readonly #deps: Pick<Deps, "clock" | "transport">;
  readonly #trackers: TrackerOrder;
  readonly #onContact: () => void;
  readonly #lanes = new Map<string, Lanes>();
  readonly #stop = new AbortController();

  constructor(deps: Pick<Deps, "clock" | "transport">, trackers: TrackerOrder, onContact: () => void) {
    this.#deps = deps;
    this.#trackers = trackers;
    this.#onContact = onContact;
  }

  stop(): void {
    this.#stop.abort();
  }

  /**
   * The verdict, as soon as it is another than `pending`, or `pending` when the time is over. Null:
   * no tracker answers.
   */
  async ask({ token, level, limitMs, signal }: VerdictQuestion): Promise<TrackerVerdict> {
    const { clock } = this.#deps;
    const deadlineMs = clock.monotonicMs() + limitMs;
    const { now, waiting } = this.#lanesOf(level);
    const stop = signal === undefined ? this.#stop.signal : AbortSignal.any([signal, this.#stop.signal]);
    let verdict = await now.ask(token);
    for (;;) {
      const leftMs = deadlineMs - clock.monotonicMs();
      // A tracker that does not know the transaction yet, or its epoch, may learn of it in the time
      // that is left.
      const isFinal = verdict !== null && verdict !== "pending" && verdict !== "unknown";
      if (isFinal || leftMs <= 0 || stop.aborted) return verdict;
      // A tracker that sees the primary holds the question; the others answer at once, or not at
      // all.
      if (verdict !== "pending" || !this.#trackers.hasSeeing)
        await sleep(clock, Math.min(PAUSE_MS, leftMs), stop);
      const over = new AbortController();
      const limit = sleep(clock, leftMs, AbortSignal.any([over.signal, stop]));
      verdict = await Promise.race([waiting.ask(token), limit.then(() => verdict)]);
      over.abort();
    }
  }

  #lanesOf(level: string): Lanes {
    let lanes = this.#lanes.get(level);
    if (lanes === undefined) {
      const lane = (waitMs: number): Batcher<string, TrackerVerdict> =>
        new Batcher((tokens) => this.#askAnyone(tokens, level, waitMs), LIMITS.tokensPerRequest);
      lanes = { now: lane(0), waiting: lane(WAIT_MS) };
      this.#lanes.set(level, lanes);
    }
    return lanes;
  }

  async #askAnyone(
    tokens: readonly string[],
    level: string,
    waitMs: number,
  ): Promise<(token: string) => TrackerVerdict> {
    const verdicts = new Map<string, TrackerVerdict>();
    let open = tokens;
    for (const tracker of this.#trackers.inOrder()) {
      const question = { tokens: open, level, waitMs };
      const url = `${tracker}/v1/durability/verdicts`;
      const asked = { question, schema: VerdictsResponse, heldMs: waitMs };
      const answer = await askTracker(this.#deps.transport, url, asked);
      if (answer === null) continue;
      this.#onContact();
      this.#trackers.note(tracker, answer.blind === true);
      for (const each of answer.verdicts) verdicts.set(each.token, verdictOf(each));
      if (answer.blind !== true) break;
      // What a blind tracker holds for open another one may know better.
      open = open.filter((token) => OPEN.has(verdicts.get(token) ?? null));
      if (open.length === 0) break;
    }
    return (token) => verdicts.get(token) ?? null;
  }
}

function verdictOf(judged: VerdictsResponse["verdicts"][number]): TrackerVerdict {
  // It says nothing of the transaction.
  if ("error" in judged) return null;
  return judged.verdict === "lost" && judged.retriedIn !== undefined ? "retried" : judged.verdict;
}
