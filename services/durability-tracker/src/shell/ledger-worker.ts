// Runs the ledger's file in a worker thread, so that a disk flush never delays a mark.
import { workerData } from "node:worker_threads";
import { serveRequests } from "./disk-thread.ts";
import { type AnyTable, type LedgerBatch, LedgerDatabase } from "./ledger-database.ts";

export type LedgerRequest =
  /** The next rows by key, a bounded number of them; none when there are no more. */
  | { readonly kind: "read"; readonly table: AnyTable; readonly after: string }
  | { readonly kind: "write"; readonly batch: LedgerBatch }
  | { readonly kind: "close" };

const database = new LedgerDatabase((workerData as { file: string }).file);

/** Reading returns rows, and nothing else returns anything. */
function handle(request: LedgerRequest): unknown {
  switch (request.kind) {
    case "read":
      return database.read(request.table, request.after);
    case "write":
      database.write(request.batch);
      return null;
    case "close":
      database.close();
      return null;
  }
}

serveRequests(handle);
