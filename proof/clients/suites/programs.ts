// PostgreSQL's other programs: pgbench in its three modes, pg_dump and pg_restore.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { namedBinDir } from "@highwater/lab-cluster";
import { findPostgresProgram } from "@highwater/lab-tools/postgres";
import { TemporaryFolder } from "@highwater/lab-tools/process";
import pg from "pg";
import { runProgram } from "../src/program.ts";
import { type Suite } from "../src/rig.ts";

const CLIENTS = 4;
const TRANSACTIONS = 25;

/** Whether TPC-B's sums are equal, and how often it ran. */
const SUMS = `SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(delta) FROM pgbench_history) AS accounts,
  (SELECT sum(bbalance) FROM pgbench_branches) = (SELECT sum(delta) FROM pgbench_history) AS branches,
  (SELECT count(*) FROM pgbench_history) AS runs`;

export const pgbench: Suite = {
  name: "pgbench",
  run: async ({ url }) => {
    const seen = new Map<string, unknown>();
    const program = findPostgresProgram("pgbench") ?? "pgbench";
    const run = async (name: string, args: readonly string[]): Promise<void> => {
      const { code, output, errors } = await runProgram([program, ...args, url]);
      const figures = /^number of (?:transactions actually processed|failed transactions): .*$/gm;
      seen.set(name, [code, output.match(figures), errors.match(/^.*\berror\b.*$/gim)]);
    };
    await run("initialize", ["-i", "-s", "1", "-q"]);
    await run("initialize on the server's side", ["-i", "-s", "1", "-I", "dtGvp"]);
    await run("initialize with foreign keys", ["-i", "-s", "1", "-I", "dtgvpf"]);
    const load = ["-c", String(CLIENTS), "-t", String(TRANSACTIONS), "--max-tries", "10", "-n"];
    for (const mode of ["simple", "extended", "prepared"]) {
      await run(`TPC-B, ${mode}`, ["-M", mode, ...load]);
      await run(`simple update, ${mode}`, ["-M", mode, "-N", ...load]);
      await run(`select only, ${mode}`, ["-M", mode, "-S", ...load]);
      await run(`a connection for each transaction, ${mode}`, ["-M", mode, "-C", "-S", ...load]);
    }
    const client = new pg.Client({ connectionString: url });
    client.on("error", () => undefined);
    await client.connect();
    seen.set("what the database has", (await client.query(SUMS)).rows);
    await client.end();
    return seen;
  },
};

const CONTENT = `CREATE TYPE mood AS ENUM ('good', 'bad');
  CREATE TABLE parent (id int PRIMARY KEY GENERATED ALWAYS AS IDENTITY, mood mood, bytes bytea, more jsonb);
  CREATE TABLE child (parent int REFERENCES parent, n numeric(20, 5) CHECK (n > 0), text text);
  CREATE INDEX ON child (text);
  CREATE VIEW both_of AS SELECT p.id, c.n FROM parent p JOIN child c ON c.parent = p.id;
  CREATE FUNCTION doubled(n int) RETURNS int BEGIN ATOMIC SELECT n * 2; END;
  CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
  CREATE TRIGGER note BEFORE INSERT ON child FOR EACH ROW EXECUTE FUNCTION noted();
  COMMENT ON TABLE child IS 'it''s a child';
  INSERT INTO parent (mood, bytes, more) SELECT 'good', decode(md5(n::text), 'hex'), jsonb_build_object('n', n) FROM generate_series(1, 5000) AS n;
  INSERT INTO child SELECT id, id + 0.5, 'text' || id FROM parent`;

/** The one of the named installation: pg_restore 17 and newer sets what older servers refuse. */
function serversOwn(name: string): string | undefined {
  const path = join(namedBinDir() ?? "", name);
  return existsSync(path) ? path : undefined;
}

/** Dumps through the target, and restores through the target. */
export const dump: Suite = {
  name: "pg_dump and pg_restore",
  run: async ({ url }) => {
    const seen = new Map<string, unknown>();
    await using folder = await TemporaryFolder.make("highwater-dump-");
    const program = (name: "pg_dump" | "pg_restore" | "psql"): string =>
      serversOwn(name) ?? findPostgresProgram(name) ?? name;
    const client = new pg.Client({ connectionString: url });
    client.on("error", () => undefined);
    await client.connect();
    await client.query(CONTENT);
    const dumped = async (...args: string[]): Promise<string> => {
      const command = [program("pg_dump"), "-n", "client", "--no-sync", ...args, url] as const;
      const { code, output, errors } = await runProgram(command);
      if (code !== 0) throw new Error(errors);
      // A pair of commands that contains a random key.
      return output.replaceAll(/^\\(un)?restrict .*$/gm, "");
    };
    const plain = await dumped();
    seen.set("a plain dump", plain);
    seen.set("a dump with INSERTs", (await dumped("--inserts", "--rows-per-insert=500")).length);
    const steps: readonly [name: string, args: readonly string[], restore: readonly string[]][] = [
      ["custom", ["-Fc"], []],
      ["directory, by two connections", ["-Fd", "-j2"], ["-j2"]],
      ["custom, in one transaction", ["-Fc"], ["--single-transaction"]],
    ];
    for (const [name, args, restore] of steps) {
      const file = join(folder.path, name.replaceAll(/\W+/g, "-"));
      await dumped(...args, "-f", file);
      await client.query("DROP SCHEMA client CASCADE");
      const back = await runProgram([program("pg_restore"), "--exit-on-error", ...restore, "-d", url, file]);
      if (back.code !== 0) throw new Error(`pg_restore ended with ${String(back.code)}: ${back.errors}`);
      seen.set(`restored: ${name}`, (await dumped()) === plain);
    }
    await client.query("DROP SCHEMA client CASCADE");
    const back = await runProgram([program("psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", url], {
      input: plain,
    });
    seen.set("restored: plain, by psql", [back.code, back.errors, (await dumped()) === plain]);
    await client.end();
    return seen;
  },
};
