// Goal: a database that is restored, or swapped for a copy, under a running server is a new epoch. Nothing commits in the old
// one, nothing counts as carried over without its receipt, and no id that may have run in the abandoned history runs
// again.
// Method: a full PostgreSQL installation's own tools, on one server that is never restarted.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import { promisify } from "node:util";
import { type Cluster, namedBinDir } from "@highwater/lab-cluster";
import { type EpochId, type NodeSpec, parseOffset } from "@highwater/protocol";
import { type TransactionSpec } from "../src/port.ts";
import { type PostgresStore } from "../src/postgres/adapter.ts";
import {
  commitOf,
  connect,
  errorOf,
  keyOf,
  makeStore,
  MINT,
  newId,
  nodeSpecs,
  SET_UP,
  specOf,
  startTestCluster,
} from "./postgres-cluster.ts";

const LIB = "/usr/lib/postgresql";
const run = promisify(execFile);

/** A named installation is the only one that counts: the embedded packages have no pg_dump. */
function findTools(): string | undefined {
  const named = namedBinDir();
  const majors = existsSync(LIB) ? readdirSync(LIB).sort((a, b) => Number(b) - Number(a)) : [];
  const folders = named === undefined ? majors.map((major) => path.join(LIB, major, "bin")) : [named];
  return folders.find((folder) => existsSync(path.join(folder, "pg_dump")));
}

const binDir = findTools();

describe(
  "a restore under a running server",
  {
    skip:
      binDir === undefined
        ? "there is no pg_dump: HIGHWATER_PG_BIN names the bin folder of a full PostgreSQL installation"
        : false,
  },
  () => {
    let cluster: Cluster;
    let node: NodeSpec;
    /** Of the superuser, who restores. */
    let adminUrl: string;
    let store: PostgresStore;
    let epoch: EpochId;

    before(async () => {
      cluster = await startTestCluster({
        nodes: [{ id: "us-east", region: "us-east" }],
        pgBinDir: binDir ?? "",
      });
      [node] = (await nodeSpecs(cluster)) as [NodeSpec];
      adminUrl = await cluster.connectionString(node.id);
      store = makeStore([node], "one");
      await store.prepare(node.id);
      epoch = (await store.mint(node.id, MINT)).id as EpochId;
      await cluster.query(node.id, "CREATE TABLE kv (key text PRIMARY KEY)");
    });

    after(async () => {
      await store.close();
      await cluster.close();
    });

    const tool = (name: string, ...args: string[]) => run(path.join(binDir ?? "", name), args);
    const dump = async (...args: string[]): Promise<string> => {
      const file = path.join(cluster.dir, "dump");
      await tool("pg_dump", "-Fc", "-f", file, ...args, adminUrl);
      return file;
    };
    const put = async (): Promise<{ spec: TransactionSpec; offset: bigint }> => {
      const spec = specOf(epoch, [`INSERT INTO kv VALUES (gen_random_uuid()::text)`]);
      const { offset } = commitOf(await store.execute(node.id, spec));
      await store.helpFlush(node.id, epoch);
      return { spec, offset };
    };
    /** On the database beside it: no session may be connected to the one that is dropped. */
    const elsewhere = async (...texts: string[]): Promise<void> => {
      const url = new URL(adminUrl);
      url.pathname = "/postgres";
      const client = await connect(url.href);
      try {
        for (const text of texts) await client.query(text);
      } finally {
        await client.end();
      }
    };

    const forms: Record<string, () => Promise<() => Promise<unknown>>> = {
      // PostgreSQL's own `pg_restore --clean` fails on every partitioned table with a primary key ("cannot drop inherited constraint").
      "schemas that are dropped and restored in one transaction": async () => {
        const file = await dump();
        return async () => {
          await cluster.query(
            node.id,
            "DROP SCHEMA highwater, highwater_audit, highwater_sequences, public CASCADE",
          );
          await cluster.query(node.id, "CREATE SCHEMA public");
          await tool("pg_restore", "--single-transaction", "-d", adminUrl, file);
        };
      },
      "data alone, into the tables that are there": async () => {
        // What the audit log has stays.
        const file = await dump("--data-only", "--exclude-schema=highwater_audit");
        const tables = await cluster.query(
          node.id,
          `SELECT string_agg(oid::regclass::text, ', ') AS names FROM pg_class
           WHERE relnamespace IN ('highwater'::regnamespace, 'public'::regnamespace) AND relkind IN ('r', 'p')`,
        );
        return async () => {
          await cluster.query(node.id, `TRUNCATE ${String(tables[0]?.["names"])}`);
          await tool(
            "pg_restore",
            "--data-only",
            "--disable-triggers",
            "--single-transaction",
            "-d",
            adminUrl,
            file,
          );
        };
      },
      "a database that is dropped and made anew": async () => {
        const file = await dump();
        return async () => {
          await elsewhere("DROP DATABASE app (FORCE)", "CREATE DATABASE app");
          await tool("pg_restore", "-d", adminUrl, file);
          for (const sql of SET_UP) await cluster.query(node.id, sql);
        };
      },
      // pg_dump does so by itself on a replica. The table of the sentinel is empty then, as it is after a crash.
      "a dump without the rows of unlogged tables": async () => {
        const file = await dump("--no-unlogged-table-data");
        return async () => {
          await elsewhere("DROP DATABASE app (FORCE)", "CREATE DATABASE app");
          await tool("pg_restore", "-d", adminUrl, file);
          for (const sql of SET_UP) await cluster.query(node.id, sql);
        };
      },
      "one whose tables the owner rewrites before a service looks": async () => {
        const file = await dump();
        return async () => {
          await cluster.query(
            node.id,
            "DROP SCHEMA highwater, highwater_audit, highwater_sequences, public CASCADE",
          );
          await cluster.query(node.id, "CREATE SCHEMA public");
          await tool("pg_restore", "--single-transaction", "-d", adminUrl, file);
          await cluster.query(node.id, "ALTER TABLE highwater.epoch_sentinel SET LOGGED");
          await cluster.query(node.id, "VACUUM FULL highwater.epoch_sentinel");
        };
      },
      // Nothing in the database shows it; a tracker finds the log shorter than before.
      "an older state of the machine, put under the running server": async () => {
        const [before] = await cluster.query(
          node.id,
          "SELECT array_agg(id::text)::text AS ids FROM highwater.receipt",
        );
        return async () => {
          await cluster.query(
            node.id,
            `DELETE FROM highwater.receipt WHERE id <> ALL ('${String(before?.["ids"])}')`,
          );
          await store.disownEpoch(node.id, crypto.randomUUID() as EpochId);
          assert.equal((await store.probe(node.id)).current, epoch, "another epoch was meant");
          await store.disownEpoch(node.id, epoch);
        };
      },
      "a copy made by CREATE DATABASE": async () => {
        await elsewhere(
          "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'app'",
          "CREATE DATABASE copy TEMPLATE app",
        );
        return () => elsewhere("DROP DATABASE app (FORCE)", "ALTER DATABASE copy RENAME TO app");
      },
    };

    for (const [form, prepare] of Object.entries(forms))
      it(`is a new epoch: ${form}`, async () => {
        const kept = await put();
        const restore = await prepare();
        const gone = await put();
        const unrelated = await connect(node.url);
        await unrelated.end();
        await restore();
        await store.prepare(node.id);
        const report = await store.probe(node.id).catch(() => store.probe(node.id));
        assert.deepEqual([report.current, report.epochs.at(-1)?.id], [null, epoch]);
        assert.equal(await store.positions(node.id).catch(() => store.positions(node.id)), null);
        store.forget(node.id);
        for (const { spec } of [kept, gone])
          assert.equal(
            (await errorOf(store.execute(node.id, { ...spec, ...keyOf(newId()) }))).code,
            "epoch_changed",
          );

        const record = await store.mint(node.id, MINT);
        assert.deepEqual([record.cause, record.previous, record.forkLimit], ["restored", epoch, null]);
        assert.ok((parseOffset(record.forkOffset) ?? 0n) < kept.offset, "nothing is carried over unseen");
        const ended = epoch;
        epoch = record.id as EpochId;
        const { receipts } = await store.lookUp(node.id, [kept.spec, gone.spec]);
        assert.deepEqual(
          [receipts[0], receipts[1]?.kind].map((each) =>
            typeof each === "object" && "epoch" in each ? each.epoch : each,
          ),
          [ended, "absent"],
        );
        // The one that the restore kept is known; the one that it gave up must not run a second time.
        assert.equal((await store.execute(node.id, { ...kept.spec, epoch })).kind, "already_settled");
        const again = await errorOf(store.execute(node.id, { ...gone.spec, epoch }));
        assert.deepEqual([again.code, again.outcome], ["id_expired", "unknown"]);
        const opening = await errorOf(store.begin(node.id, { ...gone.spec, epoch }));
        assert.equal(opening.code, "id_expired");
        await put();
        // What its log loses in a crash of its own is another matter, and the refusal outlives it.
        await cluster.crashBackend(node.id);
        store.forget(node.id);
        await store.probe(node.id).catch(() => undefined);
        epoch = (await store.mint(node.id, MINT)).id as EpochId;
        assert.equal((await errorOf(store.execute(node.id, { ...gone.spec, epoch }))).code, "id_expired");
        await put();
      });
  },
);
