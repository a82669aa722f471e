// Asks trackers about ids that have the tombstone of a loss. A tombstone does not say at which
// levels the transaction had been durable. The trackers' ledgers do, because its gateway announced
// it to them.
import { LIMITS, type Loss, LossesResponse, type OwnedId } from "@highwater/protocol";
import { sleep } from "@highwater/runtime";
import { Batcher } from "../batcher.ts";
import { type Deps } from "../deps.ts";
import { askTracker } from "./ask-tracker.ts";
import { type TrackerOrder } from "./order.ts";

/** Between two questions about what is still being proven. */
const PAUSE_MS = 200;

export class Losses {
  readonly #deps: Pick<Deps, "clock" | "transport">;
  readonly #trackers: TrackerOrder;
  readonly #lanes = new Map<string, Batcher<OwnedId, Loss | null>>();

  constructor(deps: Pick<Deps, "clock" | "transport">, trackers: TrackerOrder) {
    this.#deps = deps;
    this.#trackers = trackers;
  }

  /**
   * Null: no tracker that answers holds it. `pending` only when the time is over, or the caller has
   * gone.
   */
  async ask(
    of: OwnedId,
    { level, limitMs }: { readonly level: string; readonly limitMs: number },
    signal?: AbortSignal,
  ): Promise<Loss | null> {
    const { clock } = this.#deps;
    const deadlineMs = clock.monotonicMs() + limitMs;
    for (;;) {
      const loss = await this.#laneOf(level).ask(of);
      const leftMs = deadlineMs - clock.monotonicMs();
      if (loss?.verdict !== "pending" || leftMs <= 0 || signal?.aborted === true) return loss;
      await sleep(clock, Math.min(PAUSE_MS, leftMs), signal);
    }
  }

  #laneOf(level: string): Batcher<OwnedId, Loss | null> {
    let lane = this.#lanes.get(level);
    if (lane === undefined) {
      lane = new Batcher((ids) => this.#askAll(ids, level), LIMITS.lossesPerRequest);
      this.#lanes.set(level, lane);
    }
    return lane;
  }

  /** The next tracker is asked about what the one before does not hold, or has not proven. */
  async #askAll(ids: readonly OwnedId[], level: string): Promise<(of: OwnedId) => Loss | null> {
    const known = new Map<OwnedId, Loss>();
    let open = ids;
    for (const tracker of this.#trackers.inOrder()) {
      const of = open.map(({ id, owner }) => ({ id, ...(owner === 0n ? {} : { owner: owner.toString() }) }));
      const asked = { question: { of, level }, schema: LossesResponse, heldMs: 0 };
      const answer = await askTracker(this.#deps.transport, `${tracker}/internal/losses`, asked);
      if (answer === null) continue;
      for (const [at, loss] of answer.losses.entries()) {
        const each = open[at];
        if (each !== undefined && loss !== null) known.set(each, loss);
      }
      open = open.filter((each) => (known.get(each)?.verdict ?? "pending") === "pending");
      if (open.length === 0) break;
    }
    return (of) => known.get(of) ?? null;
  }
}
