// Goal: programs, mappers and drivers of other languages get the same results through the wire as
// from PostgreSQL. Method: as in clients.test.ts.
import { whyNoPostgresProgram } from "@highwater/lab-tools/postgres";
import { whyNoGo, whyNoJava } from "../src/toolchains.ts";
import { pgjdbc, pgx } from "../suites/languages.ts";
import { drizzleOrm, kysely } from "../suites/mappers.ts";
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
]);
