// Resolves unknown outcomes; it never guesses. When a connection dies during COMMIT, it settles the
// id on the primary: either the receipt exists, or it inserts a tombstone and the id can never
// commit.
import { type EpochId } from "@highwater/protocol";
import { sleep } from "@highwater/runtime";
import { type ReceiptKey } from "@highwater/store";
import { Batcher } from "../batcher.ts";
import { type Deps } from "../deps.ts";
import { type Primary, type PrimaryEpoch } from "../primary/primary.ts";
import { type Finality } from "./finality.ts";
import { type Settled, settledOf } from "./settled.ts";

/** How long to wait for another session that holds the id before the answer is `held`. */
const PATIENCE_MS = 500;
/** The first settlement does not wait: a held id would delay all others of its batch. */
const NO_PATIENCE = 0;
/** Longer than a failover takes. The client gets its answer earlier. */
const LIMIT_MS = 60_000;
const PAUSE_MS = 100;
/** Between two tries for an id that no client waits for. */
const LONG_PAUSE_MS = 1_000;
/** When a server dies, all transactions in flight are settled together. */
const BATCH_MAX = 1_000;

/**
 * The kind of a tombstone. `lost`: the attempt's epoch is over, and it is unknown whether it had
 * committed there.
 */
type Tombstone = "aborted" | "lost";

/**
 * What to do about an id that another attempt holds: ask again until that has ended, or answer
 * `held`.
 */
export type WhenHeld = "wait_for_held" | "answer_held";

export class Settler {
  readonly #deps: Pick<Deps, "clock" | "store" | "log">;
  readonly #primary: Primary;
  readonly #finality: Finality;
  readonly #stop = new AbortController();
  #current: {
    readonly primaryEpoch: PrimaryEpoch;
    readonly batchers: Map<string, Batcher<ReceiptKey, Settled>>;
  } | null = null;

  constructor(deps: Pick<Deps, "clock" | "store" | "log">, primary: Primary, finality: Finality) {
    this.#deps = deps;
    this.#primary = primary;
    this.#finality = finality;
  }

  stop(): void {
    this.#stop.abort();
  }

  /**
   * Settles an id. The answer is final, also after a failover that keeps what is not at risk. Null:
   * no primary could settle it in time, and the trackers will, because the id is announced.
   */
  async settle(
    key: ReceiptKey,
    attempt: EpochId,
    how: { readonly limitMs?: number; readonly whenHeld?: WhenHeld } = {},
  ): Promise<Settled | null> {
    const { clock, log } = this.#deps;
    const { limitMs = LIMIT_MS, whenHeld = "wait_for_held" } = how;
    const deadlineMs = clock.monotonicMs() + limitMs;
    const pauseMs = limitMs > LIMIT_MS ? LONG_PAUSE_MS : PAUSE_MS;
    for (let failures = 0; ;) {
      try {
        const leftMs = (): number => Math.min(LIMIT_MS, Math.max(0, deadlineMs - clock.monotonicMs()));
        const primaryEpoch = await this.#primary.await(leftMs());
        const tombstone = primaryEpoch.epoch === attempt ? "aborted" : "lost";
        const settled = await this.#ask(primaryEpoch, tombstone, key);
        if (settled.kind === "held" && whenHeld === "answer_held") return settled;
        // Without a receipt and without a tombstone the id is not settled.
        const isSettled = settled.kind !== "absent" && settled.kind !== "held";
        if (isSettled && (await this.#finality.await(settled, leftMs(), this.#stop.signal)) === "reached")
          return settled;
      } catch (cause) {
        if (failures++ === 0) log.warn("outcome_not_settled_yet", { transactionId: key.id, cause });
      }
      if (this.#stop.signal.aborted || clock.monotonicMs() >= deadlineMs) return null;
      this.#primary.wake();
      await sleep(clock, pauseMs, this.#stop.signal);
    }
  }

  async #ask(primaryEpoch: PrimaryEpoch, tombstone: Tombstone, key: ReceiptKey): Promise<Settled> {
    const settled = await this.#batcherOf(primaryEpoch, tombstone, NO_PATIENCE).ask(key);
    if (settled.kind !== "held") return settled;
    return this.#batcherOf(primaryEpoch, tombstone, PATIENCE_MS).ask(key);
  }

  #batcherOf(
    primaryEpoch: PrimaryEpoch,
    tombstone: Tombstone,
    patienceMs: number,
  ): Batcher<ReceiptKey, Settled> {
    const { node, epoch } = primaryEpoch;
    if (this.#current?.primaryEpoch.epoch !== epoch) this.#current = { primaryEpoch, batchers: new Map() };
    const { batchers } = this.#current;
    const name = `${tombstone}/${String(patienceMs)}`;
    let batcher = batchers.get(name);
    if (batcher === undefined) {
      batcher = new Batcher<ReceiptKey, Settled>(async (keys) => {
        const request = { epoch, keys, tombstone, patienceMs };
        return settledOf(keys, await this.#deps.store.settle(node, request));
      }, BATCH_MAX);
      batchers.set(name, batcher);
    }
    return batcher;
  }
}
