// Makes the application's tables through the product itself, so durably that no failure of the run
// can undo them.
import { setTimeout as pause } from "node:timers/promises";
import { type Level } from "@highwater/checker";
import { Highwater, HighwaterError, newTransactionId } from "@highwater/sdk";
import { type Endpoint } from "../parts.ts";
import { credential } from "./credential.ts";
import { type Journal } from "./journal.ts";
import { CREATE_TABLES } from "./schema.ts";
import { attemptOf } from "./tokens.ts";

const LIMIT_MS = 60_000;
const PAUSE_MS = 250;

export interface SetupOptions {
  readonly endpoints: readonly Endpoint[];
  /** The strongest level. */
  readonly level: Level;
  readonly journal: Journal;
}

/** In the history, this is a transaction without operations. */
export async function createTables({ endpoints, level, journal }: SetupOptions): Promise<void> {
  await using hw = new Highwater({ endpoints, level, ...credential() });
  const txn = newTransactionId();
  journal.invoked({
    client: "setup",
    session: null,
    txn,
    rerunOf: null,
    ack: "durable",
    level,
    readOnly: false,
    isolation: "serializable",
    after: null,
    operations: [],
  });
  const untilMs = performance.now() + LIMIT_MS;
  for (;;) {
    try {
      const how = { id: txn, ack: "durable", onTimeout: "pending", level } as const;
      const transaction = await hw.transaction(CREATE_TABLES, how);
      const { token, position, replayed } = transaction;
      const { verdict, rule } = await transaction.durable({ level, timeoutMs: LIMIT_MS });
      journal.note({ kind: "token", txn, token, attempt: attemptOf(token) });
      journal.answered({
        txn,
        outcome: "committed",
        durableAt: level,
        shown: [],
        replayed,
        error: null,
        position: { epoch: position.epoch, offset: position.offset },
      });
      journal.report({ txn, level, verdict, by: "promise", tracker: null, attempt: null, rule });
      return;
    } catch (error) {
      // A system that has just started may not be ready.
      const isPassing =
        error instanceof HighwaterError && error.retry === "wait" && error.outcome === "not_applied";
      if (!isPassing || performance.now() > untilMs) throw error;
      await pause(PAUSE_MS);
    }
  }
}
