// Runs the file of contents in a worker thread, so that a disk flush never delays a mark.
import { workerData } from "node:worker_threads";
import { serveRequests } from "../shell/disk-thread.ts";
import {
  type AttemptKey,
  ContentsDatabase,
  type ContentsLimits,
  type LostQuestion,
  type LostRow,
} from "./contents-database.ts";
import { type ContentsGroup } from "./entries.ts";

export type ContentsRequest =
  | { readonly kind: "take"; readonly groups: readonly ContentsGroup[] }
  | { readonly kind: "unpackElsewhere"; readonly epoch: string }
  | { readonly kind: "forgetThrough"; readonly epoch: string; readonly offset: string }
  | { readonly kind: "forget"; readonly attempts: readonly AttemptKey[] }
  | { readonly kind: "pendingElsewhere"; readonly epoch: string; readonly after: AttemptKey | null }
  | { readonly kind: "lose"; readonly rows: readonly LostRow[] }
  | { readonly kind: "list"; readonly question: LostQuestion }
  | { readonly kind: "sealed"; readonly of: AttemptKey }
  | { readonly kind: "erase"; readonly owner: string; readonly throughMs: number }
  | { readonly kind: "isErased"; readonly owner: string; readonly throughMs: number }
  | { readonly kind: "expire"; readonly beforeMs: number }
  | { readonly kind: "close" };

const { file, limits } = workerData as { file: string; limits: ContentsLimits };
const database = new ContentsDatabase(file, limits);

function handle(request: ContentsRequest): unknown {
  switch (request.kind) {
    case "take":
      return database.take(request.groups);
    case "unpackElsewhere":
      return database.unpackElsewhere(request.epoch);
    case "forgetThrough":
      database.forgetThrough(request.epoch, request.offset);
      return database.totals;
    case "forget":
      database.forget(request.attempts);
      return null;
    case "pendingElsewhere":
      return database.pendingElsewhere(request.epoch, request.after);
    case "lose":
      database.lose(request.rows);
      return null;
    case "list":
      return database.list(request.question);
    case "sealed":
      return database.sealed(request.of);
    case "erase":
      return database.erase(request.owner, request.throughMs);
    case "isErased":
      return database.isErased(request.owner, request.throughMs);
    case "expire":
      database.expire(request.beforeMs);
      return null;
    case "close":
      database.close();
      return null;
  }
}

serveRequests(handle);
