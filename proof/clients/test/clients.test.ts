// Goal: drivers of Node and Python get the same results through the wire as from PostgreSQL.
// Method: one system; each client runs on the primary and on the wire, and the transcripts are
// compared.
import { asyncpg, psycopg } from "../suites/languages.ts";
import { nodePostgres } from "../suites/node-postgres.ts";
import { postgresJs } from "../suites/postgres-js.ts";
import { testSuites } from "./support.ts";

testSuites([{ suite: nodePostgres }, { suite: postgresJs }, { suite: psycopg }, { suite: asyncpg }]);
