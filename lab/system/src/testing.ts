// For tests of the whole product: a client of the bare wire (without the SDK, so that nothing is
// retried unseen), and a look into the database to check verdicts.
import assert from "node:assert/strict";
import { eventually } from "@highwater/lab-tools/process";
import {
  LIMITS,
  makeUuidV7,
  type Problem,
  type Statement,
  type TokenVerdict,
  type TransactionRequest,
  type TransactionResponse,
  type TransactionStateResponse,
  type VerdictsResponse,
} from "@highwater/protocol";
import type { System } from "./index.ts";

export { eventually };

/** Longer than a service waits before it answers. */
const LIMIT_MS = 120_000;
/** An expected verdict arrives within this time even on a busy machine. */
const VERDICT_MS = 60_000;

/** For a system that keeps the contents of transactions. */
export const KEEPING = {
  HIGHWATER_CONTENTS_KEYS: JSON.stringify([
    { kid: 1, validFrom: "2026-01-01T00:00:00Z", secret: "contents of the tests, 32 characters" },
  ]),
};

export function newId(atMs = Date.now()): string {
  return makeUuidV7(atMs, crypto.getRandomValues(new Uint8Array(10)));
}

export interface JsonResponse<T> {
  readonly status: number;
  readonly headers: Headers;
  readonly body: T;
}

async function call<T>(url: string, init: RequestInit = {}): Promise<JsonResponse<T>> {
  const response = await fetch(url, { signal: AbortSignal.timeout(LIMIT_MS), ...init });
  return { status: response.status, headers: response.headers, body: (await response.json()) as T };
}

/** Makes one call, once. */
export function post<T>(
  url: string,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): Promise<JsonResponse<T>> {
  return call(url, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
}

export type TransactionReply = JsonResponse<TransactionResponse & Partial<Problem>>;

/** Sends one transaction, once. */
export function send(
  gateway: string,
  statements: readonly Statement[],
  options: Partial<TransactionRequest> = {},
): Promise<TransactionReply> {
  return post(`${gateway}/v1/transactions`, { id: newId(), statements, ...options });
}

/**
 * Commits one transaction. Sends it again while the service asks to wait, under a new id if the
 * service says so.
 */
export async function commit(
  gateway: string,
  statements: readonly Statement[],
  options: Partial<TransactionRequest> = {},
): Promise<TransactionResponse> {
  let id = options.id ?? newId();
  let refusal: unknown = "no answer";
  const what = (): string => `the transaction commits; last: ${JSON.stringify(refusal)}`;
  return eventually(what, async () => {
    const { status, body } = await send(gateway, statements, { ...options, id });
    refusal = body;
    if (status === 503) return undefined;
    if (body.retry === "transaction" && options.id === undefined) {
      id = newId();
      return undefined;
    }
    assert.ok(status === 200 || status === 202, `${String(status)}: ${JSON.stringify(body)}`);
    return body;
  });
}

export const put = (key: string, value = 1): Statement => ({
  sql: "INSERT INTO kv (key, value) VALUES ($1, $2)",
  params: [key, value],
});

export async function createTable(system: System, region: string): Promise<void> {
  const statements = [{ sql: "CREATE TABLE kv (key text PRIMARY KEY, value int)" }];
  const options = { ack: "durable", level: "global", maxWaitMs: 60_000 } as const;
  const { state } = await commit(system.gateway(region).url, statements, options);
  assert.equal(state, "durable");
}

/** The keys that the node's database shows. A replica may have more on disk than it shows. */
export async function keysOn(system: System, node: string): Promise<Set<string>> {
  const rows = await system.cluster.query(node, "SELECT key FROM kv");
  return new Set(rows.map((row) => String(row.key)));
}

/** In as many requests as the tracker's limit of tokens asks for, one behind the other. */
export async function verdicts(
  tracker: string,
  tokens: readonly string[],
  options: { level?: string; waitMs?: number } = {},
): Promise<TokenVerdict[]> {
  const judged: TokenVerdict[] = [];
  for (let from = 0; from < tokens.length; from += LIMITS.tokensPerRequest) {
    const part = tokens.slice(from, from + LIMITS.tokensPerRequest);
    judged.push(...(await verdictsAtOnce(tracker, part, options)));
  }
  return judged;
}

async function verdictsAtOnce(
  tracker: string,
  tokens: readonly string[],
  options: { level?: string; waitMs?: number },
): Promise<TokenVerdict[]> {
  const { waitMs = VERDICT_MS } = options;
  const untilMs = performance.now() + waitMs;
  for (;;) {
    const { status, body } = await post<VerdictsResponse>(`${tracker}/v1/durability/verdicts`, {
      tokens,
      ...options,
      waitMs: Math.max(0, Math.floor(Math.min(waitMs, untilMs - performance.now()))),
    });
    assert.equal(status, 200, JSON.stringify(body));
    const found = body.verdicts.map((one) => {
      assert.ok(!("error" in one), JSON.stringify(one));
      return one;
    });
    // A tracker that does not see the primary answers early, so that clients ask another one. This
    // asks it again.
    const isEarly = body.blind === true && performance.now() < untilMs;
    if (!isEarly || found.every(({ verdict }) => verdict !== "pending")) return found;
  }
}

export async function verdict(
  tracker: string,
  token: string,
  options: { level?: string; waitMs?: number } = {},
): Promise<TokenVerdict> {
  const [only] = await verdicts(tracker, [token], options);
  assert.ok(only !== undefined);
  return only;
}

export function stateOf(gateway: string, id: string): Promise<JsonResponse<TransactionStateResponse>> {
  return call(`${gateway}/v1/transactions/${id}`);
}

export interface MarksReply {
  readonly marks: {
    readonly epoch: string;
    readonly seq: number;
    readonly levels: Record<string, string>;
  } | null;
  readonly epochs: readonly {
    readonly id: string;
    readonly cause: string;
    readonly node: string;
    readonly forkOffset: string;
    readonly forkLimit: string | null;
  }[];
}

export async function marksOf(tracker: string): Promise<MarksReply> {
  return (await call<MarksReply>(`${tracker}/v1/durability/marks`)).body;
}

/** The epoch that the tracker follows, once there is one. */
export function epochOf(tracker: string): Promise<string> {
  return eventually("there is a current epoch", async () => (await marksOf(tracker)).marks?.epoch);
}

/** Waits until the tracker follows an epoch other than the given one. */
export function epochAfter(tracker: string, epoch: string): Promise<MarksReply> {
  return eventually("there is a new epoch", async () => {
    const answer = await marksOf(tracker);
    return answer.marks !== null && answer.marks.epoch !== epoch ? answer : undefined;
  });
}

/** Commits keys one after another without waiting for durability. */
export async function commitKeys(
  gateway: string,
  prefix: string,
  count: number,
): Promise<{ key: string; token: string; body: TransactionResponse }[]> {
  const done = [];
  for (let i = 0; i < count; i++) {
    const key = `${prefix}-${String(i)}`;
    const body = await commit(gateway, [put(key)]);
    done.push({ key, token: body.token, body });
  }
  return done;
}

/**
 * The node's keys. A replica shows data on its disk a little later, so it is asked until the keys
 * are enough.
 */
async function keysShown(
  system: System,
  node: string,
  areEnough: (keys: Set<string>) => boolean,
): Promise<Set<string>> {
  let keys = new Set<string>();
  const shown = eventually(`${node} shows what it has`, async () => {
    const [row] = await system.cluster.query(node, "SELECT pg_is_in_recovery() AS is_replica");
    keys = await keysOn(system, node);
    return row?.["is_replica"] === false || areEnough(keys);
  });
  // The caller judges what is still missing.
  await shown.catch(() => undefined);
  return keys;
}

/**
 * Every verdict agrees with the node: durable keys are there, lost and broken ones are not, and
 * none is pending.
 */
export async function assertTruth(
  system: System,
  from: { tracker: string; node: string; level?: string },
  written: readonly { key: string; token: string }[],
): Promise<Map<string, TokenVerdict>> {
  const judged = await verdicts(
    from.tracker,
    written.map(({ token }) => token),
    { level: from.level ?? "region" },
  );
  const isDurable = (at: number): boolean => judged[at]?.verdict === "durable";
  const present = await keysShown(system, from.node, (keys) =>
    written.every(({ key }, at) => !isDurable(at) || keys.has(key)),
  );
  const byKey = new Map<string, TokenVerdict>();
  for (const [index, { key }] of written.entries()) {
    const found = judged[index];
    assert.ok(found !== undefined);
    const expected = present.has(key) ? ["durable"] : ["lost", "broken"];
    assert.ok(
      expected.includes(found.verdict),
      `${key} is ${present.has(key) ? "present" : "absent"}, judged ${JSON.stringify(found)}`,
    );
    byKey.set(key, found);
  }
  return byKey;
}

/**
 * Keeps the replica from receiving any later commit, while services still reach it. After this,
 * either of two replicas may have more of what the service itself wrote, such as a late flush help:
 * use `putAhead` for that.
 */
export async function starve(
  system: System,
  replica: string,
  primary = "us-east",
): Promise<() => Promise<void>> {
  const { cluster } = system;
  const [{ primary_conninfo: conninfo } = {}] = await cluster.query(replica, "SHOW primary_conninfo");
  const use = async (text: string): Promise<void> => {
    await cluster.query(replica, `ALTER SYSTEM SET primary_conninfo TO '${text.replaceAll("'", "''")}'`);
    await cluster.query(replica, "SELECT pg_reload_conf()");
  };
  await use("");
  await eventually("the stream has ended", async () => {
    const shown = await cluster.query(
      primary,
      "SELECT FROM pg_stat_replication WHERE application_name = $1",
      [replica],
    );
    return shown.length === 0;
  });
  return () => use(String(conninfo));
}

/**
 * Ends the other replica's stream and waits until the heir has everything that the other has
 * received, so that the other can follow it after the promotion. Without this either may be ahead:
 * the primary sends to each at its own pace, and the service writes by itself, such as a late flush
 * help. The promotion restarts the other's stream.
 */
export async function putAhead(
  system: System,
  { heir, other, primary = "us-east" }: { heir: string; other: string; primary?: string },
): Promise<void> {
  const { cluster } = system;
  await starve(system, other, primary);
  const [row] = await cluster.query(primary, "SELECT pg_current_wal_flush_lsn()::text AS sent");
  await eventually(`${heir} has all that ${other} has`, async () => {
    const received = "SELECT pg_last_wal_receive_lsn() >= $1::pg_lsn AS has_all";
    const [found] = await cluster.query(heir, received, [row?.["sent"]]);
    return found?.["has_all"] === true;
  });
}
