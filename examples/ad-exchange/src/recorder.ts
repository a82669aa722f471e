// What the clients learned about every transaction, and when: the claims that `check.ts` holds
// against the database. Stands between the exchange and the SDK's client; adds nothing to what the
// SDK sends and takes nothing away.
import {
  type Highwater,
  HighwaterError,
  type StatementInput,
  type Transaction,
  type TransactionOptions,
} from "@highwater/sdk";
import { type Client } from "./exchange.ts";

/**
 * `unknown`: may or may not have committed; the check asks. `aborted`: certainly came to nothing.
 */
export type ClaimOutcome = "in flight" | "committed" | "aborted" | "unknown";
export type ClaimVerdict = "durable" | "lost" | "broken";

export interface Claim {
  readonly id: string;
  readonly name: string;
  readonly safe: boolean;
  readonly readOnly: boolean;
  readonly sentMs: number;
  answer: ClaimOutcome;
  answeredMs: number;
  token: string | undefined;
  /**
   * Whether it left rows in the application's tables; undefined when its results were not to be
   * had.
   */
  wrote: boolean | undefined;
  /** The row that it was to insert, as `rowText` writes it; null: the database chooses it. */
  readonly sent: string | null;
  /** Transactions whose rows it was shown. */
  seen: readonly string[];
  /** What the SDK's promises said about its durability, and when. */
  reported: ClaimVerdict | undefined;
  reportedMs: number;
  /** The promises took back what they had said. Never to happen. */
  contradicted: boolean;
  /** Resolves when the promises have said something. */
  settled: Promise<void>;
  error: unknown;
}

/** Longer than any failover here; the promise itself has no end. */
const PROMISE_TIMEOUT_MS = 120_000;
const LEVEL = "region";

export class Recorder implements Client {
  readonly claims: Claim[] = [];
  readonly #byId = new Map<string, Claim>();
  #client: Highwater;

  constructor(client: Highwater) {
    this.#client = client;
  }

  /**
   * What comes next goes through another client; the promises of the old one are kept as they are.
   */
  use(client: Highwater): void {
    this.#client = client;
  }

  find(id: string): Claim | undefined {
    return this.#byId.get(id);
  }

  async transaction(
    statements: readonly StatementInput[],
    options: TransactionOptions,
  ): Promise<Transaction> {
    const claim = this.#begin(statements, options);
    try {
      const transaction = await this.#client.transaction(statements, options);
      this.#answered(claim, transaction);
      return transaction;
    } catch (error) {
      this.#failed(claim, error);
      throw error;
    }
  }

  #begin(statements: readonly StatementInput[], options: TransactionOptions): Claim {
    if (options.id === undefined) throw new Error("the exchange chooses its transaction ids itself");
    const claim: Claim = {
      id: options.id,
      name: options.metadata?.["name"] ?? "?",
      safe: options.ack === "durable",
      readOnly: options.readOnly === true,
      sentMs: performance.now(),
      answer: "in flight",
      answeredMs: Number.NaN,
      token: undefined,
      wrote: undefined,
      sent: rowSent(statements),
      seen: [],
      reported: undefined,
      reportedMs: Number.NaN,
      contradicted: false,
      settled: Promise.resolve(),
      error: undefined,
    };
    this.claims.push(claim);
    this.#byId.set(claim.id, claim);
    return claim;
  }

  #answered(claim: Claim, transaction: Transaction): void {
    claim.answer = "committed";
    claim.answeredMs = performance.now();
    claim.token = transaction.token;
    if (transaction.results !== null) {
      if (!claim.readOnly) claim.wrote = transaction.results.some((result) => result.rowCount > 0);
      claim.seen = [...new Set(transaction.rows.flatMap(writersIn))];
    }
    transaction.onLost((verdict) => {
      report(claim, verdict.verdict === "broken" ? "broken" : "lost");
    });
    claim.settled = transaction.durable({ level: LEVEL, timeoutMs: PROMISE_TIMEOUT_MS }).then(
      () => {
        report(claim, "durable");
      },
      (error: unknown) => {
        if (isCode(error, "transaction_lost")) report(claim, "lost");
        else if (isCode(error, "promise_broken")) report(claim, "broken");
        else claim.error = error;
      },
    );
  }

  #failed(claim: Claim, error: unknown): void {
    claim.answeredMs = performance.now();
    claim.error = error;
    // A safe transaction can be lost while its client waits for the answer: it was committed, and
    // no client knows it.
    claim.answer = error instanceof HighwaterError && error.outcome === "not_applied" ? "aborted" : "unknown";
  }

  /** Answered as committed, and no word yet about durability. */
  pending(): Claim[] {
    return this.claims.filter((claim) => claim.answer === "committed" && claim.reported === undefined);
  }

  count(which: (claim: Claim) => boolean): number {
    return this.claims.reduce((sum, claim) => sum + (which(claim) ? 1 : 0), 0);
  }
}

function report(claim: Claim, what: ClaimVerdict): void {
  if (claim.reported !== undefined) {
    claim.contradicted ||= claim.reported !== what;
    return;
  }
  claim.reported = what;
  claim.reportedMs = performance.now();
}

/** As the check finds it in the database. */
export function rowText(table: string, values: readonly unknown[]): string {
  return [table, ...values.map(String).toSorted()].join(" ");
}

function rowSent([statement]: readonly StatementInput[]): string | null {
  const { text, params } = statement as { readonly text: string; readonly params: readonly unknown[] };
  const table = /^INSERT INTO (\w+)/.exec(text)?.[1];
  return table === undefined ? null : rowText(table, params);
}

function writersIn(row: Readonly<{ [column: string]: unknown }>): string[] {
  return ["created_by", "placed_by", "closed_by"].flatMap((column) => {
    const id = row[column];
    return typeof id === "string" ? [id] : [];
  });
}

function isCode(error: unknown, code: string): boolean {
  return error instanceof HighwaterError && error.code === code;
}
