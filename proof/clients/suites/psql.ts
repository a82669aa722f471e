// psql as people and scripts use it: files of commands, \copy, \watch, \gexec, \bind, Ctrl-C.
import { spawn } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { findPostgresProgram } from "@highwater/lab-tools/postgres";
import { eventually, TemporaryFolder } from "@highwater/lab-tools/process";
import { runProgram } from "../src/program.ts";
import { type Suite } from "../src/rig.ts";

const TABLE =
  "CREATE TABLE item (id int PRIMARY KEY, text text);\nINSERT INTO item VALUES (1, 'a'), (2, NULL);\n";

/** Each script runs in its own psql, after the table was made again. */
const SCRIPTS: Readonly<Record<string, string>> = {
  select: "SELECT * FROM item ORDER BY id;\n\\x\nSELECT * FROM item WHERE id = 1;",
  describe: "\\d item\n\\dt\n\\dn client\n\\df\n\\du client\n\\l app",
  "transactions with errors":
    "BEGIN;\nINSERT INTO item VALUES (3, 'c');\nSELECT 1/0;\nSELECT 1;\nCOMMIT;\nSELECT count(*) FROM item;",
  "an error inside of a text":
    "INSERT INTO item VALUES (3, 'c')\\; SELECT 1/0\\; SELECT 2;\nSELECT count(*) FROM item;",
  "several statements in one text": "BEGIN\\; INSERT INTO item VALUES (4, 'd')\\; COMMIT\\; SELECT 1;",
  "rollback on error":
    "\\set ON_ERROR_ROLLBACK on\nBEGIN;\nINSERT INTO item VALUES (1, 'x');\nINSERT INTO item VALUES (5, 'e');\nCOMMIT;\nTABLE item;",
  "stop on error": "\\set ON_ERROR_STOP on\nINSERT INTO item VALUES (1, 'x');\nSELECT 'not reached';",
  "autocommit off":
    "\\set AUTOCOMMIT off\nINSERT INTO item VALUES (6, 'f');\nROLLBACK;\nINSERT INTO item VALUES (7, 'g');\nCOMMIT;\nTABLE item;",
  "autocommit off, left open": "\\set AUTOCOMMIT off\nINSERT INTO item VALUES (6, 'f');",
  gexec:
    "SELECT format('INSERT INTO item VALUES (%s, %L)', n, n) FROM generate_series(10, 12) AS n \\gexec\nTABLE item;",
  gset: "SELECT count(*) AS found FROM item \\gset\n\\echo :found",
  bind: "SELECT $1::int + $2::int AS sum \\bind 1 2 \\g\nINSERT INTO item VALUES ($1, $2) \\bind 20 t \\g\nTABLE item;",
  "named statements":
    "SELECT $1::text \\parse one\n\\bind_named one x \\g\n\\bind_named one y \\g\n\\close_prepared one\n\\bind_named one z \\g",
  pipeline:
    "\\startpipeline\nINSERT INTO item VALUES (30, 'p') \\bind \\sendpipeline\nSELECT count(*) FROM item \\bind \\sendpipeline\n\\syncpipeline\nINSERT INTO item VALUES (30, 'again') \\bind \\sendpipeline\nINSERT INTO item VALUES (31, 'q') \\bind \\sendpipeline\n\\endpipeline\nTABLE item;",
  "fetch count": "\\set FETCH_COUNT 3\nSELECT generate_series(1, 10) AS n;",
  "error verbosity": "\\set VERBOSITY verbose\nINSERT INTO item VALUES (1, 'x');\n\\errverbose",
  "copy from stdin": "COPY item FROM STDIN;\n40\tx\n41\t\\N\n\\.\nTABLE item;",
  "copy from stdin that fails": "COPY item FROM STDIN;\n42\tx\n1\tdouble\n43\ty\n\\.\nTABLE item;",
  "copy in a block": "BEGIN;\nCOPY item FROM STDIN;\n44\tx\n\\.\nCOMMIT;\nTABLE item;",
  "copy to stdout": "COPY item TO STDOUT (FORMAT csv, HEADER);",
  "copy and a statement in one text":
    "COPY item TO STDOUT\\; INSERT INTO item VALUES (45, 'after')\\; SELECT 1;",
  "\\copy out and in":
    "\\copy item TO 'item.csv' CSV\nDELETE FROM item;\n\\copy item FROM 'item.csv' CSV\nTABLE item;",
  "\\copy of many rows": "\\copy item FROM 'large.csv' CSV\nSELECT count(*), sum(id) FROM item;",
  "\\copy of a wrong file": "\\copy item FROM 'wrong.csv' CSV\nSELECT count(*) FROM item;",
  "\\watch": "SELECT count(*) FROM item \\watch i=0.01 c=3",
  "\\watch that writes": "INSERT INTO item SELECT max(id) + 1 FROM item \\watch i=0.01 c=3\nTABLE item;",
  "\\i and \\include": "\\i more.sql\nTABLE item;",
  "large objects":
    "SELECT lo_from_bytea(4711, 'abc') AS oid;\n\\lo_list\n\\lo_export 4711 'object'\n\\lo_unlink 4711",
  listen: "LISTEN news;\nNOTIFY news, 'hello';\nSELECT 1;",
  "temporary tables and settings":
    "CREATE TEMP TABLE t AS SELECT 1 AS n;\nSET work_mem = '1MB';\nSHOW work_mem;\nTABLE t;\nDISCARD ALL;\nTABLE t;",
  notices: "DO $$ BEGIN RAISE NOTICE 'n'; RAISE WARNING 'w'; END $$;\nDROP TABLE IF EXISTS nothing;",
  explain:
    "EXPLAIN (COSTS OFF) SELECT * FROM item WHERE id = 1;\nEXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) INSERT INTO item VALUES (50, 'e');\nTABLE item;",
  "two-phase commit":
    "BEGIN;\nINSERT INTO item VALUES (51, 'p');\nPREPARE TRANSACTION 'psql';\nCOMMIT PREPARED 'psql';\nTABLE item;",
  "function bodies":
    "CREATE FUNCTION f(n int) RETURNS int BEGIN ATOMIC SELECT n + 1; END;\nSELECT f(1);\nCREATE PROCEDURE p() LANGUAGE plpgsql AS $$ BEGIN INSERT INTO item VALUES (60, 'p'); COMMIT; END $$;\nCALL p();\nTABLE item;",
  vacuum: "VACUUM (ANALYZE) item;\nREINDEX TABLE CONCURRENTLY item;\nCLUSTER item USING item_pkey;",
  "a new connection": "\\c\nSELECT current_user, current_database();",
};

export const psql: Suite = {
  name: "psql",
  run: async ({ url }) => {
    const seen = new Map<string, unknown>();
    await using folder = await TemporaryFolder.make("highwater-psql-");
    const rows = Array.from({ length: 50_000 }, (_, n) => `${String(n + 100)},row ${String(n)}\n`);
    await writeFile(join(folder.path, "large.csv"), rows.join(""));
    await writeFile(join(folder.path, "wrong.csv"), "70,x\nseventy,y\n");
    await writeFile(
      join(folder.path, "more.sql"),
      "INSERT INTO item VALUES (80, 'included');\nSELECT 'more';\n",
    );
    for (const [name, script] of Object.entries(SCRIPTS)) {
      const input = `DROP TABLE IF EXISTS item CASCADE;\n${TABLE}${script}\n`;
      const { code, output, errors } = await runProgram(commandOf(url), { cwd: folder.path, input });
      seen.set(name, [code, stable(output), stable(errors)]);
    }
    seen.set("Ctrl-C", await interrupt(url));
    return seen;
  },
};

function commandOf(url: string): readonly [string, ...string[]] {
  return [findPostgresProgram("psql") ?? "psql", "-X", "--set", "HISTFILE=/dev/null", url];
}

/** Removes texts that differ between two runs on one server. */
function stable(text: string): string {
  return text
    .replaceAll(/^\w{3} \w{3} +\d+ [\d:]+ \d{4} \(every .*\)$/gm, "(time)")
    .replaceAll(/server process with PID \d+/g, "server process")
    .replaceAll(/port "?\d+"?/g, "port");
}

/** An endless query, Ctrl-C, and another query in the same session. */
async function interrupt(url: string): Promise<unknown> {
  const [program, ...args] = commandOf(url);
  const child = spawn(program, args, { stdio: ["pipe", "pipe", "pipe"] });
  let [output, errors] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (errors += text));
  const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
  // If psql ends early, its output explains more than an error of this write.
  child.stdin.on("error", () => undefined);
  child.stdin.write("SELECT 'ready';\nSELECT pg_sleep(600);\nSELECT 'alive';\n");
  await eventually("psql runs the query", async () => output.includes("ready") || undefined);
  // Repeated, because a signal before the query has begun has no effect.
  const again = setInterval(() => {
    if (errors === "") child.kill("SIGINT");
  }, 300);
  await eventually("the query is cancelled", async () => errors.includes("cancel") || undefined);
  clearInterval(again);
  child.stdin.end("SELECT 'still there';\n");
  return [await ended, errors.trim().split("\n").at(-1), output.includes("still there")];
}
