// Many transactions at once: really committed, announced as a gateway would, and asked about by
// their tokens.
import {
  type EpochId,
  type LIMITS,
  makeUuidV7,
  type TokenVerdict,
  type TxnId,
  type VerdictsResponse,
} from "@highwater/protocol";
import pg from "pg";
import { testDeploymentKeys, testToken } from "@highwater/service/testing";
import { HttpConnection } from "../gateway/http-connection.ts";

export interface Committed {
  readonly id: TxnId;
  readonly epoch: EpochId;
  readonly offset: bigint;
}

/** Both the announcements of one batch and the tokens of one request. */
const BATCH: typeof LIMITS.tokensPerRequest = 10_000;

const PROCEDURE = `CREATE OR REPLACE PROCEDURE bench_commit(ids uuid[], tags uuid[], INOUT epoch uuid, INOUT offsets bigint[]) LANGUAGE plpgsql AS $$
DECLARE n int;
BEGIN
  SELECT s.id INTO epoch FROM highwater.epoch_sentinel s;
  offsets := '{}';
  FOR n IN 1 .. cardinality(ids) LOOP
    INSERT INTO highwater.receipt (id, tag, epoch, digest) VALUES (ids[n], tags[n], bench_commit.epoch, 1);
    COMMIT;
    offsets := offsets || (pg_current_wal_insert_lsn() - '0/0')::bigint;
  END LOOP;
END $$`;

export function newIds(count: number): TxnId[] {
  return Array.from({ length: count }, () =>
    makeUuidV7(Date.now(), crypto.getRandomValues(new Uint8Array(10))),
  );
}

/**
 * Commits so many transactions, one after the other, each with its receipt and nothing else: a
 * gateway's clients would take ten times as long.
 */
export async function commitMany(url: string, count: number): Promise<Committed[]> {
  const ids = newIds(count);
  const keys = testDeploymentKeys();
  const server = new pg.Client({ connectionString: url });
  await server.connect();
  try {
    await server.query("SET synchronous_commit = off");
    await server.query(PROCEDURE);
    const { rows } = await server.query<{ epoch: EpochId; offsets: string[] }>(
      "CALL bench_commit($1::uuid[], $2::uuid[], NULL, NULL)",
      [ids, ids.map((id) => keys.receiptTag(0n, id))],
    );
    const [row] = rows;
    if (row?.offsets.length !== count) throw new Error("not every transaction has committed");
    return ids.map((id, at) => ({ id, epoch: row.epoch, offset: BigInt(row.offsets[at] ?? "") }));
  } finally {
    await server.end();
  }
}

/** Resolves when the tracker has all of them on its disk. */
export async function announceMany(tracker: string, all: readonly Committed[]): Promise<void> {
  const connection = await HttpConnection.open(tracker);
  try {
    for (const some of batches(all)) {
      const announcements = some.map(
        ({ id, epoch, offset }) =>
          `{"kind":"position","id":"${id}","epoch":"${epoch}","offset":"${offset.toString()}"}`,
      );
      const { status, text } = await connection.post(
        "/internal/announcements",
        `{"gateway":"bench","announcements":[${announcements.join(",")}]}`,
      );
      if (status !== 204) throw new Error(`the tracker answered ${String(status)} ${text}`);
    }
  } finally {
    connection.close();
  }
}

const KEYS = testDeploymentKeys();

export function tokenOf({ id, epoch, offset }: Committed): string {
  return testToken({ id, epoch, offset }, KEYS);
}

/** Of one batch. */
export async function askVerdicts(
  connection: HttpConnection,
  tokens: readonly string[],
  question: { readonly level: string; readonly waitMs?: number },
): Promise<TokenVerdict[]> {
  const body = JSON.stringify({ tokens, ...question });
  const { status, text } = await connection.post("/v1/durability/verdicts", body);
  if (status !== 200) throw new Error(`the tracker answered ${String(status)} ${text}`);
  return (JSON.parse(text) as VerdictsResponse).verdicts.map((verdict) => {
    if ("error" in verdict) throw new Error(`the tracker refused a token: ${verdict.error.detail}`);
    return verdict;
  });
}

/** As many as one request may have. */
export function batches<T>(all: readonly T[]): (readonly T[])[] {
  return Array.from({ length: Math.ceil(all.length / BATCH) }, (_, at) =>
    all.slice(at * BATCH, (at + 1) * BATCH),
  );
}
