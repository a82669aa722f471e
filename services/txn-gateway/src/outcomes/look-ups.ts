// Looks receipts up on the primary, many at a time.
import { type EpochId, type ErrorCode, HighwaterError, type Offset } from "@highwater/protocol";
import { type ReceiptKey } from "@highwater/store";
import { Batcher } from "../batcher.ts";
import { type Deps } from "../deps.ts";
import { type Primary, type PrimaryEpoch } from "../primary/primary.ts";
import { RETRY_MS } from "../retry.ts";
import { KnownPositions } from "./known-positions.ts";
import { type Settled, settledOf } from "./settled.ts";

const BATCH_MAX = 1_000;

export interface LogEnd {
  readonly epoch: EpochId;
  readonly offset: Offset;
}

export class LookUps {
  readonly known = new KnownPositions();
  readonly #store: Deps["store"];
  readonly #primary: Primary;
  readonly #batchers = new Map<string, Batcher<ReceiptKey, Settled>>();
  readonly #ends: Batcher<string, LogEnd>;

  constructor(store: Deps["store"], primary: Primary) {
    this.#store = store;
    this.#primary = primary;
    this.#ends = new Batcher<string, LogEnd>(async (nodes) => {
      const found = await Promise.all(nodes.map((node) => store.logEnd(node)));
      const ends = new Map(nodes.map((node, at) => [node, found[at]]));
      return (node) => {
        const end = ends.get(node);
        if (end === undefined) throw new Error("a node was not asked");
        return end;
      };
    }, BATCH_MAX);
  }

  /** Where the node's log ends now, and in which epoch. Rejects when it cannot be asked. */
  end({ node }: PrimaryEpoch): Promise<LogEnd> {
    return this.#ends.ask(node);
  }

  /**
   * A receipt with the lowest position that is known of it. Errors: the given code when the node
   * cannot be asked; the primary is then asked for anew.
   */
  async find(primaryEpoch: PrimaryEpoch, key: ReceiptKey, onFailure: ErrorCode): Promise<Settled> {
    try {
      return this.known.lowest(key, await this.#batcherOf(primaryEpoch.node).ask(key));
    } catch (cause) {
      this.#primary.wake();
      if (cause instanceof HighwaterError) throw cause;
      const details = { transactionId: key.id, retryAfterMs: RETRY_MS.unsettled };
      throw new HighwaterError(onFailure, details, { cause });
    }
  }

  #batcherOf(node: string): Batcher<ReceiptKey, Settled> {
    let batcher = this.#batchers.get(node);
    if (batcher === undefined) {
      batcher = new Batcher<ReceiptKey, Settled>(
        async (keys) => settledOf(keys, await this.#store.lookUp(node, keys)),
        BATCH_MAX,
      );
      this.#batchers.set(node, batcher);
    }
    return batcher;
  }
}
