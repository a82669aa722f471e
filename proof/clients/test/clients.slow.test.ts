// Goal: programs, mappers and drivers of other languages see through the wire what they see on PostgreSQL; and all clients do so
// when commits are answered at the commit point. Method: as in clients.test.ts.
import { whyNoPostgresProgram } from "@highwater/lab-tools/postgres";
import { whyNoGo, whyNoJava } from "../src/toolchains.ts";
import { asyncpg, pgjdbc, pgx, psycopg } from "../suites/languages.ts";
import { drizzleOrm, kysely } from "../suites/mappers.ts";
import { nodePostgres } from "../suites/node-postgres.ts";
import { postgresJs } from "../suites/postgres-js.ts";
import { dump, pgbench } from "../suites/programs.ts";
import { psql } from "../suites/psql.ts";
import { testSuites } from "./support.ts";

const slow = [
  { suite: pgbench, skip: whyNoPostgresProgram("pgbench") },
  { suite: dump, skip: whyNoPostgresProgram("pg_dump") },
  { suite: pgx, skip: whyNoGo() },
  { suite: pgjdbc, skip: whyNoJava() },
  { suite: kysely },
  { suite: drizzleOrm },
];

testSuites(slow, ["durable", "commit"]);
testSuites(
  [
    { suite: psql, skip: whyNoPostgresProgram("psql") },
    { suite: nodePostgres },
    { suite: postgresJs },
    { suite: psycopg },
    { suite: asyncpg },
  ],
  ["commit"],
);
