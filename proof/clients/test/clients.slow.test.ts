// Goal: programs, mappers and drivers get the same results through the wire as from PostgreSQL.
// Method: one system; each client runs on the primary and on the wire, and the transcripts are
// compared.
import { whyNoPostgresProgram } from "@highwater/lab-tools/postgres";
import { whyNoGo, whyNoJava } from "../src/toolchains.ts";
import { asyncpg, pgjdbc, pgx, psycopg } from "../suites/languages.ts";
import { drizzleOrm, kysely } from "../suites/mappers.ts";
import { nodePostgres } from "../suites/node-postgres.ts";
import { postgresJs } from "../suites/postgres-js.ts";
import { dump, pgbench } from "../suites/programs.ts";
import { psql } from "../suites/psql.ts";
import { testSuites } from "./support.ts";

testSuites([
  { suite: psql, skip: whyNoPostgresProgram("psql") },
  { suite: pgbench, skip: whyNoPostgresProgram("pgbench") },
  { suite: dump, skip: whyNoPostgresProgram("pg_dump") },
  { suite: pgx, skip: whyNoGo() },
  { suite: pgjdbc, skip: whyNoJava() },
  { suite: kysely },
  { suite: drizzleOrm },
  { suite: nodePostgres },
  { suite: postgresJs },
  { suite: psycopg },
  { suite: asyncpg },
]);
