// Goal: programs that are written for the Neon serverless HTTP wire work unchanged. Method: its unmodified driver, and for
// what the driver never sends plain requests, against a real gateway on a real primary.
import assert from "node:assert/strict";
import { after, before, beforeEach, describe, it } from "node:test";
import { neon, neonConfig, NeonDbError, type NeonQueryFunction, Pool } from "@neondatabase/serverless";
import { type Cluster, startCluster } from "@highwater/lab-cluster";
import { decodeToken, parseTxnId } from "@highwater/protocol";
import { realClock } from "@highwater/runtime";
import { PostgresKeys, DEFAULT_LIMITS, type Scope } from "@highwater/store";
import { hashSecret, makeKeyText } from "@highwater/service";
import { type NeonError } from "../../src/neon/error.ts";
import { KNOWN_ARRAYS } from "../../src/neon/values.ts";
import { newId } from "../support/fakes.ts";
import { TestGateway } from "../support/gateway.ts";

const CONNECTION = "postgresql://app:nobody-looks-at-this@db.example.test/shop?sslmode=require";
let cluster: Cluster;
let gateway: TestGateway;
let sql: NeonQueryFunction<false, false>;

/** What a wrapper of the driver's fetch sees, and the headers that it adds. */
let answered: { headers: Headers; body: Record<string, unknown> }[] = [];
let wishes: Record<string, string> = {};

before(async () => {
  cluster = await startCluster({ nodes: [{ id: "a", region: "us-east" }] });
  gateway = await TestGateway.start(cluster, {
    env: {
      GATEWAY_BODY_LIMIT_BYTES: "4194304",
      GATEWAY_MAX_ROWS: "1000",
    },
  });
  await gateway.ready();
  neonConfig.fetchFunction = async (url: string, init: RequestInit & { headers: Record<string, string> }) => {
    const response = await fetch(url, { ...init, headers: { ...init.headers, ...wishes } });
    const body = (await response.clone().json()) as Record<string, unknown>;
    answered.push({ headers: response.headers, body });
    return response;
  };
  sql = neon(CONNECTION);
  await gateway.run(
    "CREATE TABLE account (id int PRIMARY KEY, owner text NOT NULL, balance numeric NOT NULL CHECK (balance >= 0))",
  );
});

beforeEach(() => {
  neonConfig.fetchEndpoint = `${gateway.url}/sql`;
  answered = [];
  wishes = {};
});

after(async () => {
  await gateway.close();
  await cluster.close();
});

async function failed(query: Promise<unknown>): Promise<NeonDbError> {
  try {
    await query;
  } catch (error) {
    assert.ok(error instanceof NeonDbError, String(error));
    return error;
  }
  return assert.fail("it did not fail");
}

interface Raw {
  readonly status: number;
  readonly headers: Headers;
  readonly body: NeonError & Readonly<Record<string, unknown>>;
}

async function send(body: unknown, headers: Record<string, string> = {}): Promise<Raw> {
  const response = await fetch(`${gateway.url}/sql`, {
    method: "POST",
    headers: { "neon-connection-string": CONNECTION, ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
  assert.match(response.headers.get("content-type") ?? "", /^application\/json/);
  return { status: response.status, headers: response.headers, body: (await response.json()) as Raw["body"] };
}

describe("the driver", () => {
  it("tagged templates, composed and with parameters", async () => {
    const rows = await sql`INSERT INTO account VALUES (${1}, ${"it's mine"}, ${"10.50"}) RETURNING *`;
    assert.deepEqual(rows, [{ id: 1, owner: "it's mine", balance: "10.50" }]);
    const where = sql`WHERE id = ${1}`;
    assert.deepEqual(await sql`SELECT owner FROM ${sql.unsafe("account")} ${where}`, [
      { owner: "it's mine" },
    ]);
    assert.deepEqual(await sql`SELECT 1 WHERE false`, []);
  });

  it("query(), array mode and full results", async () => {
    assert.deepEqual(await sql.query("SELECT $1::int AS n, 'x' AS t", [7]), [{ n: 7, t: "x" }]);
    assert.deepEqual(await sql.query("SELECT $1::int AS n, 'x' AS t", [7], { arrayMode: true }), [[7, "x"]]);
    const full = await sql.query("SELECT id, balance::numeric(10,2) FROM account WHERE id = 1", [], {
      fullResults: true,
    });
    const { fields, rows, rowCount, command, rowAsArray } = full;
    assert.deepEqual(
      { rows, rowCount, command, rowAsArray },
      {
        ...{ rows: [{ id: 1, balance: "10.50" }], rowCount: 1, command: "SELECT", rowAsArray: false },
      },
    );
    const [oid] = await cluster.query("a", "SELECT 'account'::regclass::oid::int AS oid");
    assert.deepEqual(fields, [
      {
        ...{ name: "id", dataTypeID: 23, tableID: oid?.["oid"], columnID: 1 },
        ...{ dataTypeSize: 4, dataTypeModifier: -1, format: "text" },
      },
      {
        ...{ name: "balance", dataTypeID: 1700, tableID: 0, columnID: 0 },
        ...{ dataTypeSize: -1, dataTypeModifier: 655366, format: "text" },
      },
    ]);
  });

  it("commands without rows, and their counts", async () => {
    const reported = async (text: string): Promise<unknown> => {
      const { command, rowCount } = await sql.query(text, [], { fullResults: true });
      return [command, rowCount];
    };
    assert.deepEqual(await reported("CREATE TABLE counted (n int)"), ["CREATE", null]);
    assert.deepEqual(await reported("INSERT INTO counted SELECT generate_series(1, 5)"), ["INSERT", 5]);
    assert.deepEqual(await reported("UPDATE counted SET n = n WHERE n > 3"), ["UPDATE", 2]);
    assert.deepEqual(await reported("SELECT * FROM counted"), ["SELECT", 5]);
    assert.deepEqual(await reported("SHOW work_mem"), ["SHOW", null]);
    assert.deepEqual(await reported("DROP TABLE counted"), ["DROP", null]);
  });

  it("types, there and back", async () => {
    const moment = new Date("2024-02-29T12:34:56.789Z");
    const bytes = Buffer.from([0, 1, 0xfe, 0xff]);
    const [row] = await sql`SELECT
      ${"9007199254740993"}::int8 AS big, ${"0.10"}::numeric AS exact, ${moment}::timestamptz AS moment,
      ${{ a: [1, null, "x"] }}::jsonb AS json, ${bytes}::bytea AS bytes, ${[1, 2, null]}::int[] AS ints,
      ${["a,b", 'say "hi"', "back\\slash", "", "NULL", "two\nlines"]}::text[] AS texts,
      ${null}::text AS none, ${true}::bool AS yes, ${1.5}::float8 AS half, ${"ü🙂"}::text AS text`;
    assert.deepEqual(row, {
      ...{ big: "9007199254740993", exact: "0.10", moment, json: { a: [1, null, "x"] }, bytes },
      ...{ ints: [1, 2, null], texts: ["a,b", 'say "hi"', "back\\slash", "", "NULL", "two\nlines"] },
      ...{ none: null, yes: true, half: 1.5, text: "ü🙂" },
    });
  });

  it("a transaction: all or nothing, in order, with its options", async () => {
    const [inserted, read] = await sql.transaction([
      sql`INSERT INTO account VALUES (10, 'ten', 10), (11, 'eleven', 11) RETURNING id`,
      sql`SELECT count(*)::int AS n FROM account WHERE id IN (10, 11)`,
    ]);
    assert.deepEqual([inserted, read], [[{ id: 10 }, { id: 11 }], [{ n: 2 }]]);
    const failure = await failed(
      sql.transaction([
        sql`UPDATE account SET balance = 0 WHERE id = 10`,
        sql`INSERT INTO account VALUES (11, 'again', 1)`,
      ]),
    );
    assert.equal(failure.code, "23505");
    assert.deepEqual(await sql`SELECT balance FROM account WHERE id = 10`, [{ balance: "10" }]);
    const results = await sql.transaction((txn) => [txn`SELECT 1 AS n`, txn`SELECT 2 AS n`], {
      arrayMode: true,
      fullResults: true,
    });
    assert.deepEqual(
      results.map(({ rows, command }) => [rows, command]),
      [
        [[[1]], "SELECT"],
        [[[2]], "SELECT"],
      ],
    );
  });

  it("isolation, read-only and deferrable reach the server", async () => {
    const shown = [
      sql`SHOW transaction_isolation`,
      sql`SHOW transaction_read_only`,
      sql`SHOW transaction_deferrable`,
    ];
    const settings = async (options?: Parameters<typeof sql.transaction>[1]): Promise<unknown[]> =>
      (
        (await sql.transaction(shown, { ...options, arrayMode: true, fullResults: false })) as unknown[][]
      ).flat(2);
    assert.deepEqual(await settings(), ["read committed", "off", "off"]);
    assert.deepEqual(await settings({ isolationLevel: "ReadUncommitted" }), ["read committed", "off", "off"]);
    assert.deepEqual(await settings({ isolationLevel: "RepeatableRead" }), ["repeatable read", "off", "off"]);
    assert.deepEqual(await settings({ isolationLevel: "Serializable", deferrable: true }), [
      ...["serializable", "off", "off"],
    ]);
    const all = { isolationLevel: "Serializable", readOnly: true, deferrable: true } as const;
    assert.deepEqual(await settings(all), ["serializable", "on", "on"]);
    const echoed = answered.at(-1)?.headers;
    assert.equal(echoed?.get("neon-batch-isolation-level"), "Serializable");
    assert.equal(echoed?.get("neon-batch-read-only"), "true");
    assert.equal(echoed?.get("neon-batch-deferrable"), "true");
    assert.equal(
      (await failed(sql.transaction([sql`DELETE FROM account`], { readOnly: true }))).code,
      "25006",
    );
    assert.deepEqual(await sql.query("SHOW transaction_isolation", [], { arrayMode: true }), [
      ["read committed"],
    ]);
  });
});

describe("the driver's pool", () => {
  after(() => {
    neonConfig.poolQueryViaFetch = false;
  });

  it("sends its queries this way when it is configured to", async () => {
    neonConfig.poolQueryViaFetch = true;
    const pool = new Pool({ connectionString: CONNECTION });
    const { rows, command } = await pool.query("SELECT $1::int AS n", [7]);
    assert.deepEqual([rows, command, answered.length], [[{ n: 7 }], "SELECT", 1]);
    await pool.end();
  });
});

describe("errors, as the driver throws them", () => {
  it("a unique violation has everything the server said", async () => {
    await sql`INSERT INTO account VALUES (20, 'first', 1)`;
    const error = await failed(sql`INSERT INTO account VALUES (20, 'second', 1)`);
    assert.equal(error.message, 'duplicate key value violates unique constraint "account_pkey"');
    assert.deepEqual(
      [error.name, error.code, error.severity, error.detail],
      ["NeonDbError", "23505", "ERROR", "Key (id)=(20) already exists."],
    );
    assert.deepEqual(
      [error.schema, error.table, error.constraint, error.routine],
      ["public", "account", "account_pkey", "_bt_check_unique"],
    );
    const { highwater } = answered.at(-1)?.body as unknown as NeonError;
    assert.deepEqual(
      [highwater.code, highwater.outcome, highwater.retry],
      ["constraint_violation", "not_applied", "never"],
    );
    assert.ok(parseTxnId(highwater.transactionId ?? "") !== undefined);
  });

  it("a syntax error has its position, an unknown column a hint, a trigger's its place", async () => {
    assert.deepEqual((await failed(sql.query("SELECT * FORM account"))).position, "10");
    const column = await failed(sql.query("SELECT ownr FROM account"));
    assert.equal(column.code, "42703");
    assert.match(column.hint ?? "", /account\.owner/);
    const inner = await failed(sql.query("DO $$ BEGIN PERFORM 1/0; END $$"));
    assert.equal(inner.code, "22012");
    assert.match(inner.where ?? "", /PL\/pgSQL/);
  });

  it("transaction control, two statements in one query, a time limit", async () => {
    const begin = await failed(sql`BEGIN`);
    assert.equal(begin.code, "0A000");
    assert.match(begin.message, /BEGIN; the service begins and ends the transaction itself/);
    assert.match(begin.hint ?? "", /one batch/);
    assert.equal((await failed(sql.query("SELECT 1; SELECT 2"))).code, "42601");
    const hasty = await TestGateway.start(cluster, { env: { GATEWAY_STATEMENT_TIMEOUT_MS: "2000" } });
    await hasty.ready();
    neonConfig.fetchEndpoint = `${hasty.url}/sql`;
    assert.equal((await failed(sql.query("SELECT pg_sleep(600)"))).code, "57014");
    await hasty.close();
  });

  it("a request that is wrong", async () => {
    assert.match((await failed(sql.transaction([]))).message, /^\/queries: /);
    const many = Array.from({ length: 257 }, (_, n) => sql`SELECT ${n}::int`);
    assert.match((await failed(sql.transaction(many))).message, /256/);
    assert.match((await failed(sql.query("SELECT 1 -- \0"))).message, /zero character/);
    assert.equal((await failed(sql`SELECT ${"a\0b"}::text`)).code, "22021");
    assert.equal((await failed(sql.query("SELECT $1::int + $2::int", [1]))).code, "08P01");
    wishes = { "highwater-akc": "durable" };
    assert.match((await failed(sql`SELECT 1`)).message, /highwater-akc: is not a known header/);
  });

  it("a body over the limit", async () => {
    const error = await failed(sql`SELECT ${"x".repeat(5_000_000)}::text`);
    assert.match(error.message, /^Server error \(HTTP status 413\): .*exceeds /);
  });

  it("a result over the limit: a read is refused, a write has committed and says so", async () => {
    const reading = sql.transaction([sql`SELECT generate_series(1, 1001)`], { readOnly: true });
    const read = await failed(reading);
    assert.deepEqual(
      [read.code, (answered.at(-1)?.body as unknown as NeonError).highwater.outcome],
      [...["54000", "not_applied"]],
    );
    await sql`CREATE TABLE many (n int)`;
    const write = await failed(sql`INSERT INTO many SELECT generate_series(1, 1001) RETURNING n`);
    assert.match(write.message, /transaction committed/);
    const { transaction, highwater } = answered.at(-1)?.body as unknown as NeonError;
    assert.deepEqual([highwater.code, highwater.outcome], ["result_too_large", "applied"]);
    assert.ok(decodeToken(transaction?.token ?? "") !== undefined);
    assert.deepEqual(await sql`SELECT count(*)::int AS n FROM many`, [{ n: 1001 }]);
  });

  it("a service that has no primary", async () => {
    const lost = await TestGateway.start(cluster, {
      env: {
        HIGHWATER_TOPOLOGY: JSON.stringify({
          nodes: [{ id: "x", region: "us-east", zone: "a", url: "postgres://app@127.0.0.1:1/app" }],
          levels: { disk: { primary: true } },
        }),
      },
    });
    neonConfig.fetchEndpoint = `${lost.url}/sql`;
    const error = await failed(sql`SELECT 1`);
    assert.match(error.message, /^Server error \(HTTP status 503\): .*primary_unavailable/);
    assert.ok(Number(answered.at(-1)?.headers.get("retry-after")) >= 1);
    await lost.close();
  });
});

describe("what this service adds", () => {
  it("state and token, in the body and in headers, of single queries and of batches", async () => {
    await sql`INSERT INTO account VALUES (30, 'thirty', 1)`;
    await sql.transaction([sql`SELECT 1`, sql`SELECT 2`]);
    for (const { headers, body } of answered) {
      const transaction = body["transaction"] as Record<string, unknown>;
      const token = decodeToken(String(transaction["token"]));
      assert.equal(token?.id, transaction["id"]);
      assert.equal(transaction["state"], "committed");
      assert.deepEqual(
        ["highwater-token", "highwater-transaction-id", "highwater-state"].map((name) => headers.get(name)),
        [transaction["token"], transaction["id"], "committed"],
      );
      assert.equal((await gateway.state(String(transaction["id"]))).state, "committed");
    }
  });

  it("an acknowledgement at durability, and none in time", async () => {
    // Without trackers no mark is known, so this gateway can promise nothing.
    wishes = { "highwater-ack": "durable", "highwater-level": "disk", "highwater-max-wait-ms": "1" };
    assert.deepEqual(await sql`SELECT 1 AS n`, [{ n: 1 }]);
    const transaction = answered.at(-1)?.body["transaction"] as Record<string, unknown>;
    assert.deepEqual([transaction["state"], transaction["level"]], ["pending", "disk"]);
    wishes = { "highwater-level": "galaxy" };
    assert.match((await failed(sql`SELECT 1`)).message, /galaxy/);
  });

  it("exactly once: the same id again runs nothing and has the token", async () => {
    await sql`INSERT INTO account VALUES (40, 'forty', 0)`;
    wishes = { "highwater-transaction-id": newId() };
    const add = (): Promise<unknown> => sql`UPDATE account SET balance = balance + 1 WHERE id = 40`;
    await add();
    const first = answered.at(-1)?.headers.get("highwater-token") ?? "";
    const again = await failed(add());
    assert.match(again.message, /had already committed\..*results are not kept/);
    const { transaction, highwater } = answered.at(-1)?.body as unknown as NeonError;
    assert.deepEqual([highwater.outcome, highwater.retry, transaction?.replayed], ["applied", "never", true]);
    assert.equal(decodeToken(transaction?.token ?? "")?.id, decodeToken(first)?.id);
    const other = await failed(sql`SELECT 'something else'`);
    assert.match(other.message, /used for another transaction/);
    wishes = {};
    assert.deepEqual(await sql`SELECT balance::int AS n FROM account WHERE id = 40`, [{ n: 1 }]);
  });

  it("a read-only single query", async () => {
    wishes = { "highwater-read-only": "true" };
    assert.deepEqual(await sql`SHOW transaction_read_only`, [{ transaction_read_only: "on" }]);
    assert.equal((await failed(sql`DELETE FROM account`)).code, "25006");
  });
});

describe("plain requests", () => {
  it("typed values and objects by name, unless the headers say otherwise", async () => {
    const query =
      "SELECT 1 AS n, 9007199254740993::int8 AS big, 'a' AS s, '{1,NULL}'::int4[] AS arr, true AS b, 'NaN'::float8 AS f, '{\"x\": 9007199254740993}'::jsonb AS j";
    const rows = async (raw: boolean, array: boolean): Promise<string> => {
      const { status, body } = await send(
        { query },
        { "neon-raw-text-output": String(raw), "neon-array-mode": String(array) },
      );
      assert.equal(status, 200);
      assert.equal(body["rowAsArray"], array);
      return JSON.stringify(body["rows"]);
    };
    assert.equal(
      await rows(true, true),
      '[["1","9007199254740993","a","{1,NULL}","t","NaN","{\\"x\\": 9007199254740993}"]]',
    );
    assert.equal(
      await rows(true, false),
      '[{"n":"1","big":"9007199254740993","s":"a","arr":"{1,NULL}","b":"t","f":"NaN","j":"{\\"x\\": 9007199254740993}"}]',
    );
    // As text: JSON.parse would lose the digits that matter.
    const typed = await (
      await fetch(`${gateway.url}/sql`, { method: "POST", body: JSON.stringify({ query }) })
    ).text();
    assert.match(
      typed,
      /"rows":\[\{"n":1,"big":"9007199254740993","s":"a","arr":\[1,null\],"b":true,"f":"NaN","j":\{"x":9007199254740993\}\}\]/,
    );
  });

  it("parameters as JSON values", async () => {
    const answer = async (query: string, params: string): Promise<unknown> => {
      const { status, body } = await send(`{"query":${JSON.stringify(query)},"params":${params}}`);
      assert.equal(status, 200, JSON.stringify(body));
      return (body["rows"] as Record<string, unknown>[])[0]?.["a"];
    };
    assert.equal(await answer("SELECT $1 AS a", "[42]"), "42");
    assert.equal(await answer("SELECT $1 * 1 AS a", "[42]"), 42);
    assert.equal(await answer("SELECT $1::int8 AS a", "[9007199254740993]"), "9007199254740993");
    assert.deepEqual(await answer("SELECT $1::int[] AS a", "[[1,2,3]]"), [1, 2, 3]);
    assert.deepEqual(await answer("SELECT $1::json->'a' AS a", '[{"a":{"b":42}}]'), { b: 42 });
    assert.deepEqual(await answer("SELECT $1::jsonb[] AS a", '[[{"foo":1},{"bar":"x,\\"y\\""}]]'), [
      { foo: 1 },
      { bar: 'x,"y"' },
    ]);
    assert.equal(await answer("SELECT $1::bool AS a", "[null]"), null);
  });

  it("array mode query by query in a batch, and a body without a content type", async () => {
    const { body } = await send({
      queries: [
        { query: "SELECT $1 AS a", params: [42], arrayMode: true },
        { query: "SELECT $1 AS a", params: [42] },
      ],
    });
    const results = body["results"] as { rows: unknown; rowAsArray: boolean }[];
    assert.deepEqual(
      results.map(({ rows, rowAsArray }) => [rowAsArray, rows]),
      [
        [true, [["42"]]],
        [false, [{ a: "42" }]],
      ],
    );
    const bytes = new TextEncoder().encode('{"query":"SELECT 1 AS n"}');
    const untyped = await fetch(`${gateway.url}/sql`, { method: "POST", body: bytes });
    assert.deepEqual(((await untyped.json()) as { rows: unknown }).rows, [{ n: 1 }]);
  });

  it("malformed JSON, other methods", async () => {
    const { status, body } = await send('{"query": ');
    assert.deepEqual(
      [status, body.message, body.highwater.code],
      [400, "The body is not JSON.", "invalid_request"],
    );
    assert.equal((await fetch(`${gateway.url}/sql`)).status, 405);
    const preflight = await fetch(`${gateway.url}/sql`, {
      method: "OPTIONS",
      headers: { origin: "https://shop.example.test", "access-control-request-method": "POST" },
    });
    assert.equal(preflight.status, 405);
    assert.equal(preflight.headers.get("access-control-allow-origin"), null);
  });

  it("knows every array type that the server brings along, except box[]", async () => {
    const rows = await cluster.query(
      "a",
      `SELECT arrays.oid::int AS oid, elements.typname AS name FROM pg_type arrays
       JOIN pg_type elements ON elements.oid = arrays.typelem AND elements.typarray = arrays.oid
       WHERE arrays.oid < 10000 AND elements.typtype IN ('b', 'r', 'm')`,
    );
    const unknown = rows.filter(({ oid }) => !KNOWN_ARRAYS.has(Number(oid))).map(({ name }) => name);
    assert.deepEqual(unknown, ["box"]);
    const oids = new Set(rows.map(({ oid }) => Number(oid)));
    assert.deepEqual(
      [...KNOWN_ARRAYS].filter((oid) => !oids.has(oid)),
      [],
    );
  });
});

describe("identity", () => {
  let guarded: TestGateway;
  let keys: PostgresKeys;

  async function makeKey(role: string, scopes: readonly Scope[]): Promise<string> {
    const { id, secret, text } = makeKeyText();
    const key = { id, secretHash: hashSecret(secret), name: role, owner: role, role, scopes };
    await keys.insertKey("a", { ...key, limits: DEFAULT_LIMITS, expiresAtMs: null });
    return text;
  }

  before(async () => {
    for (const role of ["shop_writer", "shop_reader"]) {
      await cluster.query("a", `CREATE ROLE ${role} LOGIN IN ROLE highwater_app`);
      await cluster.query("a", `GRANT ALL ON ALL TABLES IN SCHEMA public TO ${role}`);
    }
    const url = await cluster.connectionString("a");
    keys = new PostgresKeys({
      nodes: [{ id: "a", region: "us-east", zone: "us-east-a", url }],
      ...{ clock: realClock, helper: "neon-test", connectTimeoutMs: 30_000, callTimeoutMs: 30_000 },
    });
    guarded = await TestGateway.start(cluster, { env: { GATEWAY_AUTH: "keys" } });
    await guarded.ready();
  });

  after(async () => {
    keys.close();
    await guarded.close();
  });

  beforeEach(() => {
    neonConfig.fetchEndpoint = `${guarded.url}/sql`;
  });

  it("the key is the password of the connection string, or the driver's authToken; the user's name says nothing", async () => {
    const key = await makeKey("shop_writer", ["read", "write"]);
    const byPassword = neon(`postgresql://postgres:${key}@db.example.test/postgres`);
    assert.deepEqual(await byPassword`SELECT current_user::text AS who`, [{ who: "shop_writer" }]);
    const byToken = neon(CONNECTION, { authToken: key });
    assert.deepEqual(await byToken`SELECT current_user::text AS who`, [{ who: "shop_writer" }]);
  });

  it("no key, a wrong one, and one that is none", async () => {
    const wrong = makeKeyText().text;
    for (const user of ["app", `app:${wrong}`, "app:p%20w", "app:guess"]) {
      const error = await failed(neon(`postgresql://${user}@db.example.test/shop`)`SELECT 1`);
      assert.equal(error.code, "28000", user);
      assert.match(error.hint ?? "", /password of the connection string/);
      assert.doesNotMatch(JSON.stringify(answered.at(-1)?.body), /guess|p w|p%20w/);
    }
    assert.ok(!guarded.logLines.join("").includes(wrong));
  });

  it("a key that may only read, reads", async () => {
    const key = await makeKey("shop_reader", ["read"]);
    const reading = neon(`postgresql://app:${key}@db.example.test/shop`);
    assert.deepEqual(await reading`SHOW transaction_read_only`, [{ transaction_read_only: "on" }]);
    assert.equal((await failed(reading`DELETE FROM account`)).code, "25006");
    assert.equal((await failed(reading.transaction([reading`DELETE FROM account`]))).code, "25006");
  });
});
