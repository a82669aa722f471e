// Runs the ledger's file in a worker thread, so that a disk flush never delays a mark.
import { parentPort, workerData } from "node:worker_threads";
import { type AnyTable, type KeptRow, type LedgerBatch, LedgerDatabase } from "./ledger-database.ts";

export type LedgerRequest =
  /** The next rows by key, a bounded number of them; none when there are no more. */
  | { readonly kind: "read"; readonly table: AnyTable; readonly after: string }
  | { readonly kind: "write"; readonly batch: LedgerBatch }
  | { readonly kind: "close" };

export type LedgerReply =
  | { readonly kind: "rows"; readonly rows: readonly KeptRow[] }
  | { readonly kind: "done" }
  | { readonly kind: "failed"; readonly message: string };

const database = new LedgerDatabase((workerData as { file: string }).file);

function handle(request: LedgerRequest): LedgerReply {
  switch (request.kind) {
    case "read":
      return { kind: "rows", rows: database.read(request.table, request.after) };
    case "write":
      database.write(request.batch);
      return { kind: "done" };
    case "close":
      database.close();
      return { kind: "done" };
  }
}

parentPort?.on("message", (request: LedgerRequest) => {
  let reply: LedgerReply;
  try {
    reply = handle(request);
  } catch (cause) {
    reply = { kind: "failed", message: cause instanceof Error ? cause.message : String(cause) };
  }
  parentPort?.postMessage(reply);
});
