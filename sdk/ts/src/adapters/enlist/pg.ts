// Connections of `pg`: sees the statements that begin and end transactions, and sends the receipt
// in one write with COMMIT.
import { newTransactionId } from "../../ids.ts";
import { InvalidRequestError } from "../../index.ts";
import { type TicketService, type Issued } from "./ticket-service.ts";
import { boundaryOf, EARLY, isFailed, isRefusal, RECEIPT, receiptValues, refusalOf } from "./statements.ts";
import { EnlistedTransaction } from "./transaction.ts";

type Callback = (error: unknown, result?: unknown) => void;
type Query = (...args: readonly unknown[]) => unknown;

/** A connection of `pg`: its `Client`, or a client of its `Pool`. */
export interface PgClient {
  /** Runs a statement. */
  query: Query;
}

/** A pool of `pg`. */
export interface PgPool {
  /**
   * Calls the listener with each connection that the pool opens.
   *
   * @param event Its name.
   * @param listener Function that gets the connection.
   */
  on(event: "connect", listener: (client: PgClient) => void): unknown;
  /** Connections that it has. */
  readonly totalCount: number;
}

interface Open {
  readonly id: string;
  readonly ticket: Promise<Issued>;
}

/** What COMMIT resolves to, in the shape of `pg`. */
const committedResult = () => ({ command: "COMMIT", rowCount: null, oid: null, rows: [], fields: [] });

export class EnlistedClient {
  readonly #service: TicketService;
  readonly #onCommit: (client: PgClient, transaction: EnlistedTransaction) => void;
  readonly #client: PgClient;
  readonly #query: Query;
  #open: Open | undefined;
  /** While COMMIT waits for its ticket, statements behind it wait too. */
  #committing: Promise<unknown> | undefined;

  constructor(
    service: TicketService,
    client: PgClient,
    onCommit: (client: PgClient, transaction: EnlistedTransaction) => void,
  ) {
    this.#service = service;
    this.#client = client;
    this.#onCommit = onCommit;
    this.#query = client.query.bind(client);
    client.query = (...args) => this.#run(args);
  }

  #run(args: readonly unknown[]): unknown {
    if (this.#committing) {
      const before = this.#committing;
      // A query object is what `query` returns, so it cannot wait behind a promise of another.
      if (typeof (args[0] as { submit?: unknown } | null)?.submit === "function") {
        void before.then(() => this.#query(...args));
        return args[0];
      }
      return settle(args, () => before.then(() => call((...rest) => this.#run(rest), args)));
    }
    const boundary = boundaryOf(textOf(args[0]));
    if (boundary === "commit" && this.#open) return this.#commit(this.#open, args);
    if (boundary === "refused" && this.#open)
      return settle(args, () => Promise.reject(refusedStatement(textOf(args[0]))));
    if (boundary === "begin" || boundary === "rollback") this.#forget();
    if (boundary === "begin") this.#begin();
    return this.#query(...args);
  }

  #begin(): void {
    const id = newTransactionId();
    const ticket = this.#service.issue(id);
    ticket.catch(() => undefined);
    this.#open = { id, ticket };
  }

  #forget(): void {
    this.#open?.ticket.then(
      (ticket) => {
        this.#service.withdraw(ticket);
      },
      () => undefined,
    );
    this.#open = undefined;
  }

  #commit(open: Open, args: readonly unknown[]): unknown {
    this.#open = undefined;
    const working = this.#commitWith(open, args);
    const sent = working.then(
      ({ sent: result }) => result,
      () => undefined,
    );
    this.#committing = sent;
    void sent.finally(() => (this.#committing = undefined));
    return settle(args, async () => (await working).answer());
  }

  /** Resolves when COMMIT has been answered. `answer` waits for the durability that is wanted. */
  async #commitWith(
    open: Open,
    args: readonly unknown[],
  ): Promise<{ sent: undefined; answer: () => Promise<unknown> }> {
    const ticket = await open.ticket.catch(async (cause: unknown) => {
      await this.#rollBack();
      throw cause;
    });
    try {
      this.#service.check(ticket);
    } catch (cause) {
      await this.#rollBack();
      this.#service.withdraw(ticket);
      throw cause;
    }
    const pipeline = new CommitPipeline(ticket);
    this.#query(pipeline);
    try {
      await pipeline.done;
    } catch (cause) {
      return await this.#failed(ticket, { cause, args, isCommitSent: pipeline.tags.length >= 2 });
    }
    if (pipeline.tags[1] === "INSERT 0 0") {
      this.#service.withdraw(ticket);
      return { sent: undefined, answer: () => Promise.resolve(committedResult()) };
    }
    return this.#committed(new EnlistedTransaction(this.#service, ticket));
  }

  #committed(transaction: EnlistedTransaction): { sent: undefined; answer: () => Promise<unknown> } {
    this.#onCommit(this.#client, transaction);
    const answer = async (): Promise<unknown> => {
      await this.#service.acknowledge(transaction);
      return committedResult();
    };
    return { sent: undefined, answer };
  }

  async #failed(
    ticket: Issued,
    { cause, args, isCommitSent }: { cause: unknown; args: readonly unknown[]; isCommitSent: boolean },
  ): Promise<{ sent: undefined; answer: () => Promise<unknown> }> {
    if (!isRefusal(cause)) {
      const known = await this.#service.committed(ticket, false);
      return this.#committed(new EnlistedTransaction(this.#service, ticket, known));
    }
    this.#service.withdraw(ticket);
    if (isFailed(cause)) {
      const result = await call(
        this.#query,
        args.filter((arg) => typeof arg !== "function"),
      );
      return { sent: undefined, answer: () => Promise.resolve(result) };
    }
    // COMMIT's own refusal has ended the transaction already.
    if (!isCommitSent) await this.#rollBack();
    throw isCommitSent ? cause : refusalOf(cause, ticket.id);
  }

  async #rollBack(): Promise<void> {
    // Without a connection there is nothing to roll back.
    await call(this.#query, ["ROLLBACK"]).catch(() => undefined);
  }
}

/** The part of `pg`'s connection that writes messages. */
interface Connection {
  readonly stream?: { cork?: () => void; uncork?: () => void };
  parse(message: object): void;
  bind(message: object): void;
  execute(message: object): void;
  sync(): void;
}

/** `pg` calls its methods as those of a query. */
class CommitPipeline {
  readonly done: Promise<void>;
  readonly tags: string[] = [];
  readonly #ticket: Issued;
  #resolve: () => void = () => undefined;
  #reject: (cause: unknown) => void = () => undefined;

  constructor(ticket: Issued) {
    this.#ticket = ticket;
    this.done = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  submit(connection: Connection): void {
    const steps: [string, string[]][] = [
      [EARLY, []],
      [RECEIPT, receiptValues(this.#ticket)],
      ["COMMIT", []],
    ];
    connection.stream?.cork?.();
    for (const [text, values] of steps) {
      connection.parse({ text, name: "", types: [] });
      connection.bind({ portal: "", statement: "", values, binary: false });
      connection.execute({ portal: "", rows: 0 });
    }
    connection.sync();
    connection.stream?.uncork?.();
  }

  handleCommandComplete({ text }: { readonly text: string }): void {
    this.tags.push(text);
  }

  handleReadyForQuery(): void {
    if (this.tags.at(-1) === "COMMIT") this.#resolve();
    else this.#reject(new Error(`the server answered ${this.tags.join(", ")}`));
  }

  handleError(cause: unknown): void {
    this.#reject(cause);
  }

  handleRowDescription(): void {
    // None of the statements has rows.
  }

  handleDataRow(): void {
    // As above.
  }
}

function textOf(first: unknown): string {
  const text = typeof first === "string" ? first : (first as { text?: unknown } | null)?.text;
  return typeof text === "string" ? text : "";
}

/** As `pg` does it: by a promise, or by a callback where one is given. */
function settle(args: readonly unknown[], work: () => Promise<unknown>): unknown {
  const callback = args.find((arg): arg is Callback => typeof arg === "function");
  if (!callback) return work();
  work().then(
    (result) => {
      callback(null, result);
    },
    (cause: unknown) => {
      callback(cause);
    },
  );
  return undefined;
}

/** By a promise, also where a callback is given, which is left to `settle`. */
function call(query: Query, args: readonly unknown[]): Promise<unknown> {
  return Promise.resolve(query(...args.filter((arg) => typeof arg !== "function")));
}

function refusedStatement(text: string): InvalidRequestError {
  const about = { code: "transaction_control", outcome: "not_applied", retry: "never" } as const;
  const message = `an enlisted transaction cannot end by ${text.trim().slice(0, 80)}; send COMMIT alone`;
  return new InvalidRequestError(message, about);
}
