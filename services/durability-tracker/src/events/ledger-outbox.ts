// The outbox in the tracker's ledger file.
import { type OutboxStore } from "./outbox-store.ts";

/** What of the ledger file the outbox needs. */
export interface OutboxLedger {
  saveOutbox(key: string, body: string): void;
  removeOutbox(key: string): void;
  flush(): Promise<void>;
  /**
   * What is on disk behind the key, in the order of the keys; a bounded part of it, and nothing
   * when there is no more.
   */
  loadOutbox(after: string): Promise<ReadonlyMap<string, string>>;
}

export function ledgerOutbox(ledger: OutboxLedger): OutboxStore {
  return {
    save: (key, body) => {
      ledger.saveOutbox(key, body);
    },
    remove: (key) => {
      ledger.removeOutbox(key);
    },
    flush: () => ledger.flush(),
    load: async (after, limit) => {
      const found = new Map<string, string>();
      for (let behind = after; found.size < limit;) {
        const part = await ledger.loadOutbox(behind);
        for (const [key, body] of part) {
          if (found.size === limit) break;
          found.set(key, body);
          behind = key;
        }
        if (part.size === 0) break;
      }
      return found;
    },
  };
}
