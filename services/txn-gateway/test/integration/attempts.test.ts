// Goal: only the caller that began a transaction can end it. A second request with the same id neither ends the original nor
// writes a tombstone, whatever its owner, key or gateway.
// Method: three gateways on one server with API keys; transactions that are held open while others use their ids.
import assert from "node:assert/strict";
import { after, before, beforeEach, describe, it } from "node:test";
import { realClock } from "@highwater/runtime";
import { DEFAULT_LIMITS, PostgresKeys, type Scope } from "@highwater/store";
import { hashSecret, makeKeyText } from "@highwater/service";
import { SESSION_HEADER } from "../../src/interactive/session-header.ts";
import { newId } from "../support/fakes.ts";
import {
  type GatewayResponse,
  checkedCommit,
  problemOf,
  statementsOf,
  type TestGateway,
} from "../support/gateway.ts";
import { Bench, note } from "../support/interactive.ts";

/** Of another sender: how long it waits for the id before it is refused. */
const LOCK_MS = 200;
const BUSY = ["transaction_in_progress", 409, "wait", "unknown"];
const NOT_OPEN = ["transaction_not_open", 404];

type Headers = Readonly<Record<string, string>>;

let bench: Bench;
let gateways: readonly TestGateway[];
let [first, second, third]: TestGateway[] = [];
/** Keys by what they are called in the tests. */
let key: Readonly<Record<"reader" | "writer" | "colleague" | "stranger", Headers>>;
let keys: PostgresKeys;
let notes = 0;

before(async () => {
  bench = await Bench.start({ id: "a", region: "us-east" });
  const url = await bench.cluster.connectionString("a");
  keys = new PostgresKeys({
    nodes: [{ id: "a", region: "us-east", zone: "a", url }],
    ...{ clock: realClock, helper: "attempts-test", connectTimeoutMs: 30_000, callTimeoutMs: 30_000 },
  });
  for (const role of ["app_a", "app_c"]) {
    await bench.database.query(`CREATE ROLE ${role} LOGIN IN ROLE highwater_app`);
    await bench.database.query(`GRANT ALL ON note TO ${role}`);
  }
  key = {
    reader: await makeKey("owner-a", "app_a", ["read"]),
    writer: await makeKey("owner-a", "app_a", ["read", "write"]),
    colleague: await makeKey("owner-a", "app_a", ["read", "write"]),
    stranger: await makeKey("owner-c", "app_c", ["read", "write"]),
  };
  const patient = { GATEWAY_AUTH: "keys", GATEWAY_KEY_REFRESH_MS: "50" };
  const hurried = { ...patient, GATEWAY_LOCK_TIMEOUT_MS: String(LOCK_MS) };
  gateways = await Promise.all([bench.start(patient), bench.start(hurried), bench.start(hurried)]);
  [first, second, third] = gateways;
});

after(async () => {
  for (const gateway of gateways) await gateway.close();
  keys.close();
  await bench.close();
});

beforeEach(() => {
  notes++;
});

async function makeKey(owner: string, role: string, scopes: readonly Scope[]): Promise<Headers> {
  const { id, secret, text } = makeKeyText();
  const limits = DEFAULT_LIMITS;
  const stored = { id, owner, role, scopes, limits, secretHash: hashSecret(secret), name: id };
  await keys.insertKey("a", { ...stored, expiresAtMs: null });
  return { authorization: `Bearer ${text}` };
}

const at = (gateway: TestGateway | undefined): TestGateway => {
  assert.ok(gateway !== undefined);
  return gateway;
};

const oneShot = (
  gateway: TestGateway | undefined,
  headers: Headers,
  id: string,
  ...sql: string[]
): Promise<GatewayResponse<unknown>> => at(gateway).call("", { id, ...statementsOf(sql) }, { headers });

const begin = (
  gateway: TestGateway | undefined,
  headers: Headers,
  body: Readonly<Record<string, unknown>>,
): Promise<GatewayResponse<unknown>> => at(gateway).call("/begin", body, { headers });

/** A call with the header of a begin, by any sender. */
const call = (
  gateway: TestGateway | undefined,
  headers: Headers,
  name: "statements" | "commit" | "rollback",
  open: { readonly id: string; readonly session: string },
): Promise<GatewayResponse<unknown>> =>
  at(gateway).call(
    `/${open.id}/${name}`,
    { seq: 1, ...(name === "statements" ? statementsOf([note(-notes)]) : {}) },
    { headers: { ...headers, [SESSION_HEADER]: open.session } },
  );

async function opened(
  gateway: TestGateway | undefined,
  headers: Headers,
  more: Readonly<Record<string, unknown>> = {},
): Promise<{ readonly id: string; readonly session: string }> {
  const { id = newId(), ...rest } = more;
  const answered = await begin(gateway, headers, { id, ...rest });
  assert.equal(answered.status, 200, JSON.stringify(answered.body));
  return { id: String(id), session: answered.headers.get(SESSION_HEADER) ?? "" };
}

function refusal(answered: GatewayResponse<unknown>): unknown[] {
  const { code, status, retry, outcome } = problemOf(answered);
  return [code, status, retry, outcome];
}

async function commits(
  gateway: TestGateway | undefined,
  headers: Headers,
  open: Parameters<typeof call>[3],
): Promise<void> {
  const { body } = checkedCommit(await call(gateway, headers, "commit", open));
  assert.deepEqual([body.state, body.replayed], ["committed", undefined]);
  assert.equal(await bench.notes(notes), 1);
  assert.equal(await bench.notes(-notes), 0);
}

describe("a second sender of an id at another gateway is refused while the original runs, and that commits", () => {
  for (const sender of ["writer", "colleague"] as const) {
    it(`a one-shot, and one-shot and begin of the ${sender}`, async () => {
      const [id, gate] = [newId(), await bench.database.gate()];
      const original = oneShot(first, key.writer, id, note(notes), gate.inStatement.sql);
      await gate.reached();
      assert.deepEqual(refusal(await oneShot(second, key[sender], id, "SELECT 1")), BUSY);
      assert.deepEqual(refusal(await begin(third, key[sender], { id })), BUSY);
      await gate.open();
      assert.equal(checkedCommit(await original).body.replayed, undefined);
      assert.equal(await bench.notes(notes), 1);
    });

    it(`an open one, and one-shot and begin of the ${sender}`, async () => {
      const open = await opened(first, key.writer, statementsOf([note(notes)]));
      assert.deepEqual(refusal(await oneShot(second, key[sender], open.id, "SELECT 1")), BUSY);
      assert.deepEqual(refusal(await begin(third, key[sender], { id: open.id })), BUSY);
      await commits(first, key.writer, open);
    });
  }

  it("another owner's use of the id is a transaction of its own", async () => {
    const open = await opened(first, key.writer, statementsOf([note(notes)]));
    assert.equal(
      checkedCommit(await oneShot(second, key.stranger, open.id, "SELECT 1")).body.replayed,
      undefined,
    );
    await commits(first, key.writer, open);
  });
});

describe("a transaction is settled only by those who began it and may write", () => {
  for (const [name, by] of [
    ["reader", "another owner's"],
    ["writer", "another owner's"],
  ] as const)
    it(`a read-only begin on ${by} open id by a ${name}, and its rollback elsewhere: nothing ends`, async () => {
      const open = await opened(first, key.stranger, statementsOf([note(notes)]));
      const other = await opened(second, key[name], { id: open.id, readOnly: true });
      const settled = problemOf(await call(third, key[name], "rollback", other));
      assert.deepEqual([settled.code, settled.status], ["wrong_gateway", 421]);
      // Nor where it was begun, which ends only itself.
      assert.equal((await call(second, key[name], "rollback", other)).status, 200);
      await commits(first, key.stranger, open);
    });

  it("a header is worth nothing to another key, of the same owner and role or not", async () => {
    const open = await opened(first, key.writer, statementsOf([note(notes)]));
    for (const name of ["reader", "colleague", "stranger"] as const)
      for (const gateway of [first, second])
        for (const verb of ["statements", "commit", "rollback"] as const) {
          const { code, status } = problemOf(await call(gateway, key[name], verb, open));
          assert.deepEqual([code, status], NOT_OPEN, `${name}: ${verb}`);
        }
    await commits(first, key.writer, open);
  });

  it("the header of an earlier begin under the id is not that of the one that is open", async () => {
    const earlier = await opened(first, key.writer, statementsOf(["SELECT 1"]));
    assert.equal((await call(first, key.writer, "rollback", earlier)).status, 200);
    const open = await opened(first, key.writer, { id: earlier.id, ...statementsOf([note(notes)]) });
    for (const verb of ["statements", "commit", "rollback"] as const) {
      const { code, status } = problemOf(await call(first, key.writer, verb, earlier));
      assert.deepEqual([code, status], NOT_OPEN, verb);
    }
    await commits(first, key.writer, open);
  });

  it("the header of an ended begin ends no other attempt that has the id by now", async () => {
    const earlier = await opened(first, key.writer, statementsOf(["SELECT 1"]));
    assert.equal((await call(first, key.writer, "rollback", earlier)).status, 200);
    const open = await opened(second, key.writer, { id: earlier.id, ...statementsOf([note(notes)]) });
    assert.deepEqual(refusal(await call(third, key.writer, "rollback", earlier)), BUSY);
    await commits(second, key.writer, open);
  });

  it("its own principal may have it undone at any gateway, and then it never commits", async () => {
    const open = await opened(first, key.writer, statementsOf([note(notes)]));
    const undone = await call(third, key.writer, "rollback", open);
    assert.deepEqual([undone.status, undone.body], [200, { id: open.id, state: "aborted" }]);
    assert.equal(problemOf(await call(first, key.writer, "commit", open)).code, "transaction_aborted");
    assert.equal(await bench.notes(notes), 0);
  });
});
