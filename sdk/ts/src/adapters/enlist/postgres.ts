// postgres.js: it begins and ends transactions itself, so its `begin` is called with a body that
// sends the receipt last. The driver writes COMMIT behind it without waiting.
import { newTransactionId } from "../../ids.ts";
import { HighwaterError } from "../../index.ts";
import { type TicketService } from "./ticket-service.ts";
import { EARLY, isRefusal, RECEIPT, receiptValues, refusalOf } from "./statements.ts";
import { EnlistedTransaction } from "./transaction.ts";

interface Pending extends PromiseLike<{ readonly count: number }> {
  execute(): this;
}

interface Unsafe {
  unsafe(text: string, values?: string[], options?: { prepare: boolean }): Pending;
}

type Begin = (options: string, body: (sql: Unsafe) => Promise<void>) => Promise<unknown>;

/** The `sql` of postgres.js, as far as `enlist` needs it. */
export interface PostgresSql {
  /** Runs a transaction. */
  readonly begin: (...args: never[]) => unknown;
  /** Its own options. */
  readonly options: object;
}

/** What the body of a transaction returned, and the transaction that committed it. */
export interface Committed<R> {
  /** What the body returned. */
  readonly result: R;
  /** Null if the transaction wrote nothing. */
  readonly transaction: EnlistedTransaction | null;
}

/** The `sql` that postgres.js passes to the body of a transaction. */
export type BodySql<S> = S extends {
  begin(options: string, body: (sql: infer B) => unknown): unknown;
}
  ? B
  : never;

/** What `begin` returns for a body's result: for a list of queries, the list of their results. */
export type BodyResult<R> = R extends readonly PromiseLike<unknown>[]
  ? { -readonly [K in keyof R]: Awaited<R[K]> }
  : R;

/** The client of postgres.js, enlisted. */
export class EnlistedPostgres<S extends PostgresSql> {
  readonly #service: TicketService;
  readonly #sql: S;

  /** @internal */
  constructor(service: TicketService, sql: S) {
    this.#service = service;
    this.#sql = sql;
  }

  /**
   * Like `sql.begin`: runs the body as one transaction and commits when it returns. After a lost
   * connection it finds out whether the transaction has committed.
   * Errors: those of `sql.begin`. `TransactionAbortedError` if a failover ended the transaction.
   * Those of the service if there is no ticket for it; then nothing was applied.
   *
   * @param options Options behind BEGIN, such as `isolation level serializable`.
   */
  async begin<const R>(
    options: string,
    body: (sql: BodySql<S>) => R | Promise<R>,
  ): Promise<Committed<BodyResult<R>>> {
    const service = this.#service;
    const id = newTransactionId();
    const asked = service.issue(id);
    asked.catch(() => undefined);
    const withdraw = (): void => {
      asked.then(
        (ticket) => {
          service.withdraw(ticket);
        },
        () => undefined,
      );
    };
    /** Of the receipt, once it is on its way: how many rows it has. */
    const sent: Promise<number>[] = [];
    const results: unknown[] = [];
    let known;
    try {
      const begin = this.#sql.begin as Begin;
      await begin(options, async (sql) => {
        const made = body(sql as BodySql<S>);
        // A query runs when it is awaited: those of a list go out together.
        results.push(await (Array.isArray(made) ? Promise.all(made) : made));
        const ticket = await asked;
        service.check(ticket);
        sql
          .unsafe(EARLY)
          .execute()
          .then(undefined, () => undefined);
        // Prepared: the driver else asks for the types of its parameters each time, and waits.
        const receipt = sql.unsafe(RECEIPT, receiptValues(ticket), { prepare: true }).execute();
        const count = Promise.resolve(receipt).then((rows) => rows.count);
        count.catch(() => undefined);
        sent.push(count);
      });
      // COMMIT behind a receipt that was refused is a ROLLBACK, and no error.
      await sent[0];
    } catch (cause) {
      const [receipt] = sent;
      // The body's own error, or a refusal of COMMIT, such as a conflict.
      let why = cause;
      await receipt?.catch((own: unknown) => {
        why = isRefusal(own) ? refusalOf(own, id) : own;
      });
      if (receipt === undefined || isRefusal(why) || why instanceof HighwaterError) {
        withdraw();
        throw why;
      }
      known = await service.committed(await asked, false);
    }
    const [result] = results as [BodyResult<R>];
    if (known === undefined && (await sent[0]) === 0) {
      withdraw();
      return { result, transaction: null };
    }
    const transaction = new EnlistedTransaction(service, await asked, known);
    await service.acknowledge(transaction);
    return { result, transaction };
  }
}
