// Resolves unknown outcomes by id while faults go on. The end of the run resolves the rest.
import { setTimeout as pause } from "node:timers/promises";
import { type Level, type TxnId } from "@highwater/checker";
import { type Highwater, HighwaterError, type TransactionStateResponse } from "@highwater/sdk";
import { type Journal } from "./journal.ts";
import { type Promises } from "./promises.ts";
import { attemptOf } from "./tokens.ts";

export interface Found {
  readonly outcome: "committed" | "aborted" | "lost";
  readonly token: string | undefined;
  readonly position: { readonly epoch: string; readonly offset: string } | null;
}

/** The outcome that follows from a state; undefined if none does. */
export function foundBy(state: TransactionStateResponse): Found | undefined {
  const position = state.position === undefined ? null : { ...state.position };
  switch (state.state) {
    case "committed":
    case "pending":
    case "durable":
    // It has committed, and only trackers know its verdict: it may even have come back.
    case "broken":
      return { outcome: "committed", token: state.token, position };
    case "lost":
      return { outcome: "lost", token: state.token, position };
    case "aborted":
      return { outcome: "aborted", token: undefined, position: null };
    case "active":
    case "expired":
    case "unknown":
      return undefined;
  }
}

const ASKED_AT_A_TIME_MAX = 8;
const ASKS_MAX = 4;
const FIRST_PAUSE_MS = 500;

export interface ResolverDeps {
  readonly journal: Journal;
  readonly promises: Promises;
  readonly onFailure: (error: unknown) => void;
}

export class Resolver {
  readonly #deps: ResolverDeps;
  readonly #asking = new Set<Promise<void>>();
  readonly #stop = new AbortController();

  constructor(deps: ResolverDeps) {
    this.#deps = deps;
  }

  add(unknown: { hw: Highwater; txn: TxnId; level: Level }): void {
    if (this.#stop.signal.aborted || this.#asking.size >= ASKED_AT_A_TIME_MAX) return;
    const asking = this.#ask(unknown)
      .catch(this.#deps.onFailure)
      .finally(() => this.#asking.delete(asking));
    this.#asking.add(asking);
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await Promise.all(this.#asking);
  }

  async #ask({ hw, txn, level }: { hw: Highwater; txn: TxnId; level: Level }): Promise<void> {
    const { journal, promises } = this.#deps;
    const { signal } = this.#stop;
    for (let asked = 0; asked < ASKS_MAX && !signal.aborted; asked++) {
      await pause(FIRST_PAUSE_MS * 2 ** asked, undefined, { signal }).catch(() => undefined);
      const state = await hw.status(txn, { level, signal }).catch((error: unknown) => {
        if (error instanceof HighwaterError || signal.aborted) return undefined;
        throw error;
      });
      const found = state && foundBy(state);
      if (found === undefined) continue;
      const { outcome, token, position } = found;
      if (token !== undefined) journal.note({ kind: "token", txn, token, attempt: attemptOf(token) });
      journal.resolved({ txn, outcome, position });
      if (token === undefined) return;
      promises.watch(hw.promise(token, { level }), { txn, levels: [level] });
      return;
    }
  }
}
