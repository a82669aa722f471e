// Durability for Kysely: the promise of one query or of several in one transaction, bodies that run
// again after conflicts, and a database bound to a session or to an open transaction.
import {
  Kysely,
  type KyselyPlugin,
  type KyselyProps,
  type QueryExecutorProvider,
  Transaction as KyselyTransaction,
} from "kysely";
import {
  type InteractiveTransaction,
  type StatementResult,
  type TransactionOptions,
  type TransactOptions,
} from "../../index.ts";
import {
  type OneShotResult,
  type Client,
  type Committed,
  openOf,
  refuseNested,
  runAlone,
  type Scope,
  type Statement,
  transactIn,
  type TransactionDefaults,
  usage,
} from "../shared.ts";
import { HighwaterDialect } from "./dialect.ts";
import { type Batch, BATCH, connectionOf, ours } from "./driver.ts";

/** A Kysely query that is not executed yet: a builder or a `sql` fragment. */
export interface Query<R = unknown> {
  /** Like `SelectQueryBuilder.withPlugin` of Kysely. */
  withPlugin(plugin: KyselyPlugin): { execute(...options: never[]): Promise<R> };
}
type ResultOf<Q> = Q extends Query<infer R> ? R : never;

/**
 * Executes a query, or several as one transaction in one round trip. Resolves with the result of
 * `execute()` and the committed transaction:
 * `const { result, transaction } = await committed(db, db.insertInto("order").values(order))`.
 * Errors: those of `hw.transaction`, unchanged. `result_too_large` if the transaction has committed
 * but not all rows were returned. `session_bound` for a statement that only makes sense in a
 * session. `invalid_options` inside an open transaction, or without a query.
 *
 * @param db Database with this package's dialect.
 * @param query Query that is not executed yet.
 * @param queries Queries that are not executed yet. They run in this order, and the results have
 * the same order.
 */
export async function committed<R>(
  db: QueryExecutorProvider,
  query: Query<R>,
  options?: TransactionOptions,
): Promise<Committed<R>>;
export async function committed<const Q extends readonly Query[]>(
  db: QueryExecutorProvider,
  queries: Q,
  options?: TransactionOptions,
): Promise<Committed<{ -readonly [K in keyof Q]: ResultOf<Q[K]> }>>;
export async function committed(
  db: QueryExecutorProvider,
  work: Query | readonly Query[],
  options: TransactionOptions = {},
): Promise<Committed<unknown>> {
  const { scope } = await connectionOf(db);
  refuseNested(scope);
  const queries = isList(work) ? work : [work];
  if (queries.length === 0) throw usage("invalid_options", "pass at least one query");
  const gathered = new Gathered(queries.length, (statements) => runAlone(scope, statements, options));
  // Through Kysely, so that its plugins, logging and builders treat the result as usual.
  const results = await Promise.all(queries.map((query, at) => execute(query, gathered.plugin(at), db)));
  const { transaction } = await gathered.answer;
  return { result: isList(work) ? results : results[0], transaction };
}

/**
 * Like `hw.transact`, with a Kysely database for the body: conflicts run the body again, and
 * exactly one run takes effect. Resolves with the result of the body and the committed transaction.
 * Errors: those of `hw.transact`. `invalid_options` inside an open transaction.
 *
 * @param db Database with this package's dialect.
 * @param body Function that receives a database inside the transaction. It may run several times.
 */
export async function transact<DB, R>(
  db: Kysely<DB>,
  body: (trx: KyselyTransaction<DB>) => Promise<R>,
  options: TransactOptions = {},
): Promise<Committed<R>> {
  return transactIn((await connectionOf(db)).scope, (open) => bind(db, open), { body, options });
}

/**
 * Returns the same database on a session of the client, on another client, or inside an open
 * transaction. `options` are the defaults of its transactions.
 * Errors: `invalid_options` if the database is already inside a transaction.
 *
 * @param db Database with this package's dialect.
 * @param open Transaction from `hw.begin` or `transactionOf`. The code that began it commits it.
 * @param client A `Highwater` client, or a session of one.
 */
export function bind<DB>(db: Kysely<DB>, open: InteractiveTransaction): KyselyTransaction<DB>;
export function bind<DB>(db: Kysely<DB>, client: Client, options?: TransactionDefaults): Kysely<DB>;
export function bind<DB>(
  db: Kysely<DB>,
  target: InteractiveTransaction | Client,
  options?: TransactionDefaults,
): Kysely<DB> {
  const inner = db.getExecutor();
  const enter = (scope: Scope): Scope => {
    refuseNested(scope);
    if ("commit" in target) return { ...scope, open: target };
    return { client: target, options: { ...scope.options, ...options }, open: null };
  };
  const executor = inner.withConnectionProvider({
    // Each call gets a new connection, which keeps the logging of the original database.
    provideConnection: (consumer, own) =>
      inner.provideConnection((connection) => {
        const entered = ours(connection);
        entered.scope = enter(entered.scope);
        return consumer(entered);
      }, own),
  });
  const client = "commit" in target ? NOBODY : target;
  const dialect = new HighwaterDialect({ client });
  const props: KyselyProps = { config: { dialect }, dialect, driver: dialect.createDriver(), executor };
  return "commit" in target ? new KyselyTransaction<DB>(props) : new Kysely<DB>(props);
}

/**
 * Returns the interactive transaction behind a Kysely transaction, for example for `durable()`
 * after the commit: `return transactionOf(trx)` in the body.
 * Errors: `invalid_options` outside a transaction.
 *
 * @param trx Transaction that the body received.
 */
export async function transactionOf(trx: QueryExecutorProvider): Promise<InteractiveTransaction> {
  return openOf((await connectionOf(trx)).scope);
}

/** A transaction has no client of its own: its executor uses that of the original database. */
const NOBODY = {} as Client;

function isList(work: Query | readonly Query[]): work is readonly Query[] {
  return Array.isArray(work);
}

function execute(query: Query, plugin: KyselyPlugin, db: QueryExecutorProvider): Promise<unknown> {
  const marked = query.withPlugin(plugin) as unknown as {
    readonly isRawBuilder?: true;
    execute(db?: QueryExecutorProvider): Promise<unknown>;
  };
  // A fragment is not tied to a database; a builder is.
  return marked.isRawBuilder ? marked.execute(db) : marked.execute();
}

/** Collects the statements of all queries, then runs them in order as one transaction. */
class Gathered {
  readonly answer: Promise<OneShotResult>;
  readonly #statements = new Map<number, Statement>();
  readonly #size: number;
  #settle: (answer: Promise<OneShotResult>) => void = () => undefined;
  readonly #run: (statements: readonly Statement[]) => Promise<OneShotResult>;

  constructor(size: number, work: (statements: readonly Statement[]) => Promise<OneShotResult>) {
    this.#size = size;
    this.#run = work;
    this.answer = new Promise((resolve) => (this.#settle = resolve));
  }

  plugin(at: number): KyselyPlugin {
    const batch: Batch = { add: (statement) => this.#add(at, statement) };
    return {
      transformQuery: ({ node }) => ({ ...node, [BATCH]: batch }),
      transformResult: async ({ result }) => result,
    };
  }

  async #add(at: number, statement: Statement): Promise<StatementResult> {
    this.#statements.set(at, statement);
    if (this.#statements.size === this.#size) {
      const ordered = [...this.#statements].sort(([a], [b]) => a - b);
      this.#settle(this.#run(ordered.map(([, each]) => each)));
    }
    const { results } = await this.answer;
    return results[at] as StatementResult;
  }
}
