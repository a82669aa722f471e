// The way from the five transactions to the database: interactively through Highwater's SDK, or
// through node-postgres. The transactions themselves do not know which.
import type pg from "pg";
import type { Isolation } from "@highwater/protocol";
import { Highwater, HighwaterError } from "@highwater/sdk";
import { CONFLICTS, connect } from "../load/session.ts";
import { type Addresses, type Subject, targetOf } from "../load/target.ts";
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
  readonly subject: Subject;
  readonly addresses: Addresses;
  readonly isolation: Isolation;
}

/** One for each terminal; those of Highwater share one client, which is made to be shared. */
export async function openDatabases(count: number, options: DatabaseOptions): Promise<Database[]> {
  const target = targetOf(options.subject, options.addresses, options.isolation);
  if (target.kind === "direct")
    return Promise.all(Array.from({ length: count }, async () => new DirectDatabase(await connect(target))));
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
      const { state } = await open.commit({ statements: ending, ack: fast ? "commit" : this.#ack });
      if (!fast && this.#ack === "durable" && state !== "durable")
        throw new Error(`a safe transaction was answered ${state}`);
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

  constructor(client: pg.Client) {
    this.#client = client;
  }

  async transact({ readOnly }: TransactOptions, body: (tx: Tx) => Promise<Ending>): Promise<Attempt> {
    try {
      await this.#client.query(readOnly ? "BEGIN READ ONLY" : "BEGIN");
      const ending = await body({ execute: (...statements) => this.#all(statements) });
      if (ending !== "roll_back") await this.#all(ending);
      await this.#client.query(ending === "roll_back" ? "ROLLBACK" : "COMMIT");
      return ending === "roll_back" ? "rolled_back" : "committed";
    } catch (cause) {
      await this.#client.query("ROLLBACK");
      if (!CONFLICTS.has((cause as { code?: unknown }).code)) throw cause;
      return "conflict";
    }
  }

  async #all(statements: readonly Statement[]): Promise<Rows[]> {
    const results: Rows[] = [];
    for (const { sql, params } of statements) {
      const query = {
        name: nameOf(sql),
        text: sql,
        values: [...params],
        rowMode: "array" as const,
        types: RAW,
      };
      results.push((await this.#client.query(query)).rows);
    }
    return results;
  }

  close(): Promise<void> {
    return this.#client.end();
  }
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
