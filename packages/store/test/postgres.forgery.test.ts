// Receipts that SQL writes past the service: whatever an application role puts beside or in front of a transaction's own receipt,
// the transaction commits, is found and is settled, and its tag is not shown anywhere.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import type pg from "pg";
import { type EpochId, type HighwaterError } from "@highwater/protocol";
import { type TransactionSpec } from "../src/port.ts";
import { uuidFloor } from "../src/postgres/prepare.ts";
import { RECEIPTS } from "../src/postgres/sql.ts";
import {
  commitOf,
  connect,
  errorOf,
  keyOf,
  newId,
  OneServer,
  RETENTION_MS,
  specOf,
} from "./postgres-cluster.ts";

const FOREIGN = "00000000-0000-4000-8000-000000000001";
const PRIVILEGE = "42501";

let server: OneServer;
let mallory: pg.Client;
let partition: string;
const tags: string[] = [];

before(async () => {
  server = await OneServer.start({ rolePoolSize: 4, roleUrl });
  await server.sql("CREATE ROLE mallory LOGIN IN ROLE highwater_app");
  await server.sql("CREATE ROLE victim LOGIN IN ROLE highwater_app");
  await server.sql("GRANT ALL ON kv TO mallory, victim");
  mallory = await connect(roleUrl(server.node.url, "mallory"));
  const [found] = await server.sql(
    `SELECT c.oid::regclass::text AS name FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
     WHERE i.inhparent = 'highwater.receipt'::regclass AND c.relname <= $1 ORDER BY c.relname DESC LIMIT 1`,
    [`receipt_${uuidFloor(Date.now()).replaceAll("-", "").slice(0, 12)}_z`],
  );
  partition = String(found?.["name"]);
});

after(async () => {
  await mallory.end();
  await server.close();
});

function roleUrl(nodeUrl: string, role: string): string {
  const url = new URL(nodeUrl);
  url.username = role;
  return url.href;
}

function victims(more: Partial<TransactionSpec> = {}): TransactionSpec {
  const spec = specOf(server.epoch, ["INSERT INTO kv VALUES (gen_random_uuid(), 'victim')"], {
    role: "victim",
    ...more,
  });
  tags.push(spec.tag);
  return spec;
}

/** What a client would see of the transaction, and that settling it changes nothing. */
async function isWhole(spec: TransactionSpec): Promise<void> {
  const { store, node, epoch } = server;
  commitOf(await store.execute(node.id, spec));
  const receipt = { kind: "commit", epoch, digest: spec.digest };
  assert.deepEqual((await store.lookUp(node.id, [spec])).receipts, [receipt]);
  assert.deepEqual(await store.execute(node.id, spec), { kind: "already_settled" });
  const settling = { epoch, keys: [spec], tombstone: "aborted", patienceMs: 100 } as const;
  assert.deepEqual((await store.settle(node.id, settling)).receipts, [receipt]);
}

async function stateOf(text: string, params: readonly unknown[] = []): Promise<string> {
  return mallory.query(text, [...params]).then(
    () => "done",
    (cause: unknown) => (cause as { code: string }).code,
  );
}

describe("a receipt that SQL has written", () => {
  it("under a victim's id, in every combination of columns, is never matched and never in the way", async () => {
    const { store, node, epoch } = server;
    const columns = ["id", "tag", "epoch", "digest", "kind"] as const;
    const values = {
      tag: [newId(), FOREIGN, "00000000-0000-0000-0000-000000000000", null],
      epoch: [epoch, FOREIGN, null],
      digest: ["0", "7", null],
      kind: ["commit", "lost"],
    };
    let written = 0;
    for (let bits = 0; bits < 16; bits++) {
      const given = columns.filter((name, n) => name === "id" || (bits & (1 << (n - 1))) !== 0);
      for (const epochValue of values.epoch)
        for (const digest of values.digest)
          for (const [n, tag] of values.tag.entries()) {
            const spec = victims();
            const of = { id: spec.id, tag, epoch: epochValue, digest, kind: values.kind[n % 2] };
            const text = `INSERT INTO highwater.receipt (${given.join(", ")}) VALUES (${given.map((_, at) => `$${String(at + 1)}`).join(", ")})`;
            const state = await stateOf(
              text,
              given.map((name) => of[name]),
            );
            const isAllowed =
              given.length === 4 &&
              !given.includes("kind") &&
              tag !== null &&
              epochValue === epoch &&
              digest !== null;
            assert.equal(state === "done", isAllowed, `${text} ${JSON.stringify(of)}: ${state}`);
            if (state === "done") written++;
            // One of each kind is enough for the slower half.
            if (state !== "done" && bits % 5 !== 0) continue;
            const before = await store.lookUp(node.id, [spec]);
            assert.deepEqual(before.receipts, [{ kind: "absent" }]);
            if (state === "done") await isWhole(spec);
          }
    }
    assert.equal(written, 6, "three tags with either digest");
  });

  it("by any other command, or in any other table, is refused", async () => {
    const { epoch } = server;
    const spec = victims();
    const row = `'${spec.id}', '${newId()}', '${epoch}', 0`;
    const columns = "(id, tag, epoch, digest)";
    const refused = [
      `INSERT INTO ${partition} ${columns} VALUES (${row})`,
      `INSERT INTO highwater.receipt ${columns} VALUES (${row}) ON CONFLICT (id, tag) DO NOTHING`,
      `INSERT INTO highwater.receipt ${columns} VALUES (${row}) ON CONFLICT (id, tag) DO UPDATE SET epoch = excluded.epoch`,
      `INSERT INTO highwater.receipt ${columns} VALUES (${row}) RETURNING tag`,
      `INSERT INTO highwater.receipt ${columns} SELECT id, tag, epoch, digest FROM highwater.receipt`,
      `INSERT INTO highwater.receipt VALUES (${row}, 'lost')`,
      `COPY highwater.receipt ${columns} FROM PROGRAM 'true'`,
      `COPY highwater.receipt TO STDOUT`,
      "SELECT tag FROM highwater.receipt",
      "UPDATE highwater.receipt SET kind = 'lost'",
      "DELETE FROM highwater.receipt",
      "TRUNCATE highwater.receipt",
      "DO $$ BEGIN LOCK TABLE highwater.receipt IN ROW EXCLUSIVE MODE; END $$",
      "DO $$ BEGIN LOCK TABLE highwater.receipt IN ACCESS EXCLUSIVE MODE; END $$",
      "CREATE TRIGGER t BEFORE INSERT ON highwater.receipt EXECUTE FUNCTION pg_catalog.suppress_redundant_updates_trigger()",
      "CREATE POLICY p ON highwater.receipt USING (true)",
      "ALTER TABLE highwater.receipt DISABLE ROW LEVEL SECURITY",
      `CREATE TABLE mine (id uuid, tag uuid, FOREIGN KEY (id, tag) REFERENCES highwater.receipt)`,
      `CREATE TABLE mine PARTITION OF highwater.receipt FOR VALUES FROM ('${uuidFloor(0)}') TO ('${uuidFloor(1)}')`,
    ];
    for (const text of refused) {
      const state = await stateOf(text);
      // COPY FROM is not supported with row level security.
      assert.ok([PRIVILEGE, "0A000"].includes(state), `${text}: ${state}`);
    }
    await mallory.query("SET row_security TO off");
    assert.equal(await stateOf(`INSERT INTO highwater.receipt ${columns} VALUES (${row})`), PRIVILEGE);
    await mallory.query("RESET row_security");
    await isWhole(spec);
  });

  it("in a partition made under generous default privileges, is refused too", async () => {
    await server.sql("ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO PUBLIC, highwater_app, mallory");
    try {
      const longer = server.another("longer", { retentionMs: 2 * RETENTION_MS });
      await longer.maintain(server.node.id, { expireBeforeMs: null });
      const [found] = await server.sql(
        `SELECT i.inhrelid::regclass::text AS name, right(i.inhrelid::regclass::text, 25) AS bounds
         FROM pg_inherits i WHERE i.inhparent = 'highwater.receipt'::regclass ORDER BY 1 DESC LIMIT 1`,
      );
      const from = String(found?.["bounds"]).slice(0, 12);
      const id = `${from.slice(0, 8)}-${from.slice(8, 12)}-7000-8000-000000000001`;
      const row = `'${id}', '${newId()}', '${server.epoch}', 0`;
      const text = `INSERT INTO ${String(found?.["name"])} (id, tag, epoch, digest) VALUES (${row})`;
      assert.equal(await stateOf(text), PRIVILEGE);
    } finally {
      await server.sql("ALTER DEFAULT PRIVILEGES REVOKE ALL ON TABLES FROM PUBLIC, highwater_app, mallory");
      // With such rights the service runs nothing as the role.
      await server.sql("REVOKE ALL ON ALL TABLES IN SCHEMA highwater FROM mallory");
    }
  });

  it("and is held open under a victim's id blocks no other transaction", async () => {
    const hurried = server.another("hurried", { statementTimeoutMs: 20_000, roleUrl });
    const spec = victims();
    await mallory.query("BEGIN");
    await mallory.query("INSERT INTO highwater.receipt (id, tag, epoch, digest) VALUES ($1, $2, $3, 7)", [
      spec.id,
      newId(),
      server.epoch,
    ]);
    commitOf(await hurried.execute(server.node.id, spec));
    const other = victims();
    await mallory.query("INSERT INTO highwater.receipt (id, tag, epoch, digest) VALUES ($1, $2, $3, 7)", [
      other.id,
      newId(),
      server.epoch,
    ]);
    const settling = {
      epoch: server.epoch,
      keys: [spec, other],
      tombstone: "aborted",
      patienceMs: 60_000,
    } as const;
    const { receipts } = await hurried.settle(server.node.id, settling);
    assert.deepEqual(
      receipts.map(({ kind }) => kind),
      ["commit", "aborted"],
    );
    await mallory.query("COMMIT");
    assert.deepEqual(await hurried.execute(server.node.id, other), { kind: "already_settled" });
  });

  it("among very many under one id does not slow its look-up down", async () => {
    const spec = victims();
    const many =
      "INSERT INTO highwater.receipt (id, tag, epoch, digest) SELECT $1, gen_random_uuid(), $2, 0 FROM generate_series(1, 20000)";
    await mallory.query(many, [spec.id, server.epoch]);
    await isWhole(spec);
    const plan = await server.sql(`EXPLAIN (ANALYZE) ${RECEIPTS}`, [[spec.id], [spec.tag]]);
    const text = plan.map((row) => String(row["QUERY PLAN"])).join("\n");
    assert.match(text, /Index Cond: .*tag = /);
    assert.doesNotMatch(text, /Rows Removed/);
  });

  it("by MERGE, or with a conflict in mind, is held to the same", async () => {
    const { epoch } = server;
    const columns = "(id, tag, epoch, digest)";
    for (const [inEpoch, expected] of [
      [epoch, "done"],
      [FOREIGN, PRIVILEGE],
    ] as const) {
      const spec = victims();
      const rowOf = (): string => `'${spec.id}', '${newId()}', '${inEpoch}', 0`;
      const merge = `MERGE INTO highwater.receipt r USING (SELECT 1) one ON false WHEN NOT MATCHED THEN INSERT ${columns} VALUES`;
      assert.equal(await stateOf(`${merge} (${rowOf()})`), expected);
      const quiet = `INSERT INTO highwater.receipt ${columns} VALUES (${rowOf()}) ON CONFLICT DO NOTHING`;
      assert.equal(await stateOf(quiet), expected);
      await isWhole(spec);
    }
  });

  it("from within a transaction of the service's is no better", async () => {
    const { store, node, epoch } = server;
    const spec = victims();
    const forging = specOf(
      epoch,
      [
        {
          sql: "INSERT INTO highwater.receipt (id, tag, epoch, digest) VALUES ($1, $2, $3, 0)",
          params: [spec.id, newId(), epoch],
        },
      ],
      { role: "mallory" },
    );
    commitOf(await store.execute(node.id, forging));
    await isWhole(spec);
  });
});

describe("a tag", () => {
  it("is in no error, whatever refuses the receipt", async () => {
    const { store, node } = server;
    const errors: HighwaterError[] = [];
    for (const role of ["victim", null]) {
      const inOther = victims({ role, epoch: FOREIGN as EpochId });
      const error = await errorOf(store.execute(node.id, inOther));
      assert.equal(
        error.code,
        "epoch_changed",
        "by the policy for the role, by NOT NULL for the owner of the table",
      );
      errors.push(
        error,
        await errorOf(store.execute(node.id, victims({ role, id: newId(-100 * RETENTION_MS) }))),
      );
      const held = await store.begin(node.id, victims({ role }));
      assert.ok(held.kind === "open");
      const holder = victims({ role });
      const first = await store.begin(node.id, holder);
      assert.ok(first.kind === "open");
      const hurried = server.another(`hurried-${String(role)}`, { statementTimeoutMs: 100, roleUrl });
      errors.push(await errorOf(hurried.execute(node.id, holder)));
      await first.transaction.rollback();
      await held.transaction.rollback();
    }
    for (const { code, outcome } of errors) assert.notEqual(code, "internal", outcome);
    const reported = errors
      .map((error) => `${JSON.stringify(error.toProblem())}${everythingOf(error)}`)
      .join("\n");
    for (const tag of tags) assert.ok(!reported.includes(tag), "an error reveals a tag");
  });

  it("is in none of the server's log lines of application roles and of settling", async () => {
    const { store, node, epoch } = server;
    const keys = [keyOf(newId()), keyOf(newId())];
    const settling = { keys, tombstone: "lost", patienceMs: 100 } as const;
    const error = await errorOf(store.settle(node.id, { ...settling, epoch: FOREIGN as EpochId }));
    assert.equal(error.code, "epoch_changed");
    await store.settle(node.id, { ...settling, epoch });
    const dataDir = server.cluster.nodes[0]?.dataDir ?? "";
    const log = await readFile(path.join(dataDir, "..", "..", "logs", `${node.id}.log`), "utf8");
    assert.ok(log.includes("row-level security"), "the refusals are in the log");
    const service = /Failing row contains \(([^)]*)\)/g;
    // The table's owner is not held to policies: NOT NULL refuses it, and the server logs the row. See the reference of keys.
    const known = [...log.matchAll(service)].map(([, row]) => String(row)).join();
    for (const tag of [...tags, ...keys.map((key) => key.tag)])
      assert.ok(!log.includes(tag) || known.includes(tag), "the log reveals a tag");
  });
});

/** Of the error and its causes all that a log or a way in could relay. */
function everythingOf(error: unknown): string {
  if (!(error instanceof Error)) return "";
  const own = Object.fromEntries(
    Object.getOwnPropertyNames(error).map((name) => [name, Reflect.get(error, name)]),
  );
  return `${JSON.stringify(own)}${everythingOf(error.cause)}`;
}
