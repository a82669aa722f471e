// Drizzle's session. Single statements are transactions of their own, `transaction` is an
// interactive one, and a transaction inside that is a savepoint. Owns the mapping of results;
// Drizzle's own classes do the rest.
import * as library from "drizzle-orm";
import { entityKind, fillPlaceholders, type Logger, type Query, type SQL, sql } from "drizzle-orm";
import { type Cache } from "drizzle-orm/cache/core";
import {
  type PgDialect,
  PgPreparedQuery,
  type PgQueryResultHKT,
  PgSession,
  PgTransaction,
  type PgTransactionConfig,
  type PreparedQueryConfig,
} from "drizzle-orm/pg-core";
import { type InteractiveTransaction, type SqlValue } from "../../index.ts";
import {
  begin,
  commit,
  executionOptionsOf,
  openOf,
  rollback,
  run,
  type Scope,
  type Statement,
} from "../shared.ts";
import { type RawResult, type SelectedField, type Values } from "./values.ts";

/** Result of `db.execute`, and of writes without `returning`. */
export interface HighwaterQueryResult<R = Record<string, unknown>> {
  /** Command tag without the count: `SELECT`, `UPDATE`, ... */
  readonly command: string;
  /** Number of rows returned or changed. */
  readonly rowCount: number;
  /** Columns in order, each with its name and the OID of its type. */
  readonly fields: RawResult["fields"];
  /** Rows by column name. */
  readonly rows: R[];
}
/** Gives Drizzle's types the shape of a result. Applications seldom need it. */
export interface HighwaterQueryResultHKT extends PgQueryResultHKT {
  /** Result with rows of a type. */
  readonly type: HighwaterQueryResult<this["row"]>;
}

export type Tables = library.TablesRelationalConfig;
export type FullSchema = Record<string, unknown>;
export type RelationalSchema<T extends Tables> = library.RelationalSchemaConfig<T> | undefined;

/** Shared by a database and its transactions. */
export interface SessionContext {
  readonly dialect: PgDialect;
  readonly logger: Logger | undefined;
  readonly cache: Cache | undefined;
  readonly values: Values;
}

interface CacheMetadata {
  readonly type: "select" | "update" | "delete" | "insert";
  readonly tables: string[];
}
type RowsMapper<R> = (rows: unknown[][]) => R;
/** Used by all Drizzle drivers; its published types leave them out. */
interface Internals {
  queryWithCache<R>(text: string, params: unknown[], query: () => Promise<R>): Promise<R>;
  readonly joinsNotNullableMap?: Record<string, boolean>;
  readonly queryMetadata: CacheMetadata | undefined;
}
const { mapResultRow } = library as unknown as {
  readonly mapResultRow: (
    fields: readonly SelectedField[],
    row: unknown[],
    nullable: Record<string, boolean> | undefined,
  ) => unknown;
};

export class HighwaterPreparedQuery<T extends PreparedQueryConfig> extends PgPreparedQuery<T> {
  static override readonly [entityKind]: string = "HighwaterPreparedQuery";
  readonly #session: HighwaterSession<FullSchema, Tables>;
  readonly #fields: readonly SelectedField[] | undefined;
  readonly #mapRows: RowsMapper<T["execute"]> | undefined;

  constructor(
    session: HighwaterSession<FullSchema, Tables>,
    query: Query,
    parts: {
      fields: readonly SelectedField[] | undefined;
      mapRows: RowsMapper<T["execute"]> | undefined;
      metadata: CacheMetadata | undefined;
      cacheConfig: ConstructorParameters<typeof PgPreparedQuery>[3];
    },
  ) {
    super(query, session.parts.cache, parts.metadata, parts.cacheConfig);
    this.#session = session;
    this.#fields = parts.fields;
    this.#mapRows = parts.mapRows;
  }

  override async execute(placeholders: Record<string, unknown> = {}): Promise<T["execute"]> {
    return this.mapResult(await this.#run(placeholders));
  }

  async all(placeholders: Record<string, unknown> = {}): Promise<T["all"]> {
    return this.#session.parts.values.objects(await this.#run(placeholders));
  }

  async #run(placeholders: Record<string, unknown>): Promise<RawResult> {
    const statement = this.statement(placeholders);
    const internals = this as unknown as Internals;
    return internals.queryWithCache(statement.sql, [...(statement.params ?? [])], async () => {
      const [result] = await run(this.#session.scope, [statement]);
      return toRaw(result);
    });
  }

  statement(placeholders: Record<string, unknown> = {}): Statement {
    const { sql: text } = this.query;
    const params = fillPlaceholders(this.query.params, placeholders);
    this.#session.parts.logger?.logQuery(text, params);
    return { sql: text, params: params as readonly SqlValue[] };
  }

  override mapResult(response: unknown): T["execute"] {
    const result = response as RawResult;
    const { values } = this.#session.parts;
    if (this.#fields === undefined && this.#mapRows === undefined) {
      const { command, rowCount, fields } = result;
      return { command, rowCount, fields, rows: values.objects(result) };
    }
    const rows = values.arrays(result, this.#fields);
    if (this.#mapRows !== undefined) return this.#mapRows(rows);
    const { joinsNotNullableMap } = this as unknown as Internals;
    return rows.map((row) => mapResultRow(this.#fields ?? [], row, joinsNotNullableMap));
  }

  /** Invalidates the cache for the tables that a statement outside `execute` has changed. */
  async invalidate(): Promise<void> {
    const { cache } = this.#session.parts;
    const { type, tables } = (this as unknown as Internals).queryMetadata ?? {};
    if (type !== "select" && tables?.length) await cache?.onMutate({ tables });
  }
}

/** Keeps only the text of values, which a cache can store. */
export function toRaw(result: RawResult | undefined): RawResult {
  const { command = "", rowCount = 0, fields = [], values = [] } = result ?? {};
  return { command, rowCount, fields, values };
}

export class HighwaterSession<F extends FullSchema, T extends Tables> extends PgSession<
  HighwaterQueryResultHKT,
  F,
  T
> {
  static override readonly [entityKind]: string = "HighwaterSession";
  readonly parts: SessionContext;
  readonly schema: RelationalSchema<T>;
  readonly scope: Scope;

  constructor(parts: SessionContext, schema: RelationalSchema<T>, scope: Scope) {
    super(parts.dialect);
    this.parts = parts;
    this.schema = schema;
    this.scope = scope;
  }

  override prepareQuery<P extends PreparedQueryConfig = PreparedQueryConfig>(
    ...[query, fields, _name, _isArrayMode, mapRows, metadata, cacheConfig]: Parameters<
      PgSession["prepareQuery"]
    >
  ): HighwaterPreparedQuery<P> {
    const session = this as unknown as HighwaterSession<FullSchema, Tables>;
    const parts = { fields, mapRows, metadata, cacheConfig };
    return new HighwaterPreparedQuery<P>(session, query, parts);
  }

  override async count(query: SQL): Promise<number> {
    const { rows } = await this.execute<HighwaterQueryResult<{ count: string }>>(query);
    return Number(rows[0]?.count);
  }

  override async transaction<R>(
    body: (tx: HighwaterTransaction<F, T>) => Promise<R>,
    { isolationLevel: isolation, accessMode, deferrable }: PgTransactionConfig = {},
  ): Promise<R> {
    const open = await begin(this.scope, {
      ...executionOptionsOf({ isolation, accessMode }),
      ...(deferrable !== undefined && { deferrable }),
    });
    try {
      const result = await body(this.inside(open));
      await commit(this.scope, open);
      return result;
    } catch (error) {
      await rollback(open);
      throw error;
    }
  }

  inside(open: InteractiveTransaction): HighwaterTransaction<F, T> {
    const session = new HighwaterSession<F, T>(this.parts, this.schema, { ...this.scope, open });
    return new HighwaterTransaction<F, T>(this.parts.dialect, session, this.schema);
  }
}

/** Drizzle transaction for PostgreSQL, on an interactive transaction. */
export class HighwaterTransaction<
  F extends FullSchema = Record<string, never>,
  T extends Tables = library.ExtractTablesWithRelations<F>,
> extends PgTransaction<HighwaterQueryResultHKT, F, T> {
  static override readonly [entityKind]: string = "HighwaterTransaction";

  /**
   * Runs a transaction inside a transaction, as a savepoint: if the body throws, only its own work
   * is undone.
   * Errors: those of the body.
   *
   * @param body Function that receives the same transaction, one level deeper.
   */
  override async transaction<R>(body: (tx: HighwaterTransaction<F, T>) => Promise<R>): Promise<R> {
    const session = this._.session as HighwaterSession<F, T>;
    const open = openOf(session.scope);
    const depth = this.nestedIndex + 1;
    const savepoint = sql.raw(`SAVEPOINT sp${String(depth)}`);
    const tx = new HighwaterTransaction<F, T>(session.parts.dialect, session, session.schema, depth);
    await session.execute(savepoint);
    try {
      const result = await body(tx);
      await session.execute(sql`RELEASE ${savepoint}`);
      return result;
    } catch (error) {
      // A conflict has ended the whole transaction: there is no savepoint left, and the caller
      // needs this error.
      if (open.isOpen) await session.execute(sql`ROLLBACK TO ${savepoint}`);
      throw error;
    }
  }
}
