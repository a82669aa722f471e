// The Kysely driver. A connection is a place where statements run, not a socket. Owns what Kysely's
// calls mean here, including the lock of migrations: elsewhere it belongs to a session, here to a
// transaction.
import {
  type CompiledQuery,
  createQueryId,
  type DatabaseConnection,
  type Driver,
  IdentifierNode,
  type QueryCompiler,
  type QueryExecutorProvider,
  type QueryResult,
  RawNode,
  type RootOperationNode,
  type TransactionSettings,
} from "kysely";
import {
  decodeValue,
  type InteractiveTransaction,
  type SqlValue,
  type StatementResult,
  type TypeDecoders,
} from "../../index.ts";
import {
  begin,
  commit,
  executionOptionsOf,
  rollback,
  run,
  type Scope,
  type Statement,
  usage,
} from "../shared.ts";

/** Kysely's own number: a migrator that connects to the database directly waits too. */
const MIGRATION_LOCK = "3853314791062309107";

/** Collects statements that become one transaction. A query carries it to its connection. */
export interface Batch {
  add(statement: Statement): Promise<StatementResult>;
}
/** Key on a query's root node, the only part that Kysely passes from plugin to connection. */
export const BATCH = Symbol("batch");

interface CallOptions {
  readonly signal?: AbortSignal;
}

/** What streams have to know of their transaction, which may be bound to several connections. */
interface Streams {
  cursors: number;
  /** Returns to a savepoint. Each ends the cursors that are younger than its savepoint. */
  rewinds: number;
}
const streams = new WeakMap<InteractiveTransaction, Streams>();
const REWINDS = /^\s*rollback\b/i;
const CHANGES = /^(?:Insert|Update|Delete|Merge)QueryNode$/;

function streamsOf(open: InteractiveTransaction): Streams {
  const found = streams.get(open) ?? { cursors: 0, rewinds: 0 };
  streams.set(open, found);
  return found;
}

export class HighwaterConnection implements DatabaseConnection {
  scope: Scope;
  /** Whether the next transaction begins with the lock of migrations. */
  locksMigrations = false;
  readonly #types: TypeDecoders | undefined;

  constructor(scope: Scope, types: TypeDecoders | undefined) {
    this.scope = scope;
    this.#types = types;
  }

  async executeQuery<R>(query: CompiledQuery, options: CallOptions = {}): Promise<QueryResult<R>> {
    if (this.locksMigrations && this.scope.open === null)
      throw usage("session_bound", "the migration lock needs a transaction");
    const { [BATCH]: batch } = query.query as RootOperationNode & { [BATCH]?: Batch };
    const statement = statementOf(query);
    if (batch !== undefined) return this.#result(await batch.add(statement));
    const { open } = this.scope;
    if (open !== null && REWINDS.test(statement.sql)) streamsOf(open).rewinds += 1;
    const [result] = await run(this.scope, [statement], options);
    return this.#result(result);
  }

  /**
   * Streams rows through a cursor, in the open transaction or in one of its own. A statement that
   * changes rows runs as a whole before its first row is returned.
   */
  async *streamQuery<R>(
    query: CompiledQuery,
    chunkSize: number,
    options: CallOptions = {},
  ): AsyncIterableIterator<QueryResult<R>> {
    if (!isRead(query.query)) {
      yield await this.executeQuery<R>(query, options);
      return;
    }
    const { scope } = this;
    const open = scope.open ?? (await begin(scope, {}));
    const own = streamsOf(open);
    const { rewinds } = own;
    const cursor = `highwater_${String((own.cursors += 1))}`;
    const { sql, params = [] } = statementOf(query);
    const fetch = { sql: `FETCH ${String(Math.max(1, Math.trunc(chunkSize)))} FROM ${cursor}` };
    let statements: Statement[] = [{ sql: `DECLARE ${cursor} NO SCROLL CURSOR FOR ${sql}`, params }, fetch];
    let hasFailed = false;
    try {
      for (let isMore = true; isMore; statements = [fetch]) {
        const result = (await run({ ...scope, open }, statements, options)).at(-1);
        isMore = (result?.rowCount ?? 0) > 0;
        if (isMore) yield this.#result(result);
      }
    } catch (error) {
      hasFailed = true;
      if (scope.open === null) await rollback(open);
      throw error;
    } finally {
      // Also if the caller stops early. Closing a cursor that has ended would fail the transaction.
      const mayClose = open.isOpen && own.rewinds === rewinds;
      if (!hasFailed && scope.open === null) await commit(scope, open);
      else if (!hasFailed && mayClose) await run(scope, [{ sql: `CLOSE ${cursor}` }], options);
    }
  }

  async begin({ isolationLevel, accessMode }: TransactionSettings): Promise<void> {
    // A snapshot from before the lock would not show what the previous migrator did.
    const isolation = isolationLevel ?? (this.locksMigrations ? "read committed" : undefined);
    const open = await begin(this.scope, executionOptionsOf({ isolation, accessMode }));
    this.scope = { ...this.scope, open };
    if (this.locksMigrations) await lockMigrations(open);
  }

  async end(how: (scope: Scope, open: InteractiveTransaction) => Promise<void>): Promise<void> {
    const { open } = this.scope;
    if (open === null) return;
    await how(this.scope, open);
    this.scope = { ...this.scope, open: null };
  }

  #result<R>(result: StatementResult | undefined): QueryResult<R> {
    if (result === undefined) return { rows: [] };
    const { command, rowCount, fields, values } = result;
    const types = this.#types;
    const rows =
      types === undefined
        ? [...result.rows]
        : values.map((row) =>
            Object.fromEntries(
              fields.map(({ name, oid }, at) => [name, decodeValue(row[at] ?? null, oid, types)]),
            ),
          );
    const changes = /^(?:INSERT|UPDATE|DELETE|MERGE)/.test(command);
    return { rows: rows as R[], ...(changes && { numAffectedRows: BigInt(rowCount) }) };
  }
}

/** A SELECT that changes nothing; one with a CTE that does can have no cursor. */
function isRead(node: RootOperationNode): boolean {
  if (node.kind !== "SelectQueryNode") return false;
  return !node.with?.expressions.some(({ expression }) => CHANGES.test(expression.kind));
}

function statementOf({ sql, parameters }: CompiledQuery): Statement {
  return { sql, params: parameters as readonly SqlValue[] };
}

/** Takes the lock of migrations, which is held until the transaction ends. */
export async function lockMigrations(open: InteractiveTransaction): Promise<void> {
  await open.execute([{ sql: `SELECT pg_advisory_xact_lock(${MIGRATION_LOCK})` }]);
}

export class HighwaterDriver implements Driver {
  readonly #scope: Scope;
  readonly #types: TypeDecoders | undefined;

  constructor(scope: Scope, types?: TypeDecoders) {
    this.#scope = scope;
    this.#types = types;
  }

  async init(): Promise<void> {
    // Nothing to open: the client connects with its first request.
  }

  async acquireConnection(): Promise<DatabaseConnection> {
    return new HighwaterConnection(this.#scope, this.#types);
  }

  async beginTransaction(connection: DatabaseConnection, settings: TransactionSettings): Promise<void> {
    await ours(connection).begin(settings);
  }

  async commitTransaction(connection: DatabaseConnection): Promise<void> {
    await ours(connection).end(commit);
  }

  async rollbackTransaction(connection: DatabaseConnection): Promise<void> {
    await ours(connection).end((_scope, open) => rollback(open));
  }

  async savepoint(connection: DatabaseConnection, name: string, compile: Compile): Promise<void> {
    await connection.executeQuery(savepoint("SAVEPOINT", name, compile));
  }

  async rollbackToSavepoint(connection: DatabaseConnection, name: string, compile: Compile): Promise<void> {
    await connection.executeQuery(savepoint("ROLLBACK TO SAVEPOINT", name, compile));
  }

  async releaseSavepoint(connection: DatabaseConnection, name: string, compile: Compile): Promise<void> {
    await connection.executeQuery(savepoint("RELEASE SAVEPOINT", name, compile));
  }

  async releaseConnection(): Promise<void> {
    // Nothing to release. A controlled transaction that was forgotten ends by itself at its
    // `expiresAt`.
  }

  async destroy(): Promise<void> {
    // The application closes the client.
  }
}

type Compile = QueryCompiler["compileQuery"];

function savepoint(command: string, name: string, compile: Compile): CompiledQuery {
  const node = RawNode.createWithChildren([
    RawNode.createWithSql(`${command} `),
    IdentifierNode.create(name),
  ]);
  return compile(node, createQueryId());
}

/** Returns the connection as this package created it. */
export function ours(connection: DatabaseConnection): HighwaterConnection {
  if (connection instanceof HighwaterConnection) return connection;
  throw usage("invalid_options", "the dialect must be HighwaterDialect");
}

/** Returns the connection of the database: a new one, or that of its transaction. */
export function connectionOf(db: QueryExecutorProvider): Promise<HighwaterConnection> {
  return db.getExecutor().provideConnection(async (connection) => ours(connection));
}
