// Shared by the adapters of ORMs: where a statement runs (a client, a session, an open
// transaction), what cannot run there, and when a commit is answered. Imports only the package's
// public entry.
import {
  HighwaterError,
  type InteractiveTransaction,
  InvalidRequestError,
  type CallOptions,
  type CommitOptions,
  type Highwater,
  type Isolation,
  type SqlValue,
  type StatementResult,
  type Transaction,
  type TransactionOptions,
} from "../index.ts";

/** A client that runs transactions, or a session of one. */
export type Client = Pick<Highwater, "transaction" | "begin" | "transact">;

/** Default options of every transaction. */
export type TransactionDefaults = Omit<TransactionOptions, "id" | "signal">;

/** A result and the transaction that committed it. */
export interface Committed<R> {
  /** Result of the query, of the queries or of the body. */
  readonly result: R;
  /** The committed transaction, with `token`, `durable()`, `onLost()` and `afterDurable()`. */
  readonly transaction: Transaction;
}

/** Where statements run. */
export interface Scope {
  readonly client: Client;
  readonly options: TransactionDefaults;
  readonly open: InteractiveTransaction | null;
}

export interface Statement {
  readonly sql: string;
  readonly params?: readonly SqlValue[];
}

/** The outcome of one-shot statements. */
export interface OneShotResult {
  readonly results: readonly StatementResult[];
  readonly transaction: Transaction;
}

/** Runs statements in the scope's open transaction, otherwise as a transaction of their own. */
export async function run(
  scope: Scope,
  statements: readonly Statement[],
  own: CallOptions = {},
): Promise<readonly StatementResult[]> {
  const { open } = scope;
  if (open === null) return (await runAlone(scope, statements, own)).results;
  refuseSessionBound(statements, false);
  const { signal, timeoutMs } = own;
  const results = await open.execute(statements, { signal, timeoutMs } as CallOptions);
  refuseTruncated(results, { outcome: "not_applied", transactionId: open.id, open: open.isOpen });
  return results;
}

/** Runs statements as one transaction, in one request. */
export async function runAlone(
  scope: Scope,
  statements: readonly Statement[],
  own: TransactionOptions = {},
): Promise<OneShotResult> {
  refuseNested(scope);
  refuseSessionBound(statements, statements.length === 1);
  const options = { ...scope.options, ...own };
  const transaction = await scope.client.transaction(statements, options);
  const { id, results } = transaction;
  // A replay has no results, and throws when asked for rows.
  if (results === null) void transaction.rows;
  const kept = results ?? [];
  refuseTruncated(kept, { outcome: "applied", transactionId: id });
  return { results: kept, transaction };
}

/** Execution options from a library's settings. PostgreSQL's weakest level is "read committed". */
export function executionOptionsOf(config: {
  readonly isolation: string | undefined;
  readonly accessMode: string | undefined;
}): TransactionDefaults {
  const { isolation, accessMode } = config;
  const level = isolation === "read uncommitted" ? "read committed" : isolation;
  return {
    ...(level && { isolation: level as Isolation }),
    ...(accessMode && { readOnly: accessMode === "read only" }),
  };
}

/** Begins a transaction with the execution options of the scope. */
export async function begin(scope: Scope, own: TransactionDefaults): Promise<InteractiveTransaction> {
  refuseNested(scope);
  return scope.client.begin({ ...scope.options, ...own });
}

/** Commits, as the scope's options say. */
export async function commit(scope: Scope, open: InteractiveTransaction): Promise<void> {
  // The execution options were set when it began.
  const { ack, level, maxWaitMs, onTimeout, maxDelayMs, timeoutMs } = scope.options;
  await open.commit({ ack, level, maxWaitMs, onTimeout, maxDelayMs, timeoutMs } as CommitOptions);
}

/** Rolls back what is not committed. A commit stays, even if the wait for its durability failed. */
export async function rollback(open: InteractiveTransaction): Promise<void> {
  if (open.committed === undefined) await open.rollback();
}

/** Runs the body, again after conflicts, in a database that `enter` binds to the transaction. */
export async function transactIn<D, R>(
  scope: Scope,
  enter: (open: InteractiveTransaction) => D,
  { body, options = {} }: { body: (db: D) => Promise<R>; options?: Parameters<Client["transact"]>[1] },
): Promise<Committed<R>> {
  refuseNested(scope);
  const { result, open } = await scope.client.transact(
    async (tx) => ({ result: await body(enter(tx)), open: tx }),
    { ...scope.options, ...options },
  );
  // It has already committed: this only returns its transaction.
  return { result, transaction: await open.commit() };
}

export function refuseNested({ open }: Scope): void {
  if (open !== null)
    throw usage("invalid_options", "not allowed inside a transaction; use the callback's `tx`");
}

export function openOf({ open }: Scope): InteractiveTransaction {
  if (open === null) throw usage("invalid_options", "not inside a transaction; pass the callback's `tx`");
  return open;
}

export function usage(code: string, message: string): InvalidRequestError {
  return new InvalidRequestError(message, { code, outcome: "not_applied", retry: "never" });
}

function refuseTruncated(
  results: readonly StatementResult[],
  about: { outcome: "applied" | "not_applied"; transactionId: string; open?: boolean },
): void {
  const statement = results.findIndex(({ truncated }) => truncated);
  if (statement < 0) return;
  const message = `statement ${String(statement)} has more rows than the service returns; read fewer`;
  throw new HighwaterError(message, { code: "result_too_large", retry: "never", statement, ...about });
}

const LISTENS = /^\s*(?:un)?listen\b/i;
/** Statements that only change their session, which ends with the transaction. */
const LEAVES =
  /^\s*(?:set(?!\s+(?:local|transaction|constraints)\b)|reset|prepare|deallocate|load|declare)\b|\bpg_(?:try_)?advisory_lock|^\s*create\s+(?:local\s+|global\s+)?temp/i;

function refuseSessionBound(statements: readonly Statement[], isAlone: boolean): void {
  for (const { sql } of statements)
    if (LISTENS.test(sql) || (isAlone && LEAVES.test(sql)))
      throw usage(
        "session_bound",
        `a session ends with its transaction, so this has no effect: ${sql.slice(0, 80)}`,
      );
}
