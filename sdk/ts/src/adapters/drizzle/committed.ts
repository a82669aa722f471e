// Durability for Drizzle: the promise of one query or of several in one transaction, bodies that
// run again after conflicts, and a database bound to a session or to an open transaction.
import { type ExtractTablesWithRelations } from "drizzle-orm";
import { type MigrationConfig, type MigrationMeta } from "drizzle-orm/migrator";
import { type PgDatabase, type PgDialect } from "drizzle-orm/pg-core";
import { type InteractiveTransaction, type TransactionOptions, type TransactOptions } from "../../index.ts";
import {
  type Client,
  type Committed,
  openOf,
  refuseNested,
  runAlone,
  type Statement,
  transactIn,
  type TransactionDefaults,
  usage,
} from "../shared.ts";
import { type HighwaterDatabase, makeDatabase } from "./driver.ts";
import {
  type FullSchema,
  type HighwaterQueryResultHKT,
  HighwaterSession,
  type HighwaterTransaction,
  toRaw,
} from "./session.ts";

type AnyDatabase<F extends FullSchema> = PgDatabase<
  HighwaterQueryResultHKT,
  F,
  ExtractTablesWithRelations<F>
>;
type SessionOf<F extends FullSchema> = HighwaterSession<F, ExtractTablesWithRelations<F>>;

/** A Drizzle query that is not awaited yet, also one of `db.query` or `db.execute`. */
export interface Query<R = unknown> {
  /** Type information of Drizzle's builders. */
  readonly _: { readonly dialect: "pg"; readonly result: R };
}

/** The way in which Drizzle's batches prepare a query. Its published types leave it out. */
interface Runnable {
  _prepare(): {
    getQuery(): Statement;
    mapResult(response: unknown, isFromBatch: true): unknown;
    statement?(): Statement;
    invalidate?(): Promise<void>;
  };
}

/**
 * Runs a query, or several as one transaction in one round trip. Resolves with the result of
 * `await` and the committed transaction:
 * `const { result, transaction } = await committed(db, db.insert(order).values(values))`.
 * Errors: those of `hw.transaction`, unchanged. `result_too_large` if the transaction has committed
 * but not all rows were returned. `session_bound` for a statement that only makes sense in a
 * session. `invalid_options` inside an open transaction, or without a query.
 *
 * @param db Database with this package's driver.
 * @param query Query that is not awaited yet.
 * @param queries Queries that are not awaited yet. They run in this order, and the results have the
 * same order.
 */
export async function committed<F extends FullSchema, R>(
  db: AnyDatabase<F>,
  query: Query<R>,
  options?: TransactionOptions,
): Promise<Committed<R>>;
export async function committed<F extends FullSchema, const Q extends readonly Query[]>(
  db: AnyDatabase<F>,
  queries: Q,
  options?: TransactionOptions,
): Promise<Committed<{ -readonly [K in keyof Q]: Q[K]["_"]["result"] }>>;
export async function committed<F extends FullSchema>(
  db: AnyDatabase<F>,
  work: Query | readonly Query[],
  options: TransactionOptions = {},
): Promise<Committed<unknown>> {
  const { scope } = sessionOf(db);
  const queries = isList(work) ? work : [work];
  if (queries.length === 0) throw usage("invalid_options", "pass at least one query");
  const prepared = queries.map((query) => (query as unknown as Runnable)._prepare());
  const statements = prepared.map((each) => each.statement?.() ?? each.getQuery());
  const invalidate = (): Promise<unknown> => Promise.all(prepared.map(async (each) => each.invalidate?.()));
  const { results, transaction } = await runAlone(scope, statements, options).catch(
    async (error: unknown) => {
      // The transaction may have committed.
      await invalidate().catch(() => undefined);
      throw error;
    },
  );
  await invalidate();
  const mapped = prepared.map((each, at) => each.mapResult(toRaw(results[at]), true));
  return { result: isList(work) ? mapped : mapped[0], transaction };
}

/**
 * Like `hw.transact`, with a Drizzle database for the body: conflicts run the body again, and
 * exactly one run takes effect. Resolves with the result of the body and the committed transaction.
 * Errors: those of `hw.transact`. `invalid_options` inside an open transaction.
 *
 * @param db Database with this package's driver.
 * @param body Function that receives a database inside the transaction. It may run several times.
 */
export async function transact<F extends FullSchema, R>(
  db: AnyDatabase<F>,
  body: (tx: HighwaterTransaction<F>) => Promise<R>,
  options: TransactOptions = {},
): Promise<Committed<R>> {
  return transactIn(sessionOf(db).scope, (open) => bind(db, open), { body, options });
}

/**
 * Returns the same database on a session of the client, on another client, or inside an open
 * transaction. `options` are the defaults of its transactions.
 * Errors: `invalid_options` if the database is already inside a transaction.
 *
 * @param db Database with this package's driver.
 * @param open Transaction from `hw.begin` or `transactionOf`. The code that began it commits it.
 * @param client A `Highwater` client, or a session of one.
 */
export function bind<F extends FullSchema>(
  db: AnyDatabase<F>,
  open: InteractiveTransaction,
): HighwaterTransaction<F>;
export function bind<F extends FullSchema>(
  db: AnyDatabase<F>,
  client: Client,
  options?: TransactionDefaults,
): HighwaterDatabase<F>;
export function bind<F extends FullSchema>(
  db: AnyDatabase<F>,
  target: InteractiveTransaction | Client,
  options?: TransactionDefaults,
): HighwaterTransaction<F> | HighwaterDatabase<F> {
  const session = sessionOf(db);
  refuseNested(session.scope);
  if ("commit" in target) return session.inside(target);
  const { parts, schema, scope } = session;
  const bound = { client: target, options: { ...scope.options, ...options }, open: null };
  return makeDatabase<F>(parts, schema, bound);
}

/**
 * Returns the interactive transaction behind a Drizzle transaction, for example for `durable()`
 * after the commit: `return transactionOf(tx)` in the body.
 * Errors: `invalid_options` outside a transaction.
 *
 * @param tx Transaction that the body received.
 */
export function transactionOf<F extends FullSchema>(tx: AnyDatabase<F>): InteractiveTransaction {
  return openOf(sessionOf(tx).scope);
}

/**
 * Runs Drizzle's migrations, as `readMigrationFiles` of `drizzle-orm/migrator` reads them. All
 * missing migrations run in one transaction.
 * Errors: those of `hw.begin` and of its transaction.
 *
 * @param db Database with this package's driver.
 * @param migrations Migrations in their order.
 * @param config Configuration of Drizzle's own migrator without the folder: where it records what
 * has run.
 */
export async function migrate<F extends FullSchema>(
  db: AnyDatabase<F>,
  migrations: MigrationMeta[],
  config: Omit<MigrationConfig, "migrationsFolder"> = {},
): Promise<void> {
  const session = sessionOf(db);
  await session.parts.dialect.migrate(migrations, session as unknown as MigrationSession, {
    ...config,
    migrationsFolder: "",
  });
}
type MigrationSession = Parameters<PgDialect["migrate"]>[1];

function isList(work: Query | readonly Query[]): work is readonly Query[] {
  return Array.isArray(work);
}

function sessionOf<F extends FullSchema>(db: AnyDatabase<F>): SessionOf<F> {
  const { session } = db._;
  if (session instanceof HighwaterSession) return session as SessionOf<F>;
  throw usage("invalid_options", "the driver must be @highwater/sdk/drizzle");
}
