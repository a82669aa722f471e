// Goal: no user SQL begins or ends the service's transaction, or runs or replaces the service's own statements. Method: the test
// runs and replaces every prepared statement from within the session, and sends statements past the text guard.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { type EpochId, type NodeSpec, type TxnId } from "@highwater/protocol";
import { realClock } from "@highwater/runtime";
import { type OpenTransaction, type TransactionSpec } from "../src/port.ts";
import { type PostgresStore } from "../src/postgres/adapter.ts";
import { sessionLost } from "../src/postgres/failures.ts";
import { OutOfStep, type Step } from "../src/postgres/pipeline.ts";
import { quiet } from "../src/postgres/plan.ts";
import { PreparedStatements } from "../src/postgres/prepared.ts";
import { runPipeline, type Session } from "../src/postgres/session.ts";
import { commitOf, connect, errorOf, keyOf, newId, OneServer, specOf } from "./postgres-cluster.ts";

const NAMES = "SELECT name, statement FROM pg_prepared_statements";
const READER = { readOnly: true, principal: "reader" } as const;

describe("the service's own statements", () => {
  let server: OneServer;
  let node: NodeSpec;
  let store: PostgresStore;
  let epoch: EpochId;
  let sql: OneServer["sql"];

  before(async () => {
    server = await OneServer.start({ poolSize: 1 });
    ({ node, store, epoch, sql } = server);
    await sql(`CREATE FUNCTION replace_all(text) RETURNS int LANGUAGE plpgsql AS $$
      DECLARE known record; n int := 0; BEGIN
        FOR known IN SELECT name FROM pg_prepared_statements LOOP
          EXECUTE format('DEALLOCATE %I', known.name);
          EXECUTE format('PREPARE %I AS %s', known.name, $1);
          n := n + 1;
        END LOOP; RETURN n; END $$`);
  });

  after(() => server.close());

  async function open(
    more: Partial<TransactionSpec> = {},
  ): Promise<OpenTransaction & { readonly id: TxnId }> {
    const spec = specOf(epoch, [], more);
    const opening = await store.begin(node.id, spec);
    assert.ok(opening.kind === "open", opening.kind);
    return Object.assign(opening.transaction, { id: spec.id });
  }

  /** Leaves every statement in the session that the service prepares with any execution options. */
  async function warm(principal: string): Promise<void> {
    for (const readOnly of [false, true])
      for (const isolation of ["read committed", "repeatable read"] as const) {
        const more = { readOnly, isolation, principal };
        commitOf(await store.execute(node.id, specOf(epoch, ["SELECT 1"], more)));
        commitOf(await (await open(more)).commit([{ sql: "SELECT 1" }]));
      }
  }

  const statementsOf = async (transaction: OpenTransaction): Promise<[name: string, text: string][]> => {
    const [listed] = await transaction.run([{ sql: NAMES }]);
    return (listed?.rows ?? []) as [string, string][];
  };

  const pidOf = async (principal: string): Promise<string | null | undefined> =>
    commitOf(await store.execute(node.id, specOf(epoch, ["SELECT pg_backend_pid()"], { principal })))
      .results[0]?.rows[0]?.[0];

  const kindOf = async (id: TxnId): Promise<string | undefined> =>
    (await store.lookUp(node.id, [keyOf(id)])).receipts[0]?.kind;

  const isThere = async (key: string): Promise<boolean> =>
    (await sql("SELECT FROM kv WHERE key = $1", [key])).length > 0;

  for (const readOnly of [true, false])
    it(`EXECUTE of any of them ends no ${readOnly ? "reading" : "writing"} transaction, and lets no reader write`, async () => {
      await warm("reader");
      const probe = await open({ ...READER, readOnly });
      const known = await statementsOf(probe);
      await probe.rollback();
      assert.ok(known.length > 0);
      const isLost: string[] = [];
      for (const [name, text] of [...known, ["", "the unnamed one"]] as const) {
        const transaction = await open({ ...READER, readOnly });
        const insert = { sql: `INSERT INTO kv VALUES ('by ${name} ${String(readOnly)}', '1')` };
        await transaction.run([{ sql: "SAVEPOINT here" }]);
        await transaction.run([{ sql: `EXECUTE "${name}"` }]).catch(() => undefined);
        await transaction.run([{ sql: "ROLLBACK TO here" }]).catch(() => undefined);
        const failure = await transaction.run([insert]).then(
          () => null,
          (cause: unknown) => (cause as { details: { sqlstate?: string } }).details.sqlstate,
        );
        // Its ROLLBACK TO under a name looks like the end of the transaction, so the session is lost.
        if (!transaction.isOver) assert.equal(failure, readOnly ? "25006" : null, text);
        else isLost.push(text);
        await transaction.rollback();
        assert.equal(await isThere(`by ${name} ${String(readOnly)}`), false, text);
      }
      assert.ok(isLost.length < known.length, "not all of them were lost");
      assert.deepEqual(
        isLost.filter((text) => !/^(?:ROLLBACK TO|EXECUTE)/.test(text)),
        [],
      );
    });

  it("have no names but the receipt's insert", async () => {
    await warm("namer");
    const transaction = await open({ principal: "namer" });
    const own = (await statementsOf(transaction)).filter(([, text]) => text !== NAMES && text !== "SELECT 1");
    assert.deepEqual(
      own.map(([, text]) => text.split(" (", 1)[0]),
      ["INSERT INTO highwater.receipt"],
    );
    await transaction.rollback();
  });

  it("are replaced in one session only, which is never used again; its answer is true", async () => {
    for (const replacement of [
      "SELECT 1",
      "INSERT INTO kv VALUES (gen_random_uuid()::text, '1')",
      "TABLE kv",
    ]) {
      await warm("writer");
      const pid = await pidOf("writer");
      const spec = specOf(epoch, [{ sql: "SELECT replace_all($1)", params: [replacement] }], {
        principal: "writer",
      });
      const { offset, results } = commitOf(await store.execute(node.id, spec));
      assert.ok(Number(results[0]?.rows[0]?.[0]) > 0, "it replaced some");
      assert.equal(await kindOf(spec.id), "commit");
      assert.ok(offset <= (await store.lookUp(node.id, [])).asOf, "its position is on the log");
      const next = specOf(epoch, ["INSERT INTO kv VALUES ('next', '1')", "DELETE FROM kv"], {
        principal: "writer",
      });
      commitOf(await store.execute(node.id, next));
      assert.equal(await kindOf(next.id), "commit");
      assert.notEqual(await pidOf("writer"), pid);
    }
  });

  it("are replaced in an interactive transaction: its end is its own all the same", async () => {
    await warm("writer");
    const transaction = await open({ principal: "writer" });
    const replacement = "SELECT ''F/FFFFFFFF'', s.id::text FROM highwater.epoch_sentinel s";
    await transaction.run([{ sql: `SELECT replace_all('${replacement}')` }]);
    await transaction.run([{ sql: "INSERT INTO kv VALUES ('kept', '1')" }]);
    const { offset } = commitOf(await transaction.commit([]));
    assert.ok(offset <= (await store.lookUp(node.id, [])).asOf);
    assert.deepEqual([await kindOf(transaction.id), await isThere("kept")], ["commit", true]);
  });

  it("and a replaced receipt's insert: the transaction is not called committed", async () => {
    const session = await rawSession();
    const receipt =
      "INSERT INTO highwater.receipt (id, tag, epoch, digest) SELECT gen_random_uuid(), gen_random_uuid(), NULL, 7 WHERE false";
    const insert: Step = { ...quiet(receipt), isNamed: true };
    const steps = [quiet("BEGIN"), insert, quiet("COMMIT")];
    await assert.rejects(run(session, steps, "I"), OutOfStep);
    assert.equal(session.isLost, true);
  });

  describe("a session that leaves its transaction", () => {
    const users = (text: string): Step => ({
      sql: text,
      params: [],
      describe: true,
      maxRows: 10,
      countAll: false,
    });
    const BEGIN = quiet("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE");

    for (const [what, steps, leaves] of [
      [
        "COMMIT among the statements of a one-shot",
        [BEGIN, users("COMMIT"), users("SELECT 1"), quiet("COMMIT")],
        "I",
      ],
      ["COMMIT and BEGIN in an open one", [BEGIN, users("COMMIT"), users("BEGIN")], "T"],
      ["ROLLBACK in an open one", [BEGIN, users("ROLLBACK"), users("SELECT 1")], "T"],
      ["COMMIT, and an error behind it", [BEGIN, users("COMMIT"), users("SELECT 1 / 0")], "T"],
      ["a call without a transaction", [users("SELECT 1")], "T"],
      ["a call without a transaction that fails", [users("SELECT 1 / 0")], "T"],
      ["a one-shot without its end", [BEGIN, users("SELECT 1")], "I"],
    ] as const)
      it(`is lost, and the outcome unknown: ${what}`, async () => {
        const session = await rawSession();
        const cause = await run(session, steps, leaves).then(
          () => assert.fail("it was taken for a success"),
          (thrown: unknown) => thrown,
        );
        assert.ok(cause instanceof OutOfStep, String(cause));
        assert.equal(session.isLost, true);
        const error = sessionLost(newId(), cause);
        assert.deepEqual([error.code, error.outcome], ["commit_unconfirmed", "unknown"]);
      });

    it("going back to a savepoint is not that", async () => {
      const session = await rawSession();
      const back = { ...users("ROLLBACK TO here"), mayRollBack: true } as const;
      const outcome = await run(session, [BEGIN, users("SAVEPOINT here"), back], "T");
      assert.deepEqual([outcome.status, outcome.results.at(-1)?.command], ["T", "ROLLBACK"]);
      session.client.release(true);
    });
  });

  it("a read that was refused leaves its session as it was", async () => {
    const error = await errorOf(store.execute(node.id, specOf(epoch, ["DELETE FROM kv"], READER)));
    assert.equal(error.details.sqlstate, "25006");
    await warm("reader");
  });

  async function rawSession(): Promise<Session> {
    const client = Object.assign(await connect(node.url), { release: () => void client.end() });
    return {
      client: client as unknown as Session["client"],
      ...{
        prepared: new PreparedStatements(),
        segmentBytes: 16_777_216n,
        principal: "p",
        mustDiscard: false,
        holder: "0/0",
        vettedMs: 0,
      },
      ...{ wasCancelled: false, isLost: false },
    };
  }

  const run = (session: Session, steps: readonly Step[], leaves: "I" | "T") => {
    const canceller = {
      clock: realClock,
      cancelBackend: () => Promise.resolve(),
      terminateBackend: () => Promise.resolve(),
      giveUp: () => undefined,
    };
    return runPipeline(session, canceller, {
      steps,
      maxBytes: 10_000,
      fieldDetails: false,
      signal: undefined,
      leaves,
    });
  };
});
