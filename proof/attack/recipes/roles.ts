// Changes that a key's database role can make to itself and to others.
import { described } from "../caller.ts";
import { type Recipe } from "../recipe.ts";

/**
 * How long pg_terminate_backend() waits for the end of a session. A request in a session that is
 * about to end would have an unknown outcome.
 */
const GONE_WITHIN_MS = "60000";

export const ROLES: readonly Recipe[] = [
  {
    item: "5",
    title: "a write key points its role's search_path at functions of its own",
    run: async (target) => {
      const { writer } = target;
      await writer.run([
        "CREATE SCHEMA IF NOT EXISTS acme",
        "CREATE OR REPLACE FUNCTION acme.pg_is_in_recovery() RETURNS boolean LANGUAGE sql AS 'SELECT true'",
        "ALTER ROLE CURRENT_USER SET search_path = acme, pg_catalog",
      ]);
      try {
        // New sessions get the setting.
        await target.look(
          `SELECT pg_terminate_backend(pid, ${GONE_WITHIN_MS}) FROM pg_stat_activity WHERE usename = 'acme_write'`,
        );
        for (let attempt = 0; ; attempt++) {
          const answer = await writer.run(["SELECT 1"]);
          // A refusal that names the role's setting is acceptable, too: it only hurts the owner who
          // made the setting.
          if (answer.status === 200 || answer.status === 403) return null;
          if (attempt === 5) return `the role's own keys are answered ${described(answer)}`;
        }
      } finally {
        await target.look("ALTER ROLE acme_write RESET search_path");
        await target.look("DROP FUNCTION IF EXISTS acme.pg_is_in_recovery()");
      }
    },
  },
  {
    item: "10",
    title: "a read key floods the server's log, writes log records, or ends sessions of its role",
    run: async (target) => {
      const served = await target.reader.read(["SELECT count(*) FROM acme.orders"]);
      if (served.status !== 200) return `the read key is not served at all: ${described(served)}`;
      for (const sql of [
        "SELECT pg_logical_emit_message(false, 'a', repeat('x', 1000))",
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = CURRENT_USER AND pid <> pg_backend_pid()",
        "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() LIMIT 1",
        "SELECT lo_create(0)",
        "SELECT pg_current_xact_id()",
        "SELECT count(pg_advisory_lock(n)) FROM generate_series(1, 2000) n",
      ]) {
        const answer = await target.reader.read([sql]);
        if (answer.status === 200) return `${sql} was run`;
      }
      return null;
    },
  },
  {
    item: "12",
    title: "the login role of a read key writes in a session that is not READ ONLY",
    run: async (target) => {
      const session = await target.psql("reader");
      try {
        for (const sql of [
          "INSERT INTO acme.orders VALUES ('psql', 'written by a reader')",
          "CREATE TABLE public.mine (id int)",
          "CREATE TABLE acme.mine (id int)",
          "CREATE TEMPORARY TABLE mine (id int)",
          "INSERT INTO highwater.receipt (id, tag, epoch, digest) SELECT gen_random_uuid(), gen_random_uuid(), id, 0 FROM highwater.current_epoch",
          "SET ROLE highwater_app",
          "SELECT lo_from_bytea(0, 'x')",
          "SELECT pg_logical_emit_message(true, 'a', 'x')",
          "SELECT pg_advisory_lock(1)",
        ]) {
          const isRun = await session.query(sql).then(
            () => true,
            () => false,
          );
          if (isRun) return `${sql} was run`;
        }
        return null;
      } finally {
        await session.end();
      }
    },
  },
  {
    item: "12",
    title: "a read key whose role was given the right to write since the key was made",
    run: async (target) => {
      await target.look("GRANT highwater_app TO acme_read");
      try {
        await target.look(
          `SELECT pg_terminate_backend(pid, ${GONE_WITHIN_MS}) FROM pg_stat_activity WHERE usename = 'acme_read'`,
        );
        const answer = await target.reader.read(["SELECT 1"]);
        return answer.status === 200 ? "a read key is served as a role that may write" : null;
      } finally {
        await target.look("REVOKE highwater_app FROM acme_read");
      }
    },
  },
  {
    item: "12",
    title: "a role that has become privileged since its key was made",
    run: async (target) => {
      const { writer } = target;
      await target.look("ALTER ROLE acme_write BYPASSRLS");
      try {
        await target.look(
          `SELECT pg_terminate_backend(pid, ${GONE_WITHIN_MS}) FROM pg_stat_activity WHERE usename = 'acme_write'`,
        );
        const answer = await writer.run(["SELECT 1"]);
        return answer.status === 200 ? "a key whose role bypasses row security is still served" : null;
      } finally {
        await target.look("ALTER ROLE acme_write NOBYPASSRLS");
      }
    },
  },
];
