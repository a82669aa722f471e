// Finds the failure that may excuse a broken promise.
import { type EpochId, type Failure } from "./history.ts";
import { type History, type Transaction } from "./model.ts";

export class Excuses {
  readonly #history: History;
  /** The first epoch that a failure can have led to; null if no record names one. */
  readonly #ledTo = new Map<Failure, EpochId | null>();

  constructor(history: History) {
    this.#history = history;
    const { epochs, firstSeen, failures } = history;
    for (const failure of failures) {
      const later = epochs
        .onNode(failure.node)
        .find((epoch) => (firstSeen.get(epoch) ?? Number.NEGATIVE_INFINITY) > failure.atMs);
      this.#ledTo.set(failure, later ?? null);
    }
  }

  /**
   * A failure up to that time that did not keep the level and may have come after the attempt. It
   * came before if the attempt's history continues from the failure's epoch. Without evidence it
   * may have come after.
   */
  breaks(
    transaction: Transaction,
    attempt: EpochId | null,
    level: number | null,
    untilMs: number,
  ): Failure | null {
    const { scenario, epochs, failures } = this.#history;
    const name = level === null ? null : (scenario.levels[level] ?? "");
    for (const failure of failures) {
      if (failure.atMs > untilMs) break;
      const keeps =
        name === null
          ? scenario.levels.every((other) => failure.kept.includes(other))
          : failure.kept.includes(name);
      if (keeps) continue;
      const ledTo = this.#ledTo.get(failure) ?? null;
      const isLater =
        attempt !== null &&
        ledTo !== null &&
        transaction.invocation.atMs > failure.atMs &&
        epochs.contains(attempt, ledTo);
      if (!isLater) return failure;
    }
    return null;
  }

  /**
   * A change up to that time that kept nothing, and that the attempt's history continues from.
   * Trackers that are cut off still follow the other history until they learn of it, and may find
   * that what commits here is lost.
   */
  gaveUpOthers(attempt: EpochId | null, untilMs: number): boolean {
    const { epochs, failures } = this.#history;
    return failures.some((failure) => {
      const ledTo = this.#ledTo.get(failure) ?? null;
      const isBefore = failure.atMs <= untilMs && failure.kept.length === 0;
      return isBefore && attempt !== null && ledTo !== null && epochs.contains(attempt, ledTo);
    });
  }
}
