// Drizzle's database on a client: what `drizzle(hw)` creates from the configuration that all
// Drizzle drivers take.
import {
  createTableRelationsHelpers,
  DefaultLogger,
  type DrizzleConfig,
  entityKind,
  type ExtractTablesWithRelations,
  extractTablesRelationalConfig,
} from "drizzle-orm";
import { PgDatabase, PgDialect } from "drizzle-orm/pg-core";
import { type TypeDecoder } from "../../index.ts";
import { type Client, type Scope, type TransactionDefaults } from "../shared.ts";
import {
  type FullSchema,
  type HighwaterQueryResultHKT,
  HighwaterSession,
  type SessionContext,
} from "./session.ts";
import { Values } from "./values.ts";

/** Configuration of `drizzle`: that of all Drizzle drivers, plus the options of this one. */
export interface HighwaterDrizzleConfig<
  F extends FullSchema = Record<string, never>,
> extends DrizzleConfig<F> {
  /** Default options of every transaction: `{ isolation, ack, level, readOnly, … }`. */
  readonly transaction?: TransactionDefaults;
  /** Decoders by type OID; Drizzle's columns receive their results. */
  readonly types?: Readonly<Record<number, TypeDecoder>>;
}

/**
 * Drizzle database for PostgreSQL on Highwater. A query is a transaction of one round trip, or part
 * of the transaction that it runs in.
 */
export class HighwaterDatabase<F extends FullSchema = Record<string, never>> extends PgDatabase<
  HighwaterQueryResultHKT,
  F
> {
  static override readonly [entityKind]: string = "HighwaterDatabase";
}

/**
 * Creates a Drizzle database on a client: `drizzle(hw, { schema })` or
 * `drizzle({ client: hw, schema })`. The client is a `Highwater` client or a session of one; close
 * it yourself.
 *
 * @param params The client and a configuration, or a configuration that contains the client.
 * @example
 * ```ts
 * const note = pgTable("note", { text: text() });
 * const db = drizzle(hw);
 * const { transaction } = await committed(db, db.insert(note).values({ text: "hello" }));
 * await transaction.durable({ level: "region" });
 * console.log(await db.select().from(note));
 * ```
 */
export function drizzle<F extends FullSchema = Record<string, never>, C extends Client = Client>(
  ...params:
    | [client: C, config?: HighwaterDrizzleConfig<F>]
    | [config: HighwaterDrizzleConfig<F> & { readonly client: C }]
): HighwaterDatabase<F> & { $client: C } {
  const [first, second] = params;
  const { client, ...config } = "client" in first ? first : { ...second, client: first };
  const logger = config.logger === true ? new DefaultLogger() : config.logger || undefined;
  const parts = {
    dialect: new PgDialect(config.casing && { casing: config.casing }),
    logger,
    cache: config.cache,
    values: new Values(config.types),
  };
  const scope = { client, options: config.transaction ?? {}, open: null };
  const db = makeDatabase<F>(parts, schemaOf<F>(config.schema), scope);
  const { cache } = config;
  const invalidate = cache && ((mutation: Parameters<typeof cache.onMutate>[0]) => cache.onMutate(mutation));
  return Object.assign(db, { $client: client }, invalidate && { $cache: { invalidate } });
}

type Relational<F extends FullSchema> = HighwaterSession<F, ExtractTablesWithRelations<F>>["schema"];

function schemaOf<F extends FullSchema>(fullSchema: F | undefined): Relational<F> {
  if (fullSchema === undefined) return undefined;
  const { tables, tableNamesMap } = extractTablesRelationalConfig<ExtractTablesWithRelations<F>>(
    fullSchema,
    createTableRelationsHelpers,
  );
  return { fullSchema, schema: tables, tableNamesMap };
}

export function makeDatabase<F extends FullSchema>(
  parts: SessionContext,
  schema: Relational<F>,
  scope: Scope,
): HighwaterDatabase<F> {
  const session = new HighwaterSession(parts, schema, scope);
  return new HighwaterDatabase<F>(parts.dialect, session as never, schema);
}
