// Goal: of two transactions that wrote one row, the later one's snapshot shows the earlier one, and
// never the other way round. Method: clients that all increment one counter at once, in every
// isolation and both forms, and the counter says who came first.
import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { HighwaterError, type Isolation, mayHaveSeen, readOrder } from "@highwater/protocol";
import { type Execution } from "../src/port.ts";
import { commitOf, OneServer, specOf } from "./postgres-cluster.ts";

const CLIENTS = 8;
const EACH = 40;
const BUMP = "UPDATE counter SET n = n + 1 RETURNING n";
const ISOLATIONS: readonly Isolation[] = ["read committed", "repeatable read", "serializable"];

let server: OneServer;

before(async () => {
  server = await OneServer.start({ poolSize: 4, connectTimeoutMs: 60_000 });
  await server.sql("CREATE TABLE counter (n int NOT NULL)");
  await server.sql("INSERT INTO counter VALUES (0)");
});

after(() => server.close());

function spec(isolation: Isolation) {
  return specOf(server.epoch, [BUMP], { isolation, tellsOrder: true });
}

async function oneShot(isolation: Isolation): Promise<Execution> {
  return server.store.execute(server.node.id, spec(isolation));
}

async function interactive(isolation: Isolation): Promise<Execution> {
  const opening = await server.store.begin(server.node.id, spec(isolation));
  assert.ok(opening.kind === "open");
  const execution = commitOf(await opening.transaction.commit([]));
  return { ...execution, results: opening.results };
}

/** Again and again, until no other transaction is in its way. */
async function committed(run: () => Promise<Execution>) {
  for (;;)
    try {
      const { results, order } = commitOf(await run());
      assert.ok(order !== undefined);
      return { n: Number(results?.[0]?.rows[0]?.[0]), epoch: server.epoch, order: readOrder(order) };
    } catch (cause) {
      if (!(cause instanceof HighwaterError) || cause.code !== "serialization_failure") throw cause;
    }
}

for (const [form, run] of Object.entries({ "one-shot": oneShot, interactive }))
  for (const isolation of ISOLATIONS)
    it(`${form} transactions in ${isolation} are ordered as they wrote`, async () => {
      const clients = Array.from({ length: CLIENTS }, async () => {
        const own = [];
        for (let count = 0; count < EACH; count++) own.push(await committed(() => run(isolation)));
        return own;
      });
      const all = (await Promise.all(clients)).flat().sort((a, b) => a.n - b.n);
      assert.equal(new Set(all.map(({ n }) => n)).size, CLIENTS * EACH);
      for (const [at, later] of all.slice(1).entries()) {
        const earlier = all[at];
        assert.ok(earlier !== undefined);
        const [first, second] = [String(earlier.n), String(later.n)];
        assert.ok(mayHaveSeen(later, earlier), `${second} shows ${first}`);
        assert.ok(!mayHaveSeen(earlier, later), `${first} does not show ${second}`);
      }
    });
