// Goal: a client encoding whose characters contain bytes of ASCII smuggles no statement past the gateway's guard over HTTP, however
// it was set, and reaches no other request. Method: texts whose last byte of UTF-8 takes the next byte along in that encoding, in
// transactions that must not commit, on a pool of one session.
import assert from "node:assert/strict";
import { after, before, beforeEach, describe, it } from "node:test";
import { type Cluster, startCluster } from "@highwater/lab-cluster";
import { Database } from "../support/database.ts";
import { statementsOf, TestGateway } from "../support/gateway.ts";

const ENCODINGS = ["SJIS", "BIG5", "GBK", "UHC", "JOHAB", "GB18030"];
/** Their last byte begins a character in some of the encodings, or ends one behind the byte before. */
const LETTERS = ["Á", "é", "ÿ", "ぁ", "㡁", "가", "丁", "\u{20001}"];
/** What the guard refuses where it sees it, behind something that another encoding may read otherwise. */
const TRICKS = (letter: string): string[] => [
  `${letter}COMMIT`,
  `${letter};COMMIT`,
  `/*${letter}*/COMMIT`,
  `/*${letter}*/;COMMIT/*${letter}*/`,
  `--${letter}\nCOMMIT`,
  `SELECT '${letter}';COMMIT;--'`,
  `SELECT '${letter}\\';COMMIT;--'`,
  `SELECT E'${letter}\\';COMMIT;--'`,
  `SELECT 1 AS "${letter}";COMMIT;--"`,
  `SELECT $${letter}$ $${letter}$;COMMIT`,
  `SELECT '${letter}'||'\`;COMMIT;--'`,
];
/** Ways to set it inside of a transaction. */
const WAYS = (encoding: string): string[] => [
  `SET client_encoding = '${encoding}'`,
  `SET NAMES '${encoding}'`,
  `SELECT set_config('client_encoding', '${encoding}', false)`,
];

let cluster: Cluster;
let gateway: TestGateway;
let database: Database;

before(async () => {
  cluster = await startCluster({ nodes: [{ id: "a", region: "us-east" }] });
  database = new Database(cluster, "a");
  gateway = await TestGateway.start(cluster, { env: { GATEWAY_POOL_SIZE: "1" } });
  await gateway.ready();
  await gateway.run("CREATE TABLE smuggled (way text)");
});

after(async () => {
  await gateway.close();
  await cluster.close();
});

/** It is that of the pool, and letters come and go as they are. */
async function isUtf8(): Promise<void> {
  const text = "Ábcぁ가\u{20001}";
  const { results } = await gateway.run("SHOW client_encoding", `SELECT '${text}', length('${text}')`);
  assert.deepEqual(
    results?.map(({ rows }) => rows[0]),
    [["UTF8"], [text, "6"]],
  );
}

const attempts = (): { encoding: string; trick: string }[] =>
  ENCODINGS.flatMap((encoding) =>
    LETTERS.flatMap((letter) => TRICKS(letter).map((trick) => ({ encoding, trick }))),
  );

describe("a client encoding whose characters have bytes of ASCII", () => {
  beforeEach(async () => {
    assert.equal(await database.count("smuggled"), 0);
  });

  it("ends no transaction of one request", { timeout: 240_000 }, async () => {
    for (const [at, { encoding, trick }] of attempts().entries()) {
      const set = WAYS(encoding)[at % WAYS(encoding).length] ?? "";
      const insert = `INSERT INTO smuggled VALUES ('${encoding}')`;
      const { status } = await gateway.post(statementsOf([set, insert, trick, "SELECT 1 / 0"]));
      assert.ok(status >= 400 && status < 500, `${encoding} ${trick}: ${String(status)}`);
    }
    assert.equal(await database.count("smuggled"), 0);
    await isUtf8();
  });

  it("ends no open transaction", { timeout: 240_000 }, async () => {
    for (const { encoding, trick } of attempts().filter((_, at) => at % 7 === 0)) {
      const open = await gateway.open(statementsOf([`SET client_encoding = '${encoding}'`]));
      await open.send("statements", statementsOf([`INSERT INTO smuggled VALUES ('${encoding}')`]));
      await open.send("statements", statementsOf([trick]));
      // One that has failed is over.
      await open.send("rollback");
      assert.equal(await database.count("smuggled"), 0, `${encoding} ${trick}`);
      await isUtf8();
    }
  });

  it("reaches no other request, in whatever way it was set", async () => {
    for (const encoding of ENCODINGS)
      for (const set of WAYS(encoding)) {
        const { body } = await gateway.commit(statementsOf([set, "SHOW client_encoding"]));
        assert.deepEqual(body.results?.[1]?.rows, [[encoding]], set);
        await isUtf8();
        // In one that fails behind it.
        await gateway.post(statementsOf([set, "SELECT 1 / 0"]));
        await isUtf8();
        const read = await gateway.commit({ ...statementsOf([WAYS(encoding)[2] ?? ""]), readOnly: true });
        assert.equal(read.status, 200);
        await isUtf8();
      }
  });

  it("comes from no setting of a role or a database", async () => {
    const [{ role }] = (await cluster.query("a", "SELECT current_user AS role")) as [{ role: string }];
    for (const whose of [`ROLE ${role}`, "ROLE ALL", "DATABASE app"]) {
      await cluster.query("a", `ALTER ${whose} SET client_encoding = 'SJIS'`);
      try {
        const fresh = await TestGateway.start(cluster, { env: { GATEWAY_POOL_SIZE: "1" } });
        try {
          await fresh.ready();
          const shown = async (): Promise<unknown> =>
            (await fresh.run("SHOW client_encoding", "SELECT 'Áぁ'")).results?.map(
              ({ rows }) => rows[0]?.[0],
            );
          assert.deepEqual(await shown(), ["UTF8", "Áぁ"], whose);
          await fresh.run("SET client_encoding = 'GBK'");
          assert.deepEqual(await shown(), ["UTF8", "Áぁ"], whose);
          await fresh.run("RESET client_encoding");
          assert.deepEqual(await shown(), ["UTF8", "Áぁ"], whose);
        } finally {
          await fresh.close();
        }
      } finally {
        await cluster.query("a", `ALTER ${whose} RESET client_encoding`);
      }
    }
  });
});
