// The whole system for the tests of an adapter, and what both of them look at behind the adapter's back.
import assert from "node:assert/strict";
import { type TestContext } from "node:test";
import { System } from "@highwater/lab-system";
import { type FetchLike, Highwater, type HighwaterOptions, type SqlValue } from "../../src/index.ts";

export const EAST = "us-east";
/**
 * Nothing here is about speed. A client of several regions, or with a shorter limit, would take a busy machine's slowness for a
 * failure, send again, and find that its first copy has committed: then there are no rows.
 */
export const PATIENT = { requestTimeoutMs: 60_000, totalTimeoutMs: 120_000 } as const;

export async function startSystem(tables: readonly string[]): Promise<System> {
  const system = await System.start({ env: { GATEWAY_IDLE_TIMEOUT_MS: "60000", GATEWAY_MAX_ROWS: "1000" } });
  await using hw = new Highwater({ endpoints: await system.endpoints(EAST), ...PATIENT });
  await hw.transaction(
    tables.map((sql) => ({ sql })),
    { ack: "durable", level: "region" },
  );
  return system;
}

export async function client(
  system: System,
  context: TestContext,
  options: Partial<HighwaterOptions> = {},
): Promise<Highwater> {
  const endpoints = (await system.endpoints(EAST)).slice(0, 1);
  const hw = new Highwater({ endpoints, ...PATIENT, ...options });
  context.after(() => hw.close());
  return hw;
}

/** One value, asked for without the adapter. */
export async function ask(hw: Highwater, sql: string, ...params: readonly SqlValue[]): Promise<unknown> {
  const { results } = await hw.transaction({ sql, params });
  const [result] = results ?? [];
  return result?.rows[0]?.[result.fields[0]?.name ?? ""];
}

/** Rejects with an error that has these properties, or whose cause has them. */
export async function refuses(
  work: Promise<unknown>,
  expected: Readonly<Record<string, unknown>>,
): Promise<void> {
  const error = await work.then(
    () => assert.fail("it was not refused"),
    (reason: unknown) => reason as Error,
  );
  const found = ("code" in error ? error : error.cause) as Record<string, unknown>;
  assert.deepEqual(
    Object.fromEntries(Object.keys(expected).map((key) => [key, found[key]])),
    expected,
    String(error),
  );
}

/** A fetch that loses the first answer to each one-shot transaction: the client finds its outcome again, without results. */
export function losingFirstAnswers(): FetchLike {
  const lost = new Set<unknown>();
  return async (url, init) => {
    const response = await fetch(url, init);
    const isLost = url.endsWith("/v1/transactions") && !lost.has(init?.body);
    if (!isLost) return response;
    lost.add(init?.body);
    await response.arrayBuffer();
    throw new TypeError("the answer is lost");
  };
}

/** Holds the first callers until there are so many, and no later one. */
export function gate(count: number): () => Promise<void> {
  let waiting = count;
  let open: () => void = () => undefined;
  const opened = new Promise<void>((resolve) => (open = resolve));
  return () => {
    waiting -= 1;
    if (waiting === 0) open();
    return opened;
  };
}
