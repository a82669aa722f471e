// Finds out when a committed transaction is durable or lost: from the marks of its epoch while that
// lasts, and from a tracker afterwards.
import { type EpochId, type Offset } from "@highwater/protocol";
import { type Clock } from "@highwater/runtime";
import { type Verdicts, type TrackerVerdict } from "../trackers/verdicts.ts";
import { type MarkBoard } from "./marks.ts";

export interface Promised {
  readonly token: string;
  readonly epoch: EpochId;
  readonly offset: Offset;
  readonly level: string;
}

/** `retried`: this attempt is lost, and another under the same id has committed. */
export type AttemptVerdict = "durable" | "pending" | "lost" | "retried" | "broken" | "expired";

export class Durability {
  readonly #clock: Clock;
  readonly #marks: MarkBoard;
  readonly #verdicts: Verdicts;

  constructor(clock: Clock, marks: MarkBoard, verdicts: Verdicts) {
    this.#clock = clock;
    this.#marks = marks;
    this.#verdicts = verdicts;
  }

  /**
   * Waits for a transaction that this gateway has just committed. `pending`: the time is over, or
   * the client is gone.
   */
  async await(promised: Promised, limitMs: number, signal?: AbortSignal): Promise<AttemptVerdict> {
    const deadlineMs = this.#clock.monotonicMs() + limitMs;
    const end = await this.#marks.wait(promised, limitMs, signal);
    if (end === "reached") return "durable";
    if (end === "timeout") return "pending";
    const leftMs = Math.max(0, deadlineMs - this.#clock.monotonicMs());
    const { token, level } = promised;
    return verdictOf(await this.#verdicts.ask({ token, level, limitMs: leftMs, signal }));
  }

  /**
   * Judges any transaction by its id. A tracker's verdict outweighs the marks, which cannot show a
   * broken promise.
   */
  async judge(
    promised: Promised,
    limitMs: number,
    signal?: AbortSignal,
  ): Promise<Exclude<AttemptVerdict, "retried">> {
    const deadlineMs = this.#clock.monotonicMs() + limitMs;
    // Marks arrive without a question, so waiting for them first saves the tracker a long poll.
    const end = await this.#marks.wait(promised, limitMs, signal);
    const leftMs = end === "ended" ? Math.max(0, deadlineMs - this.#clock.monotonicMs()) : 0;
    const { token, level } = promised;
    const verdict = await this.#verdicts.ask({ token, level, limitMs: leftMs, signal });
    // Another attempt has committed since the look-up, and its verdict is not known yet.
    if (verdict === "retried") return "pending";
    if (verdict !== null && verdict !== "unknown" && verdict !== "pending") return verdict;
    return this.#marks.reached(promised) ? "durable" : "pending";
  }
}

/** Missing evidence is neither a success nor a loss. */
function verdictOf(verdict: TrackerVerdict): AttemptVerdict {
  return verdict === null || verdict === "unknown" ? "pending" : verdict;
}
