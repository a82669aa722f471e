// From time to time, asks random trackers for verdicts on random recent transactions, while faults
// go on.
import { setTimeout as pause } from "node:timers/promises";
import { type Level, type TxnId } from "@highwater/checker";
import { type Journal } from "./journal.ts";
import { type NamedTracker } from "./messages.ts";
import { type Random } from "./random.ts";
import { attemptOf } from "./tokens.ts";
import { askVerdicts } from "./verdicts.ts";

const REMEMBERED_MAX = 400;
const ASKED_AT_ONCE = 12;
const PAUSE_MS = 800;
const TIMEOUT_MS = 3_000;

/** The latest tokens of this process, in no particular order. */
export class RecentTokens {
  readonly #tokens: { txn: TxnId; token: string }[] = [];
  #next = 0;

  add(txn: TxnId, token: string): void {
    this.#tokens[this.#next] = { txn, token };
    this.#next = (this.#next + 1) % REMEMBERED_MAX;
  }

  some(random: Random): { txn: TxnId; token: string }[] {
    if (this.#tokens.length === 0) return [];
    const picked = Array.from({ length: ASKED_AT_ONCE }, () => random.pick(this.#tokens));
    return [...new Map(picked.map((item) => [item.token, item])).values()];
  }
}

export interface AskerOptions {
  readonly journal: Journal;
  readonly recent: RecentTokens;
  readonly random: Random;
  readonly levels: readonly Level[];
  readonly trackers: readonly NamedTracker[];
  readonly signal: AbortSignal;
}

/** Runs until the signal aborts. */
export async function askNowAndThen(options: AskerOptions): Promise<void> {
  const { journal, recent, random, levels, trackers, signal } = options;
  while (!signal.aborted) {
    await pause(PAUSE_MS * (0.5 + random.next()), undefined, { signal }).catch(() => undefined);
    const asked = recent.some(random);
    if (asked.length === 0) continue;
    const tracker = random.pick(trackers);
    const level = random.pick(levels);
    const tokens = asked.map(({ token }) => token);
    const verdicts = await askVerdicts(
      tracker.url,
      { tokens, level, waitMs: 0 },
      { timeoutMs: TIMEOUT_MS, signal },
    );
    // A tracker that is dead, paused or without authority does not answer.
    for (const [at, verdict] of (verdicts ?? []).entries()) {
      const { txn, token } = asked[at] ?? {};
      if (txn === undefined || token === undefined) continue;
      const attempt = attemptOf(token);
      journal.report({ txn, level, ...verdict, by: "asked", tracker: tracker.name, attempt });
    }
  }
}
