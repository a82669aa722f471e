// Durability for users of Drizzle: the promise of a query or of several in one transaction, bodies that run again after
// conflicts, and a database bound to a session or to an open transaction.
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

/** A query of Drizzle that is not awaited yet; also of `db.query` and of `db.execute`. */
export interface Query<R = unknown> {
  /** What its builders say of themselves, for the types. */
  readonly _: { readonly dialect: "pg"; readonly result: R };
}

/** As Drizzle's batches prepare a query; its published types leave it out. */
interface Runnable {
  _prepare(): {
    getQuery(): Statement;
    mapResult(response: unknown, isFromBatch: true): unknown;
    statement?(): Statement;
    invalidate?(): Promise<void>;
  };
}

/**
 * Runs a query, or several as one transaction in one round trip, and has its promise beside what `await` would give:
 * `const { result, transaction } = await committed(db, db.insert(order).values(values).returning())`.
 * Errors: those of `hw.transaction`, as they are; `result_too_large`: it has committed, and not all rows came; `session_bound` for a
 * statement that only a session gives sense; `invalid_options` inside a transaction that is open.
 *
 * @param db Made on this package's driver.
 * @param query It is not awaited yet.
 * @param queries As `query`; they run in their order, and their results are in it too.
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
  const { results, transaction } = await runAlone(scope, statements, options);
  await Promise.all(prepared.map(async (each) => each.invalidate?.()));
  const mapped = prepared.map((each, at) => each.mapResult(toRaw(results[at]), true));
  return { result: isList(work) ? mapped : mapped[0], transaction };
}

/**
 * As `hw.transact`, with a body of Drizzle: conflicts run it again, exactly one run takes effect, and its promise is beside what
 * it returned.
 * Errors: as `hw.transact`; `invalid_options` inside a transaction that is open.
 *
 * @param db Made on this package's driver.
 * @param body Gets a database inside the transaction; it may run several times.
 */
export async function transact<F extends FullSchema, R>(
  db: AnyDatabase<F>,
  body: (tx: HighwaterTransaction<F>) => Promise<R>,
  options: TransactOptions = {},
): Promise<Committed<R>> {
  return transactIn(sessionOf(db).scope, (open) => bind(db, open), { body, options });
}

/**
 * The same database, on a session of the client (or another client), or inside a transaction that is open. `options` are for
 * every transaction of it.
 * Errors: `invalid_options` where it is inside a transaction already.
 *
 * @param db Made on this package's driver.
 * @param open What `hw.begin` has given, or `transactionOf`: who has begun it commits it.
 * @param client A `Highwater`, or a session of one.
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
 * The transaction behind Drizzle's, also for `durable()` once it is committed: `return transactionOf(tx)` from the body.
 * Errors: `invalid_options` outside a transaction.
 *
 * @param tx What the body of a transaction was given.
 */
export function transactionOf<F extends FullSchema>(tx: AnyDatabase<F>): InteractiveTransaction {
  return openOf(sessionOf(tx).scope);
}

/**
 * Drizzle's migrator, for what `readMigrationFiles` of `drizzle-orm/migrator` has read. All that are missing run in one transaction.
 * Errors: those of `hw.begin` and of its transaction.
 *
 * @param db Made on this package's driver.
 * @param migrations In their order.
 * @param config As for Drizzle's own, without the folder: where it remembers what has run.
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
  throw usage("invalid_options", "the driver must be that of @highwater/sdk/drizzle");
}
