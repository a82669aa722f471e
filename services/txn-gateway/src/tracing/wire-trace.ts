// The trace of a commit on the PostgreSQL wire: as that of a request, from the client's message to
// the answer.
import { type TxnId } from "@highwater/protocol";
import { type RequestTrace } from "@highwater/service";
import { type Position } from "../wire/positions.ts";
import { TransactionTrace } from "./transaction-trace.ts";

export interface WireCommit {
  /** Null: it has no receipt. */
  readonly id: TxnId | null;
  readonly ack: "commit" | "durable";
  readonly level: string;
  readonly node: string;
  readonly owner: bigint;
  /** When the client sent what has committed. */
  readonly sentMs: number;
}

export class WireTrace {
  readonly transaction: TransactionTrace;
  readonly #request: RequestTrace;
  readonly #commit: WireCommit;

  /** `request` began with the transaction, which has just committed. */
  constructor(request: RequestTrace, commit: WireCommit) {
    this.#request = request;
    this.#commit = commit;
    const { id, ack, level, node, sentMs } = commit;
    const traced = { id, ack, readOnly: false, form: "wire", statements: 1 } as const;
    this.transaction = new TransactionTrace(request, traced, ack === "durable" ? level : null);
    this.transaction.storeBegan(node, sentMs);
    this.transaction.storeEnded();
  }

  committed({ epoch, offset }: Position): void {
    this.transaction.committed({ epoch, offset, owner: this.#commit.owner });
  }

  /** `isEarly`: the answer does not say that it is durable. */
  answered(isEarly: boolean): void {
    if (!isEarly) this.transaction.settled("durable", this.#commit.level);
    this.#end(isEarly ? "committed" : "durable");
  }

  lost(): void {
    this.transaction.settled("lost", this.#commit.level);
    this.#end("lost", "transaction_lost");
  }

  /** The session has ended without the answer. */
  unanswered(): void {
    this.#request.fail("commit_unconfirmed");
    this.#end("unknown", "commit_unconfirmed");
  }

  #end(state: string, error: string | null = null): void {
    this.transaction.ended(state, error);
    this.#request.end("postgresql commit", () => ({ "network.protocol.name": "postgresql" }));
  }
}
