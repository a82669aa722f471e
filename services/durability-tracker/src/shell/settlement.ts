// Settles ids for the core, so that none waits for another one that a session holds.
import { type ReceiptsAsOf, type SettleRequest, type Store } from "@highwater/store";

type Asked = Omit<SettleRequest, "patienceMs">;

/** How long to wait for a session that holds an id. */
const PATIENCE_MS = 500;

export class Settlement {
  readonly #store: Pick<Store, "settle">;
  readonly #waiting = new Set<Asked["tombstone"]>();

  constructor(store: Pick<Store, "settle">) {
    this.#store = store;
  }

  /**
   * Answers ids that a session holds at once. They are settled afterwards, as soon as possible, and
   * the next question finds the result.
   */
  async settle(node: string, asked: Asked): Promise<ReceiptsAsOf> {
    const found = await this.#store.settle(node, { ...asked, patienceMs: 0 });
    const keys = asked.keys.filter((_, at) => found.receipts[at]?.kind === "held");
    if (keys.length > 0) void this.#waitFor(node, { ...asked, keys });
    return found;
  }

  /** Waits for the ids of one question at a time. The core asks about the others again. */
  async #waitFor(node: string, held: Asked): Promise<void> {
    if (this.#waiting.has(held.tombstone)) return;
    this.#waiting.add(held.tombstone);
    await this.#store.settle(node, { ...held, patienceMs: PATIENCE_MS }).catch(() => undefined);
    this.#waiting.delete(held.tombstone);
  }
}
