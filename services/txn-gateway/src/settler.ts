// Unknown outcomes are resolved, never guessed: when a connection dies during COMMIT, the id is settled on the primary.
// Either its receipt is there, or a tombstone is from now on, and then it can never commit.
import { type TxnId } from "@highwater/protocol";
import { sleep } from "@highwater/store";
import { Batcher } from "./batcher.ts";
import { type Deps } from "./deps.ts";
import { type Primary, type Reign } from "./primary.ts";
import { type Settled, settledAs } from "./txn/settled.ts";

/** A session that still holds the id after this is ended. */
const PATIENCE_MS = 500;
/** Longer than a failover; the client is answered sooner. */
const LIMIT_MS = 60_000;
const PAUSE_MS = 100;
/** Between two tries of one that nobody waits for any more. */
const LONG_PAUSE_MS = 1_000;
/** A server that dies takes all transactions in flight with it; they are settled together. */
const BATCH_MAX = 1_000;

export class Settler {
  readonly #deps: Pick<Deps, "clock" | "store" | "log">;
  readonly #primary: Primary;
  readonly #stop = new AbortController();
  #current: { readonly reign: Reign; readonly batcher: Batcher<TxnId, Settled> } | null = null;

  constructor(deps: Pick<Deps, "clock" | "store" | "log">, primary: Primary) {
    this.#deps = deps;
    this.#primary = primary;
  }

  stop(): void {
    this.#stop.abort();
  }

  /** Null when no primary could settle it in time; the id's announcement then leaves it to the trackers. */
  async settle(id: TxnId, limitMs = LIMIT_MS): Promise<Settled | null> {
    const { clock, log } = this.#deps;
    const deadlineMs = clock.monotonicMs() + limitMs;
    const pauseMs = limitMs > LIMIT_MS ? LONG_PAUSE_MS : PAUSE_MS;
    for (let failures = 0; ;) {
      try {
        const leftMs = Math.max(0, deadlineMs - clock.monotonicMs());
        const reign = await this.#primary.await(Math.min(LIMIT_MS, leftMs));
        const settled = await this.#batcherOf(reign).ask(id);
        // Neither a receipt nor a tombstone: not settled.
        if (settled.kind !== "absent") return settled;
      } catch (cause) {
        if (failures++ === 0) log.warn("outcome_not_settled_yet", { transactionId: id, cause });
      }
      if (this.#stop.signal.aborted || clock.monotonicMs() >= deadlineMs) return null;
      this.#primary.nudge();
      await sleep(clock, pauseMs, this.#stop.signal);
    }
  }

  #batcherOf(reign: Reign): Batcher<TxnId, Settled> {
    const current = this.#current;
    if (current?.reign.epoch === reign.epoch) return current.batcher;
    const { node, epoch } = reign;
    const batcher = new Batcher<TxnId, Settled>(async (ids) => {
      const request = { epoch, ids, tombstone: "aborted", patienceMs: PATIENCE_MS } as const;
      const found = await this.#deps.store.settle(node, request);
      return (id) => settledAs(id, found);
    }, BATCH_MAX);
    this.#current = { reign, batcher };
    return batcher;
  }
}
