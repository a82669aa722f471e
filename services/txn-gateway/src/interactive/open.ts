// What the gateway keeps of an interactive transaction that is open, and what its calls come to.
import { hash } from "node:crypto";
import {
  type OpenTransactionResponse,
  type RollbackResponse,
  type StatementResult,
  type TransactionResponse,
} from "@highwater/protocol";
import { type DeploymentKeys, type Principal } from "@highwater/service";
import { type OpenTransaction } from "@highwater/store";
import { type ResultHold, type ResultMemory } from "../answers/result-memory.ts";
import { type ActiveTransactions } from "../attempts/active.ts";
import { type Attempts } from "../attempts/attempts.ts";
import { type Config } from "../config.ts";
import { type Keeper, type Kept } from "../contents/keeper.ts";
import { type Deps } from "../deps.ts";
import { type Exposure } from "../exposure/exposure.ts";
import { type Metrics } from "../metrics.ts";
import { type MarkBoard } from "../outcomes/marks.ts";
import { type Attempt, type Outcomes } from "../outcomes/outcomes.ts";
import { type Refusals } from "../outcomes/refusals.ts";
import { type Primary } from "../primary/primary.ts";
import { type Announced } from "../trackers/announcer.ts";
import { type Committed } from "../txn/answer.ts";
import { type AcceptedBegin, type RequestRules } from "../txn/request.ts";
import { type Calls } from "./calls.ts";
import { type Lifetime } from "./lifetime.ts";
import { type Begun } from "./session-header.ts";

const DIGEST_DIGITS = 16;

export interface InteractiveContext {
  readonly config: Config;
  readonly keys: DeploymentKeys;
  readonly deps: Deps;
  readonly primary: Primary;
  readonly attempts: Attempts;
  readonly exposure: Exposure;
  readonly marks: MarkBoard;
  readonly active: ActiveTransactions;
  readonly outcomes: Outcomes;
  readonly refusals: Refusals;
  readonly metrics: Metrics;
  readonly memory: ResultMemory;
  readonly keeper: Keeper;
  readonly rules: Pick<RequestRules, "levels">;
}

export interface CallResult {
  readonly status: 200 | 202;
  readonly body: OpenTransactionResponse | TransactionResponse | RollbackResponse;
}

/** An answer and the memory of its results, which who sends it releases; null when it has none. */
export interface HeldCallResult extends CallResult {
  readonly hold: ResultHold | null;
  /** Of a commit: the contents, which note how the answer ends. */
  readonly kept?: Kept | null;
}

/**
 * What a call came to. A commit is answered from it anew each time: how durable it is by then is no
 * part of it.
 */
export type Done =
  | { readonly kind: "answered"; readonly answer: CallResult; readonly hold: ResultHold | null }
  | {
      readonly kind: "committed";
      readonly committed: Committed;
      readonly announced: Announced | null;
      readonly hold: ResultHold | null;
    };

/** What outlives the transaction, for calls that come late. */
export interface Known {
  readonly begun: Begun;
  readonly attempt: Attempt;
  readonly calls: Calls<Done>;
}

export interface Open {
  readonly known: Known;
  /** Who has begun it. */
  readonly principal: Principal;
  readonly isolation: AcceptedBegin["isolation"];
  readonly metadata: AcceptedBegin["metadata"];
  readonly maxDelayMs: AcceptedBegin["maxDelayMs"];
  readonly atRisk: AcceptedBegin["atRisk"];
  readonly transaction: OpenTransaction;
  readonly lifetime: Lifetime;
  /** What the begin was answered, until the first call shows that the answer arrived. */
  opened: readonly StatementResult[] | null;
  /** Of the last call. */
  results: readonly StatementResult[];
  /** Of these results, or those of the begin. */
  hold: ResultHold;
  /** From here on only the database's word ends it. */
  isCommitting: boolean;
  /** Frees the id and the place among the open ones. */
  readonly leave: () => void;
  /** Called once, when it is no longer open. */
  onEnd: () => void;
}

export function digestOfBegin(request: AcceptedBegin): string {
  return hash("sha256", JSON.stringify(request)).slice(0, DIGEST_DIGITS);
}
