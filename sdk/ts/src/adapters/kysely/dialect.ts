// Kysely's dialect: PostgreSQL's in all but the driver and the lock of the migrations.
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

/** What a dialect is made of. */
export interface HighwaterDialectConfig {
  /** A `Highwater`, or a session of one. Closing it is up to who made it: `db.destroy()` does not. */
  readonly client: Client;
  /** For every transaction, unless it says otherwise: `{ isolation, ack, level, readOnly, … }`. */
  readonly transaction?: TransactionDefaults;
  /** What types decode to, by OID, in the place of the client's `types`. */
  readonly types?: TypeDecoders;
}

/**
 * The dialect: PostgreSQL's, and its queries are transactions of one round trip, or part of the one they are in.
 *
 * @example
 * ```ts
 * const db = new Kysely<{ note: { text: string } }>({ dialect: new HighwaterDialect({ client: hw }) });
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

  /** As `Dialect.createIntrospector` of Kysely, which calls it. */
  createIntrospector(db: Kysely<unknown>): DatabaseIntrospector {
    return new PostgresIntrospector(db);
  }
}

/**
 * Kysely takes the lock in a session, and then begins the transaction of the migrations there. Here only a transaction has a
 * session: so the lock is the transaction's first statement, and migrations without a transaction are refused.
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
