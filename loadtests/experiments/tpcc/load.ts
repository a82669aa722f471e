// Puts the initial database into the tables, some thousand rows in one statement.
import pg from "pg";
import { seeded } from "../load/random.ts";
import type { Scale } from "./random.ts";
import { initialRows, type Value } from "./rows.ts";
import { COLUMNS, CREATE_INDEXES, createTables, type Table, TABLES } from "./schema.ts";

const BATCH_ROWS = 4_000;

export async function loadDatabase(url: string, scale: Scale, seed: number): Promise<void> {
  const client = new pg.Client({ connectionString: url, options: "-c synchronous_commit=off" });
  await client.connect();
  try {
    await client.query(`DROP TABLE IF EXISTS ${TABLES.join(", ")}`);
    for (const statement of createTables()) await client.query(statement);
    const waiting = new Map<Table, (readonly Value[])[]>();
    for (const [table, row] of initialRows(seeded(seed), scale)) {
      const rows = waiting.get(table) ?? [];
      waiting.set(table, rows);
      rows.push(row);
      if (rows.length >= BATCH_ROWS) await insert(client, table, rows.splice(0));
    }
    for (const [table, rows] of waiting) if (rows.length > 0) await insert(client, table, rows);
    for (const statement of CREATE_INDEXES) await client.query(statement);
  } finally {
    await client.end();
  }
}

async function insert(client: pg.Client, table: Table, rows: readonly (readonly Value[])[]): Promise<void> {
  const arrays = COLUMNS[table].map(([, type], at) => `$${String(at + 1)}::${type}[]`);
  const values = COLUMNS[table].map((_, at) => rows.map((row) => row[at] ?? null));
  const text = `INSERT INTO ${table} SELECT * FROM unnest(${arrays.join(", ")})`;
  await client.query({ name: `load ${table}`, text, values });
}
