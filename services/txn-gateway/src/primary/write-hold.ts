// Holds back the writes of a new epoch until lost transactions are brought back, or the time for
// that is over. The primary's database says so with every report, so all gateways agree, also one
// that starts in between. (docs/decisions/0243-lost-transactions-come-back-before-writes.md)
import { type NodeReport } from "@highwater/authority";
import { type EpochId } from "@highwater/protocol";
import { type Clock } from "@highwater/runtime";

export class WriteHold {
  readonly #clock: Clock;
  #held: { readonly epoch: EpochId; readonly untilMs: number } | null = null;
  readonly #waiters = new Set<() => void>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The time counts from the question: the server has looked at its clock since. */
  note({ current, heldMs }: Pick<NodeReport, "current" | "heldMs">, askedAtMs: number): void {
    if (current === null) return;
    if (heldMs == null) this.end(current);
    else this.#held = { epoch: current, untilMs: askedAtMs + heldMs };
  }

  end(epoch: string): void {
    if (this.#held?.epoch !== epoch) return;
    this.#held = null;
    for (const go of [...this.#waiters]) go();
  }

  /** 0: the epoch's writes are admitted. */
  leftMs(epoch: EpochId): number {
    if (this.#held?.epoch !== epoch) return 0;
    return Math.max(0, this.#held.untilMs - this.#clock.monotonicMs());
  }

  /** Resolves when the hold may be over, after so long at most. */
  change(limitMs: number): Promise<void> {
    return new Promise((resolve) => {
      const go = (): void => {
        cancel();
        this.#waiters.delete(go);
        resolve();
      };
      const cancel = this.#clock.after(limitMs, go);
      this.#waiters.add(go);
    });
  }
}
