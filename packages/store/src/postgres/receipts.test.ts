import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type ClientBase } from "pg";
import { makeUuidV7 } from "@highwater/protocol";
import { lookUpReceipts } from "./receipts.ts";

const NOW_MS = Date.UTC(2030, 0, 1);
const epoch = "00000000-0000-4000-8000-000000000001";

/** A server that drops the old receipts right behind the first question that it answers. */
function expiringServer(): { client: ClientBase; asked: string[] } {
  const asked: string[] = [];
  const answers: Record<string, (isFirst: boolean) => unknown[]> = {
    receipts: (isFirst) => (isFirst ? [{ n: 1, epoch, kind: "commit", digest: "7" }] : []),
    window: (isFirst) => [
      {
        expired_before_ms: String(isFirst ? NOW_MS - 1_000 : NOW_MS + 1_000),
        ceiling_ms: String(NOW_MS + 9_000),
      },
    ],
    "log-end": () => [{ applied: "0/1000", segment_bytes: "16777216", epoch }],
  };
  const query = ({ name }: { name: string }): Promise<{ rows: unknown[] }> => {
    asked.push(name);
    return Promise.resolve({ rows: answers[name]?.(asked.length === 1) ?? [] });
  };
  return { client: { query } as unknown as ClientBase, asked };
}

describe("looking receipts up", () => {
  it("never takes a receipt that expires meanwhile for one that was never there", async () => {
    const id = makeUuidV7(NOW_MS, new Uint8Array(10));
    const { client, asked } = expiringServer();
    const { receipts } = await lookUpReceipts(client, [{ id, tag: epoch }]);
    assert.notEqual(receipts[0]?.kind, "absent");
    assert.equal(asked.at(-1), "log-end", "and the end of the log is above all that was found");
  });
});
