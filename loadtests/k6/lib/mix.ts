// The mix of transactions that every scenario runs: transfers that are fast, some that are safe,
// and reads.
import { type Committed, commit, follow, type Statement, type Verdict, type Work } from "./client.ts";
import {
  broken,
  commitLatency,
  committed,
  durabilityGap,
  durable,
  durableLatency,
  failed,
  lost,
  readLatency,
  safeLatency,
  unsettled,
} from "./metrics.ts";
import { ACCOUNTS, READ_PERCENT, SAFE_PERCENT, REPORTS } from "./settings.ts";

/**
 * Moves money to an account. The entry names the transaction, so the table shows which of them are
 * there.
 */
function transfer(account: number, cents: number): (id: string) => readonly Statement[] {
  return (id) => [
    { sql: "UPDATE load_account SET balance = balance + $2 WHERE id = $1", params: [account, cents] },
    { sql: "INSERT INTO load_entry (id, account, cents) VALUES ($1, $2, $3)", params: [id, account, cents] },
  ];
}

function look(account: number): () => readonly Statement[] {
  return () => [{ sql: "SELECT balance FROM load_account WHERE id = $1", params: [account] }];
}

export function runOne(): void {
  const account = 1 + Math.floor(Math.random() * ACCOUNTS);
  const drawn = 100 * Math.random();
  try {
    if (drawn < READ_PERCENT) runRead(account);
    else runWrite(account, drawn < READ_PERCENT + SAFE_PERCENT ? "durable" : "commit");
  } catch (cause) {
    // Without this, k6 would log the error and count nothing.
    failed.add(true);
    throw cause;
  }
}

function runRead(account: number): void {
  const startedMs = Date.now();
  const done = commit({ statements: look(account), readOnly: true, ack: "commit" });
  failed.add(done === undefined);
  if (done !== undefined) readLatency.add(Date.now() - startedMs);
}

function runWrite(account: number, ack: Work["ack"]): void {
  const startedMs = now();
  const done = commit({
    statements: transfer(account, 1 + Math.floor(Math.random() * 100)),
    readOnly: false,
    ack,
  });
  const answeredMs = now() - startedMs;
  if (done === undefined) {
    failed.add(true);
    return;
  }
  committed.add(1);
  const isAnswer = done.state === "durable";
  if (ack === "durable" && isAnswer) safeLatency.add(answeredMs);
  if (ack === "commit") commitLatency.add(answeredMs);
  const verdict = isAnswer ? "durable" : follow(done.token);
  if (ack === "commit" && verdict === "durable") {
    const durableMs = now() - startedMs;
    durableLatency.add(durableMs);
    durabilityGap.add(durableMs - answeredMs);
  }
  settle(done, verdict);
}

function settle({ id }: Committed, verdict: Verdict): void {
  const counters = { durable, lost, broken, unsettled };
  counters[verdict].add(1);
  // A loss was reported: it is counted as lost, and is not a failure of the service.
  failed.add(verdict === "broken" || verdict === "unsettled");
  if (REPORTS) console.log(JSON.stringify({ id, verdict }));
}

/** Finer than a millisecond, where the runtime has it. */
function now(): number {
  return typeof performance === "undefined" ? Date.now() : performance.now();
}
