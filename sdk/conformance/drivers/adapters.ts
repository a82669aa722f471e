// The adapters of the TypeScript SDK, for the driver: runs one statement in every way that they
// have, alone and in a transaction, and says how each ended.
import { type AckOptions, type Highwater, HighwaterError, type TokenVerdict } from "@highwater/sdk";
import {
  committed as committedByDrizzle,
  drizzle,
  transactionOf as openInDrizzle,
} from "@highwater/sdk/drizzle";
import { enlist } from "@highwater/sdk/enlist";
import {
  committed as committedByKysely,
  HighwaterDialect,
  transact,
  transactionOf as openInKysely,
} from "@highwater/sdk/kysely";
import { sql as drizzleSql } from "drizzle-orm";
import { Kysely, sql } from "kysely";
import pg from "pg";
import postgres from "postgres";

interface Promised {
  verdict: () => TokenVerdict | undefined;
}
type Way = () => Promise<Promised | undefined>;

export interface Run {
  readonly hw: Highwater;
  readonly statement: string;
  readonly options: AckOptions & { readonly timeoutMs?: number };
  /** Where an application's own connections go, on the real system. */
  readonly database?: string;
}

/** How the statement ended, in each way that differs from the others. */
export async function inAllAdapters(run: Run): Promise<readonly unknown[]> {
  const ways = [...gatewayWays(run), ...(run.database === undefined ? [] : ownWays(run, run.database))];
  const ends = new Set<string>();
  for (const way of ways) ends.add(JSON.stringify(await way().then(shown, shownError)));
  return [...ends].map((each) => JSON.parse(each) as unknown);
}

const shown = (promised: Promised | undefined): unknown => ({
  state: promised?.verdict()?.verdict ?? "pending",
});

function shownError(reason: unknown): unknown {
  const error = reason instanceof Error && reason.cause instanceof HighwaterError ? reason.cause : reason;
  if (!(error instanceof HighwaterError)) throw error;
  const { state, token } = error as HighwaterError & { state?: string; token?: string };
  const { name, code, outcome, retry, level } = error;
  return { class: name, code, outcome, retry, level, state, hasToken: token !== undefined };
}

function gatewayWays({ hw, statement, options }: Run): Way[] {
  const kysely = new Kysely<unknown>({
    dialect: new HighwaterDialect({ client: hw, transaction: options }),
  });
  const drizzled = drizzle(hw, { transaction: options });
  return [
    async () => (await committedByKysely(kysely, sql.raw(statement) as never)).transaction,
    async () => (await transact(kysely, (trx) => sql.raw(statement).execute(trx))).transaction,
    async () => {
      const open = await kysely.transaction().execute(async (trx) => {
        await sql.raw(statement).execute(trx);
        return openInKysely(trx);
      });
      return open.committed;
    },
    async () => (await committedByDrizzle(drizzled, drizzled.execute(drizzleSql.raw(statement)))).transaction,
    async () => {
      const open = await drizzled.transaction(async (tx) => {
        await tx.execute(drizzleSql.raw(statement));
        return openInDrizzle(tx);
      });
      return open.committed;
    },
  ];
}

function ownWays({ hw, statement, options }: Run, database: string): Way[] {
  const { timeoutMs: _, ...enlisted } = options;
  return [
    async () => {
      const client = new pg.Client({ connectionString: database });
      await client.connect();
      try {
        const by = enlist(hw, client, enlisted);
        await client.query("BEGIN");
        await client.query(statement);
        await client.query("COMMIT");
        return await by.last(client)?.promise();
      } finally {
        await client.end();
      }
    },
    async () => {
      const client = postgres(database, { max: 1, onnotice: () => undefined });
      try {
        const { transaction } = await enlist(hw, client, enlisted).begin("", (tx) => tx.unsafe(statement));
        return await transaction?.promise();
      } finally {
        await client.end();
      }
    },
  ];
}
