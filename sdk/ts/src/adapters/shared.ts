// What the adapters of ORMs have in common: where a statement runs (a client, a session, an open transaction), what cannot run
// there, and when a commit counts as answered. Imports nothing of the package but what its users import.
import {
  HighwaterError,
  type InteractiveTransaction,
  InvalidRequestError,
  type CallOptions,
  type CommitOptions,
  type DurableOptions,
  type Highwater,
  type Isolation,
  type SqlValue,
  type StatementResult,
  type Transaction,
  type TransactionOptions,
} from "../index.ts";

/** What runs transactions: a client, or a session of one. */
export type Client = Pick<Highwater, "transaction" | "begin" | "transact">;

/** Options for every transaction, unless it says otherwise. With `ack: "durable"` a commit resolves when it is durable. */
export type TransactionDefaults = Omit<TransactionOptions, "id" | "signal">;

/** What came out, and the promise for it. */
export interface Committed<R> {
  /** What the query, the queries or the body gave. */
  readonly result: R;
  /** With `token`, `durable()`, `onLost()`, `afterDurable()`. */
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

/** What one-shot statements have come to. */
export interface OneShotResult {
  readonly results: readonly StatementResult[];
  readonly transaction: Transaction;
}

/** Runs statements in the open transaction of the scope, or else as a transaction of their own. */
export async function run(
  scope: Scope,
  statements: readonly Statement[],
  own: CallOptions = {},
): Promise<readonly StatementResult[]> {
  const { open } = scope;
  if (open === null) return (await runAlone(scope, statements, own)).results;
  refuseSessionBound(statements, false);
  const { signal, timeout } = own;
  const results = await open.execute(statements, { signal, timeout } as CallOptions);
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
  // A replay has no results, and says so when it is asked for rows.
  if (results === null) void transaction.rows;
  const kept = results ?? [];
  refuseTruncated(kept, { outcome: "applied", transactionId: id });
  await acknowledge(transaction, options);
  return { results: kept, transaction };
}

/** How a transaction runs that was begun in the library's words. PostgreSQL has nothing weaker than "read committed". */
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

/** Commits, and with `ack: "durable"` resolves when it is durable, or rejects. */
export async function commit(scope: Scope, open: InteractiveTransaction): Promise<void> {
  // How it runs was said when it began.
  const { ack, level, maxWaitMs, maxDelayMs, timeout } = scope.options;
  const options = { ack, level, maxWaitMs, maxDelayMs, timeout } as CommitOptions;
  await acknowledge(await open.commit(options), scope.options);
}

/** Undoes what is not committed; a commit whose durability could not be waited for stays one. */
export async function rollback(open: InteractiveTransaction): Promise<void> {
  if (open.committed === undefined) await open.rollback();
}

/** The body, run as often as conflicts undo it, in a database that `enter` binds to the open transaction. */
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
  // It has committed: this only hands over its promise.
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

/** The service may have answered at the end of its patience: pending is neither durable nor lost, so the wait goes on here. */
async function acknowledge(
  transaction: Transaction,
  { ack, timeout }: Pick<TransactionOptions, "ack" | "timeout">,
): Promise<void> {
  if (ack === "durable") await transaction.durable({ timeout } as DurableOptions);
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
/** What a statement leaves in its session is gone with its transaction; alone, it would have no effect that anybody sees. */
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
