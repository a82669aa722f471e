// The file of contents as the tracker's main thread sees it. Requests are carried out in order. A
// failure fails its request, and not the tracker: no verdict rests on contents.
import { Worker } from "node:worker_threads";
import { type NotKeptWhy } from "@highwater/protocol";
import type {
  AttemptKey,
  ContentsItem,
  ContentsLimits,
  ContentsTotals,
  ListedLost,
  LostQuestion,
  LostRow,
  PendingContents,
  SealedContents,
} from "./contents-database.ts";
import type { ContentsReply, ContentsRequest } from "./contents-worker.ts";

export class ContentsFile {
  readonly #worker: Worker;
  readonly #answers: { resolve: (value: unknown) => void; reject: (cause: Error) => void }[] = [];
  #failed: Error | null = null;

  constructor(file: string, limits: ContentsLimits) {
    this.#worker = new Worker(new URL("./contents-worker.ts", import.meta.url), {
      workerData: { file, limits },
      execArgv: ["--disable-warning=ExperimentalWarning"],
    });
    this.#worker.on("message", (reply: ContentsReply) => {
      const answer = this.#answers.shift();
      if (reply.ok) answer?.resolve(reply.value);
      else answer?.reject(new Error(`contents: ${reply.message}`));
    });
    this.#worker.on("error", (cause) => {
      this.#failed = cause instanceof Error ? cause : new Error(String(cause));
      for (const answer of this.#answers.splice(0)) answer.reject(this.#failed);
    });
  }

  async #ask<T>(request: ContentsRequest): Promise<T> {
    if (this.#failed !== null) throw this.#failed;
    return new Promise<T>((resolve, reject) => {
      this.#answers.push({ resolve: resolve as (value: unknown) => void, reject });
      this.#worker.postMessage(request);
    });
  }

  take(items: readonly ContentsItem[]): Promise<readonly (NotKeptWhy | null)[]> {
    return this.#ask({ kind: "take", items });
  }

  forgetThrough(epoch: string, offset: string): Promise<ContentsTotals> {
    return this.#ask({ kind: "forgetThrough", epoch, offset });
  }

  forget(attempts: readonly AttemptKey[]): Promise<null> {
    return this.#ask({ kind: "forget", attempts });
  }

  pendingElsewhere(epoch: string, after: AttemptKey | null): Promise<readonly PendingContents[]> {
    return this.#ask({ kind: "pendingElsewhere", epoch, after });
  }

  lose(rows: readonly LostRow[]): Promise<null> {
    return this.#ask({ kind: "lose", rows });
  }

  list(question: LostQuestion): Promise<readonly ListedLost[]> {
    return this.#ask({ kind: "list", question });
  }

  sealed(of: AttemptKey): Promise<SealedContents | null> {
    return this.#ask({ kind: "sealed", of });
  }

  erase(owner: string, throughMs: number): Promise<number> {
    return this.#ask({ kind: "erase", owner, throughMs });
  }

  isErased(owner: string, throughMs: number): Promise<boolean> {
    return this.#ask({ kind: "isErased", owner, throughMs });
  }

  expire(beforeMs: number): Promise<null> {
    return this.#ask({ kind: "expire", beforeMs });
  }

  totals(): Promise<ContentsTotals> {
    return this.#ask({ kind: "totals" });
  }

  async close(): Promise<void> {
    await this.#ask({ kind: "close" }).catch(() => undefined);
    await this.#worker.terminate();
  }
}
