// The file of contents as the tracker's main thread sees it. Requests are carried out in order. A
// failure fails its request, and not the tracker: no verdict rests on contents.
import { DiskThread } from "../shell/disk-thread.ts";
import type {
  AttemptKey,
  ContentsLimits,
  ContentsTotals,
  ListedLost,
  LostQuestion,
  LostRow,
  NotKept,
  PendingContents,
  SealedContents,
} from "./contents-database.ts";
import type { ContentsRequest } from "./contents-worker.ts";
import type { ContentsGroup } from "./entries.ts";

export class ContentsFile {
  readonly #thread: DiskThread<ContentsRequest>;

  constructor(file: string, limits: ContentsLimits) {
    const module = new URL("./contents-worker.ts", import.meta.url);
    this.#thread = new DiskThread(module, { name: "contents", data: { file, limits } });
  }

  take(groups: readonly ContentsGroup[]): Promise<readonly NotKept[]> {
    return this.#thread.ask({ kind: "take", groups });
  }

  unpackElsewhere(epoch: string): Promise<boolean> {
    return this.#thread.ask({ kind: "unpackElsewhere", epoch });
  }

  forgetThrough(epoch: string, offset: string): Promise<ContentsTotals> {
    return this.#thread.ask({ kind: "forgetThrough", epoch, offset });
  }

  forget(attempts: readonly AttemptKey[]): Promise<null> {
    return this.#thread.ask({ kind: "forget", attempts });
  }

  pendingElsewhere(epoch: string, after: AttemptKey | null): Promise<readonly PendingContents[]> {
    return this.#thread.ask({ kind: "pendingElsewhere", epoch, after });
  }

  lose(rows: readonly LostRow[]): Promise<null> {
    return this.#thread.ask({ kind: "lose", rows });
  }

  list(question: LostQuestion): Promise<readonly ListedLost[]> {
    return this.#thread.ask({ kind: "list", question });
  }

  sealed(of: AttemptKey): Promise<SealedContents | null> {
    return this.#thread.ask({ kind: "sealed", of });
  }

  erase(owner: string, throughMs: number): Promise<number> {
    return this.#thread.ask({ kind: "erase", owner, throughMs });
  }

  isErased(owner: string, throughMs: number): Promise<boolean> {
    return this.#thread.ask({ kind: "isErased", owner, throughMs });
  }

  expire(beforeMs: number): Promise<null> {
    return this.#thread.ask({ kind: "expire", beforeMs });
  }

  async close(): Promise<void> {
    await this.#thread.ask({ kind: "close" }).catch(() => undefined);
    await this.#thread.end();
  }
}
