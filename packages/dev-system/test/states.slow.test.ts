// Goal: what a gateway says of an id is what trackers say of its token: on a log that never rests, and after a failover.
// Method: the whole product. Commits go on while the states of durable transactions are read at every gateway; then a region dies with
// what only some disks had, and every gateway's word is held against every surviving tracker's. One system for all tests.
import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import type { TransactionStateResponse } from "@highwater/protocol";
import { System } from "../src/index.ts";
import { commit, createTable, eventually, put, send, verdict } from "../src/testing.ts";

const [EAST, WEST, EUROPE] = ["us-east", "us-west", "eu-west"] as const;

let system: System;

before(async () => {
  system = await System.start();
  await createTable(system, EAST);
});

after(() => system.close());

async function stateAt(region: string, id: string, level: string): Promise<TransactionStateResponse> {
  const response = await fetch(`${system.gateway(region).url}/v1/transactions/${id}?level=${level}`);
  return (await response.json()) as TransactionStateResponse;
}

/** Commits until it is ended: the log's end is above every mark all the time. */
function keepBusy(region: string): () => Promise<void> {
  let isOver = false;
  const writers = Array.from({ length: 2 }, async (_, writer) => {
    for (let n = 0; !isOver; n++)
      await send(system.gateway(region).url, [put(`busy-${String(writer)}-${String(n)}`)]);
  });
  return async () => {
    isOver = true;
    await Promise.all(writers);
  };
}

it("a durable transaction is durable at every gateway, also while the log grows", async () => {
  const rest = keepBusy(EAST);
  try {
    const { id, token, position } = await commit(system.gateway(EAST).url, [put("durable")]);
    assert.equal((await verdict(system.tracker(EAST).url, token)).verdict, "durable");
    const own = await stateAt(EAST, id, "region");
    assert.deepEqual([own.state, own.position], ["durable", position], "its own gateway knows where it is");
    for (const region of [WEST, EUROPE]) {
      const first = await stateAt(region, id, "region");
      await eventually("a mark passes the position that was read first", async () => {
        const again = await stateAt(region, id, "region");
        assert.deepEqual(again.position, first.position, region);
        return again.state === "durable" || undefined;
      });
    }
  } finally {
    await rest();
  }
});
