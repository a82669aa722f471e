// The calls of one interactive transaction: numbered, one at a time, and a repeated one gets the
// answer that it had.
import { hash } from "node:crypto";
import { HighwaterError } from "@highwater/protocol";
import { RETRY_MS } from "../retry.ts";

interface Call<T> {
  readonly seq: number;
  readonly body: string;
  readonly outcome: Promise<T>;
  isRunning: boolean;
}

export class Calls<T> {
  #last: Call<T> | null = null;

  get lastSeq(): number {
    return this.#last?.seq ?? 0;
  }

  /**
   * Runs a call whose number follows the last one's, or answers as the last one was answered.
   * Errors: `transaction_in_progress` while one runs; `out_of_sequence` for any other number, or
   * for another call under the last number. An error that a call itself throws, it throws again
   * when it is repeated. If `run` throws and returns no promise, the call counts as not made.
   * `run` null: the transaction has ended.
   */
  async take(seq: number, body: unknown, run: (() => Promise<T>) | null): Promise<T> {
    const last = this.#last;
    if (last?.isRunning === true)
      throw new HighwaterError("transaction_in_progress", {
        detail: `Call ${String(last.seq)} of this transaction is still running.`,
        outcome: "not_applied",
        retryAfterMs: RETRY_MS.soon,
        open: run !== null,
      });
    const digest = hash("sha256", JSON.stringify(body));
    if (last?.seq === seq) {
      if (last.body !== digest)
        throw outOfSequence(`Call ${String(seq)} was sent before with other contents.`, run !== null);
      return last.outcome;
    }
    if (run === null || seq !== this.lastSeq + 1)
      throw outOfSequence(
        `Call ${String(seq)} came after call ${String(this.lastSeq)}; the next number is ${String(this.lastSeq + 1)}.`,
        run !== null,
      );
    const call: Call<T> = { seq, body: digest, outcome: run(), isRunning: true };
    this.#last = call;
    try {
      return await call.outcome;
    } finally {
      call.isRunning = false;
    }
  }
}

function outOfSequence(detail: string, open: boolean): HighwaterError {
  return new HighwaterError("out_of_sequence", { detail, open });
}
