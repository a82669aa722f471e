// Durability for users of Kysely: the promise of a query or of several in one transaction, bodies that run again after
// conflicts, and a database bound to a session or to an open transaction.
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

/** A query of Kysely that is not executed yet: a builder, or a `sql` fragment. */
export interface Query<R = unknown> {
  /** As `SelectQueryBuilder.withPlugin` of Kysely. */
  withPlugin(plugin: KyselyPlugin): { execute(...options: never[]): Promise<R> };
}
type ResultOf<Q> = Q extends Query<infer R> ? R : never;

/**
 * Executes a query, or several as one transaction in one round trip, and has its promise beside what `execute()` would give:
 * `const { result, transaction } = await committed(db, db.insertInto("order").values(order).returningAll())`.
 * Errors: those of `hw.transaction`, as they are; `result_too_large`: it has committed, and not all rows came; `session_bound` for a
 * statement that only a session gives sense; `invalid_options` inside a transaction that is open.
 *
 * @param db Made on this package's dialect.
 * @param query It is not executed yet.
 * @param queries As `query`; they run in their order, and their results are in it too.
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
  // Through Kysely, so that its plugins, its logging and its builders make of the result what they always make.
  const results = await Promise.all(queries.map((query, at) => execute(query, gathered.plugin(at), db)));
  const { transaction } = await gathered.answer;
  return { result: isList(work) ? results : results[0], transaction };
}

/**
 * As `hw.transact`, with a body of Kysely: conflicts run it again, exactly one run takes effect, and its promise is beside what
 * it returned.
 * Errors: as `hw.transact`; `invalid_options` inside a transaction that is open.
 *
 * @param db Made on this package's dialect.
 * @param body Gets a database inside the transaction; it may run several times.
 */
export async function transact<DB, R>(
  db: Kysely<DB>,
  body: (trx: KyselyTransaction<DB>) => Promise<R>,
  options: TransactOptions = {},
): Promise<Committed<R>> {
  return transactIn((await connectionOf(db)).scope, (open) => bind(db, open), { body, options });
}

/**
 * The same database, on a session of the client (or another client), or inside a transaction that is open. `options` are for
 * every transaction of it.
 * Errors: `invalid_options` where it is inside a transaction already.
 *
 * @param db Made on this package's dialect.
 * @param open What `hw.begin` has given, or `transactionOf`: who has begun it commits it.
 * @param client A `Highwater`, or a session of one.
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
    // The connection is a new one for each call, and keeps the logging of the database that it came from.
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
 * The transaction behind Kysely's, also for `durable()` once it is committed: `return transactionOf(trx)` from the body.
 * Errors: `invalid_options` outside a transaction.
 *
 * @param trx What the body of a transaction was given.
 */
export async function transactionOf(trx: QueryExecutorProvider): Promise<InteractiveTransaction> {
  return openOf((await connectionOf(trx)).scope);
}

/** A transaction has no client of its own: its executor finds the one of the database it came from. */
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

/** Waits for the statements of all queries, and runs them as one transaction, in the order of the queries. */
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
