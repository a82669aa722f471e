// What the compiler knows of rows: tsc checks the types, and the test that there are such rows. Code that must not compile is marked.
import assert from "node:assert/strict";
import { test } from "node:test";
import { sql, type StatementResult, type Transaction } from "../src/index.ts";
import { client, service } from "./client-support.ts";

interface Account {
  readonly owner: string;
}

const account = sql<Account>`SELECT owner FROM account`;
const plain = sql`UPDATE account SET owner = ${"Bert"}`;

test("the rows of a statement have its type, alone, last of several, and in an open transaction", async (context) => {
  const rows = [{ owner: "Ada" }];
  const fake = await service(context, {
    transactions: { ok: { rows } },
    begin: {
      ok: {
        results: [{ command: "SELECT", rowCount: 1, fields: [{ name: "owner", oid: 25 }], rows: [["Ada"]] }],
      },
    },
  });
  const hw = client(context, [fake]);

  const alone: Transaction<Account> = await hw.transaction(account);
  assert.equal(alone.rows[0]?.owner.length, 3);
  // @ts-expect-error there is no such column
  assert.equal(alone.rows[0]?.name, undefined);

  const named = await hw.transaction<Account>("SELECT owner FROM account".length > 0 ? plain : plain);
  assert.equal(named.rows[0]?.owner.length, 3);

  const several = await hw.transaction([plain, account]);
  assert.equal(several.rows[0]?.owner.length, 3);
  const last: StatementResult<Account> | undefined = several.results?.[1];
  assert.equal(last, undefined);

  const owner = await hw.transaction(async (tx) => {
    const result = await tx.query(account);
    return result.rows[0]?.owner;
  });
  assert.equal(owner?.length, 3);
  const [, typed] = await (await hw.begin()).execute([plain, account]);
  assert.equal(typed?.rows[0]?.owner, undefined);
});

test("a statement without a type has rows of anything", async (context) => {
  const fake = await service(context, { transactions: { ok: { rows: [{ owner: "Ada" }] } } });
  const { rows } = await client(context, [fake]).transaction(plain);
  assert.equal(rows[0]?.["owner"], "Ada");
});
