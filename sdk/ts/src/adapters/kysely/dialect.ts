// The Kysely dialect: PostgreSQL's, except for the driver and the lock of migrations.
import {
  type DatabaseIntrospector,
  type Dialect,
  type DialectAdapter,
  type Driver,
  type Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type QueryCompiler,
} from "kysely";
import { type TypeDecoders } from "../../index.ts";
import { type Client, type TransactionDefaults } from "../shared.ts";
import { connectionOf, HighwaterDriver, lockMigrations } from "./driver.ts";

/** Configuration of `HighwaterDialect`. */
export interface HighwaterDialectConfig {
  /** A `Highwater` client, or a session of one. Close it yourself: `db.destroy()` does not. */
  readonly client: Client;
  /** Default options of every transaction: `{ isolation, ack, level, readOnly, … }`. */
  readonly transaction?: TransactionDefaults;
  /** Decoders by type OID, used instead of the client's `types`. */
  readonly types?: TypeDecoders;
}

/**
 * Kysely dialect for PostgreSQL on Highwater. A query is a transaction of one round trip, or part
 * of the transaction that it runs in.
 *
 * @example
 * ```ts
 * const dialect = new HighwaterDialect({ client: hw });
 * const db = new Kysely<{ note: { text: string } }>({ dialect });
 * const { transaction } = await committed(db, db.insertInto("note").values({ text: "hello" }));
 * await transaction.durable({ level: "region" });
 * console.log(await db.selectFrom("note").selectAll().execute());
 * ```
 */
export class HighwaterDialect implements Dialect {
  readonly #config: HighwaterDialectConfig;

  constructor(config: HighwaterDialectConfig) {
    this.#config = config;
  }

  /** Called by Kysely. */
  createDriver(): Driver {
    const { client, transaction = {}, types } = this.#config;
    return new HighwaterDriver({ client, options: transaction, open: null }, types);
  }

  /** Called by Kysely. */
  createQueryCompiler(): QueryCompiler {
    return new PostgresQueryCompiler();
  }

  /** Called by Kysely. */
  createAdapter(): DialectAdapter {
    return new HighwaterAdapter();
  }

  /** Like `Dialect.createIntrospector` of Kysely. Called by Kysely. */
  createIntrospector(db: Kysely<unknown>): DatabaseIntrospector {
    return new PostgresIntrospector(db);
  }
}

/**
 * Kysely takes the lock in a session and then begins the transaction of the migrations there. Here
 * only a transaction has a session. The lock is therefore the transaction's first statement, and
 * migrations without a transaction are refused.
 */
class HighwaterAdapter extends PostgresAdapter {
  override async acquireMigrationLock(db: Kysely<unknown>): Promise<void> {
    const connection = await connectionOf(db);
    const { open } = connection.scope;
    connection.locksMigrations = true;
    if (open !== null) await lockMigrations(open);
  }

  override async releaseMigrationLock(db: Kysely<unknown>): Promise<void> {
    (await connectionOf(db)).locksMigrations = false;
  }
}
