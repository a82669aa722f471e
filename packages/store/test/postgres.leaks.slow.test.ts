// Goal: nothing that a request leaves in its session reaches the next one. Method: every leak of the corpus is tried with all
// execution options on a pool of one session, and the probe then asks as another principal and as the same one. That a leak is
// real, and its probe can see it, is proven on a connection without a pool.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { type Cluster } from "@highwater/lab-cluster";
import { eventually } from "@highwater/lab-tools/process";
import { type EpochId, HighwaterError, type NodeSpec, type StatementResult } from "@highwater/protocol";
import { type TransactionSpec } from "../src/port.ts";
import { type PostgresStore } from "../src/postgres/adapter.ts";
import { LEAK_SETUP, type Leak, LEAKS } from "./leaks.ts";
import {
  commitOf,
  connect,
  makeStore,
  MINT,
  nodeSpecs,
  specOf,
  startTestCluster,
} from "./postgres-cluster.ts";

const [A, B] = ["owner-a/key-1/tenant/write", "owner-b/key-2/tenant/write"];
/** A text is quick, and shares writes, when it has been so more often than this. */
const WARM = 10;

describe("what a request leaves in its session", () => {
  let cluster: Cluster;
  let primary: NodeSpec;
  let replica: NodeSpec;
  let store: PostgresStore;
  let epoch: EpochId;

  before(async () => {
    cluster = await startTestCluster({
      nodes: [
        { id: "us-east", region: "us-east" },
        { id: "us-west", region: "us-west" },
      ],
    });
    // Some of what a session may be left with only a superuser can leave.
    [primary, replica] = (await nodeSpecs(cluster, "postgres")) as [NodeSpec, NodeSpec];
    store = makeStore([primary, replica], "leaks", {
      poolSize: 1,
      rolePoolSize: 1,
      roleUrl: (nodeUrl, role) => nodeUrl.replace("postgres@", `${role}@`),
    });
    await store.prepare(primary.id);
    epoch = (await store.mint(primary.id, MINT)).id as EpochId;
    await cluster.query(primary.id, LEAK_SETUP);
    await store.helpFlush(primary.id, epoch);
    await eventually("the replica has it all", async () => {
      await store.helpFlush(primary.id, epoch);
      const probe = {
        statements: [{ sql: "SELECT count(*) FROM seeded" }],
        isolation: "read committed",
      } as const;
      const limits = { maxRows: 10, maxBytes: 1_000, after: null, role: "tenant" };
      const reading = await store.readReplica(replica.id, { ...probe, ...limits }).catch(() => null);
      return reading?.kind === "read" && reading.results[0]?.rows[0]?.[0] === "1";
    });
  });

  after(async () => {
    await store.close();
    await cluster.close();
  });

  const roleOf = (leak: Leak): string | null => (leak.isSuperuser === true ? null : "tenant");

  const spec = (
    leak: Leak,
    principal: string,
    texts: readonly string[],
    more: Partial<TransactionSpec> = {},
  ) => specOf(epoch, texts, { role: roleOf(leak), principal, ...more });

  const valueOf = (results: readonly StatementResult[]): string | null | undefined =>
    results[0]?.rows[0]?.[0];

  const probe = async (leak: Leak, principal: string): Promise<string | null | undefined> =>
    valueOf(commitOf(await store.execute(primary.id, spec(leak, principal, [leak.probe]))).results);

  /** The attempt may be refused; what else went wrong is a fault. */
  const refused = (cause: unknown): void => {
    assert.ok(cause instanceof HighwaterError, String(cause));
  };

  /** What the probe answers in an unused session of the pool's kind. */
  async function unused(leak: Leak): Promise<string | null | undefined> {
    store.forget(primary.id);
    return probe(leak, A);
  }

  const variants: Record<string, (leak: Leak) => Promise<void>> = {
    alone: async (leak) => {
      await store.execute(primary.id, spec(leak, A, leak.sql)).catch(refused);
    },
    "alone, reading": async (leak) => {
      await store.execute(primary.id, spec(leak, A, leak.sql, { readOnly: true })).catch(refused);
    },
    "interactive, committed": async (leak) => {
      const opening = await store.begin(primary.id, spec(leak, A, []));
      assert.ok(opening.kind === "open");
      const { transaction } = opening;
      for (const sql of leak.sql) await transaction.run([{ sql }]).catch(refused);
      await transaction.commit([]).catch(refused);
    },
    "interactive, rolled back": async (leak) => {
      const opening = await store.begin(primary.id, spec(leak, A, []));
      assert.ok(opening.kind === "open");
      await opening.transaction.run(leak.sql.map((sql) => ({ sql }))).catch(refused);
      await opening.transaction.rollback();
    },
  };

  it("is seen by the corpus's probes where there is no reset", async () => {
    assert.ok(LEAKS.length >= 60, String(LEAKS.length));
    for (const leak of LEAKS) {
      const client = await connect(primary.url.replace("postgres@", `${roleOf(leak) ?? "postgres"}@`));
      try {
        const ask = async (): Promise<unknown> =>
          Object.values((await client.query<Record<string, unknown>>(leak.probe)).rows[0] ?? {})[0];
        const before = await ask();
        await client.query("BEGIN");
        try {
          for (const sql of leak.sql) await client.query(sql);
          await client.query("COMMIT");
        } catch (cause) {
          const { code } = cause as { code?: string };
          await client.query("ROLLBACK");
          // A server that was built without XML cannot leak this way.
          if (code === "0A000" && leak.name.endsWith("query_to_xml")) continue;
          assert.equal(code, "22012", `${leak.name}: ${String(cause)}`);
        }
        const behind = await ask();
        if (leak.endsWithTransaction === true) assert.equal(behind, before, leak.name);
        else assert.notEqual(behind, before, leak.name);
      } finally {
        await client.end();
      }
    }
  });

  for (const [variant, attempt] of Object.entries(variants))
    it(`does not reach others: ${variant}`, async () => {
      const leaked: string[] = [];
      for (const leak of LEAKS) {
        const expected = await unused(leak);
        for (const next of [B, A]) {
          await attempt(leak);
          const seen = await probe(leak, next);
          if (seen !== expected)
            leaked.push(`${leak.name} as ${next}: ${String(seen)} for ${String(expected)}`);
        }
      }
      assert.deepEqual(leaked, []);
    });

  it("does not reach others: in a shared write, and a write holds one principal only", async () => {
    const leaked: string[] = [];
    for (const leak of LEAKS) {
      const expected = await unused(leak);
      const run = (principal: string, texts: readonly string[]) =>
        store.execute(primary.id, spec(leak, principal, texts));
      // Both texts are quick then, if they succeed at all.
      for (let n = 0; n < WARM; n++) {
        await run(A, leak.sql).catch(refused);
        await run(B, [leak.probe]);
      }
      for (const order of [
        [A, B, A, B],
        [A, A, B, B],
        [B, A, B, B],
      ]) {
        const done = order.map((principal) =>
          principal === A
            ? run(A, leak.sql).then(() => null, refused)
            : run(B, [leak.probe]).then((execution) => valueOf(commitOf(execution).results)),
        );
        for (const [at, seen] of (await Promise.all(done)).entries())
          if (order[at] === B && seen !== expected)
            leaked.push(`${leak.name}: ${String(seen)} for ${String(expected)}`);
      }
    }
    assert.deepEqual(leaked, []);
  });

  it("does not reach others: on a replica", async () => {
    const leaked: string[] = [];
    for (const leak of LEAKS) {
      const read = async (principal: string, texts: readonly string[]) => {
        const statements = texts.map((sql) => ({ sql }));
        const limits = { maxRows: 100, maxBytes: 10_000, after: null, isolation: "read committed" } as const;
        const reading = await store.readReplica(replica.id, {
          statements,
          principal,
          role: roleOf(leak),
          ...limits,
        });
        assert.ok(reading.kind === "read", reading.kind);
        return valueOf(reading.results);
      };
      store.forget(replica.id);
      const expected = await read(A, [leak.probe]);
      for (const next of [B, A]) {
        await read(A, leak.sql).catch(refused);
        const seen = await read(next, [leak.probe]);
        if (seen !== expected)
          leaked.push(`${leak.name} as ${next}: ${String(seen)} for ${String(expected)}`);
      }
    }
    assert.deepEqual(leaked, []);
  });

  it("keeps its SQL from others: another principal sees no statement that it has prepared", async () => {
    const leak = LEAKS[0] as Leak;
    const seen = "SELECT count(*)::text FROM pg_prepared_statements WHERE statement LIKE 'SELECT 4711%'";
    const run = (principal: string, sql: string) => store.execute(primary.id, spec(leak, principal, [sql]));
    await run(A, "SELECT 4711 AS secret");
    assert.equal(
      valueOf(commitOf(await run(A, seen)).results),
      "1",
      "one's own is seen, in the same session",
    );
    assert.equal(valueOf(commitOf(await run(B, seen)).results), "0");
  });
});
