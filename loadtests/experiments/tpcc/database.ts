// The way from the five transactions to the database: interactively through Highwater's SDK, or
// through node-postgres. The transactions themselves do not know which.
import type pg from "pg";
import type { Isolation } from "@highwater/protocol";
import { Highwater, HighwaterError } from "@highwater/sdk";
import { CONFLICTS, connect } from "../load/session.ts";
import { type Addresses, targetOf, type Way } from "../load/target.ts";
import type { Attempt } from "../load/job.ts";
import type { Statement } from "../load/workload.ts";

/** PostgreSQL's own text by column, as both drivers have it. */
export type Rows = readonly (readonly (string | null)[])[];

export interface Tx {
  /** Statements that are independent of each other's answers: together they are one call. */
  execute(...statements: readonly Statement[]): Promise<readonly Rows[]>;
}

/**
 * The rest of a transaction: statements that go with the commit (with nothing before them they are
 * a one-shot transaction), or a rollback by the application's own decision.
 */
export type Ending = readonly Statement[] | "roll_back";

interface TransactOptions {
  readonly readOnly: boolean;
  /** Answered at the commit point, whatever the database object was opened for. */
  readonly fast: boolean;
}

export interface Database {
  transact(options: TransactOptions, body: (tx: Tx) => Promise<Ending>): Promise<Attempt>;
  close(): Promise<void>;
}

export interface DatabaseOptions {
  readonly way: Way;
  readonly addresses: Addresses;
  readonly isolation: Isolation;
  /** Of node-postgres: BEGIN goes with the first statements, and COMMIT with the last. */
  readonly pipelined: boolean;
}

/** One for each terminal; those of Highwater share one client, which is made to be shared. */
export async function openDatabases(count: number, options: DatabaseOptions): Promise<Database[]> {
  const target = targetOf(options.way, options.addresses, options.isolation);
  if (target.kind === "direct") {
    const { pipelined } = options;
    const open = async (): Promise<Database> =>
      new DirectDatabase(await connect(target, { pipeline: pipelined }), pipelined);
    return Promise.all(Array.from({ length: count }, open));
  }
  const { url: gateway, tracker, level } = target;
  const client = new Highwater({ endpoints: [{ gateway, tracker }], level });
  const open = new HighwaterDatabase(client, target.ack, options.isolation);
  return Array.from({ length: count }, () => open);
}

class HighwaterDatabase implements Database {
  readonly #client: Highwater;
  readonly #ack: "commit" | "durable";
  readonly #isolation: Isolation;

  constructor(client: Highwater, ack: "commit" | "durable", isolation: Isolation) {
    this.#client = client;
    this.#ack = ack;
    this.#isolation = isolation;
  }

  async transact({ readOnly, fast }: TransactOptions, body: (tx: Tx) => Promise<Ending>): Promise<Attempt> {
    const open = await this.#client.begin({ isolation: this.#isolation, readOnly });
    try {
      const ending = await body({
        execute: async (...statements) => (await open.execute(statements)).map(({ values }) => values),
      });
      if (ending === "roll_back") {
        await open.rollback();
        return "rolled_back";
      }
      await open.commit({ statements: ending, ack: fast ? "commit" : this.#ack });
      return "committed";
    } catch (cause) {
      if (open.isOpen) await open.rollback();
      if (!(cause instanceof HighwaterError) || cause.retry !== "transaction") throw cause;
      return "conflict";
    }
  }

  close(): Promise<void> {
    return this.#client.close();
  }
}

class DirectDatabase implements Database {
  readonly #client: pg.Client;
  readonly #pipelined: boolean;

  constructor(client: pg.Client, pipelined: boolean) {
    this.#client = client;
    this.#pipelined = pipelined;
  }

  async transact({ readOnly }: TransactOptions, body: (tx: Tx) => Promise<Ending>): Promise<Attempt> {
    const first: pg.QueryArrayConfig[] = [plain(readOnly ? "BEGIN READ ONLY" : "BEGIN")];
    const send = async (queries: readonly pg.QueryArrayConfig[]): Promise<Rows[]> =>
      (await this.#all([...first.splice(0), ...queries])).slice(-queries.length);
    try {
      const ending = await body({ execute: (...statements) => send(statements.map(prepared)) });
      const isUndone = ending === "roll_back";
      await send(isUndone ? [plain("ROLLBACK")] : [...ending.map(prepared), plain("COMMIT")]);
      return isUndone ? "rolled_back" : "committed";
    } catch (cause) {
      await this.#client.query("ROLLBACK");
      if (!CONFLICTS.has((cause as { code?: unknown }).code)) throw cause;
      return "conflict";
    }
  }

  /** In one round trip, or in one for each. Errors: that of the first one that failed. */
  async #all(queries: readonly pg.QueryArrayConfig[]): Promise<Rows[]> {
    const run = async (query: pg.QueryArrayConfig): Promise<Rows> => (await this.#client.query(query)).rows;
    const results: Rows[] = [];
    if (!this.#pipelined) {
      for (const query of queries) results.push(await run(query));
      return results;
    }
    // Those behind a failed one fail too, and have to be awaited as well.
    for (const each of await Promise.allSettled(queries.map(run))) {
      if (each.status === "rejected") throw each.reason;
      results.push(each.value);
    }
    return results;
  }

  close(): Promise<void> {
    return this.#client.end();
  }
}

const plain = (text: string): pg.QueryArrayConfig => ({ text, rowMode: "array" });

function prepared({ sql, params }: Statement): pg.QueryArrayConfig {
  return { name: nameOf(sql), text: sql, values: [...params], rowMode: "array", types: RAW };
}

/** Everything stays PostgreSQL's text. */
const RAW = { getTypeParser: () => (text: string) => text } as unknown as pg.CustomTypesConfig;

const names = new Map<string, string>();

/** The server cuts names after 63 bytes, and statements differ beyond that. */
function nameOf(sql: string): string {
  let name = names.get(sql);
  if (name === undefined) names.set(sql, (name = `statement ${String(names.size + 1)}`));
  return name;
}
