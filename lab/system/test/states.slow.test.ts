// Goal: a gateway's answer about an id agrees with the trackers' answer about its token, while the
// log grows and after a failover. Method: the whole product. Commits go on while states of durable
// transactions are read at every gateway. Then a region dies with commits that only some disks had,
// and every gateway's answer is compared with every surviving tracker's. All tests share one
// system.
import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { decodeToken, type TransactionStateResponse } from "@highwater/protocol";
import { System } from "../src/index.ts";
import {
  commit,
  createTable,
  epochAfter,
  epochOf,
  eventually,
  put,
  send,
  starve,
  verdict,
} from "../src/testing.ts";

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

/** Commits until it is stopped, so that the log's end is always above every mark. */
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
    for (const region of [EAST, WEST, EUROPE]) {
      const first = await stateAt(region, id, "region");
      if (region === EAST) assert.deepEqual(first.position, position, "its own gateway knows where it is");
      // Each gateway receives a mark a little later or earlier than the tracker that was asked.
      const positions = [first.position];
      await eventually("a mark passes the position that was read first", async () => {
        const again = await stateAt(region, id, "region");
        positions.push(again.position);
        return again.state === "durable" || undefined;
      });
      for (const each of positions) assert.deepEqual(each, first.position, region);
    }
  } finally {
    await rest();
  }
});

it("after a failover a gateway says of a lost id what trackers say of its token, at every level", async () => {
  const { cluster } = system;
  await starve(system, WEST);
  const { id, token, position } = await commit(system.gateway(EAST).url, [put("promised")]);
  for (const region of [WEST, EUROPE])
    assert.equal(
      (await verdict(system.tracker(region).url, token)).verdict,
      "durable",
      "on the disks of two regions",
    );
  const before = await epochOf(system.tracker(WEST).url);
  await system.killRegion(EAST);
  await cluster.promote(WEST);
  await epochAfter(system.tracker(WEST).url, before);
  // It had more than the new primary and cannot follow it.
  await cluster.rejoin(EUROPE);
  for (const [at, gateway] of [WEST, EUROPE].entries()) {
    const { position: reached } = await commit(system.gateway(gateway).url, [put(`follows-${String(at)}`)]);
    assert.notEqual(reached.epoch, position.epoch, `${gateway} has seen the failover`);
  }
  const verdicts: Record<string, string> = {};
  for (const level of ["disk", "region", "global"]) {
    for (const tracker of [WEST, EUROPE]) {
      const judged = (await verdict(system.tracker(tracker).url, token, { level })).verdict;
      assert.equal(judged, (verdicts[level] ??= judged), `${tracker}, ${level}`);
    }
    for (const gateway of [WEST, EUROPE]) {
      const answered = await eventually("the gateway knows the state", async () => {
        const state = await stateAt(gateway, id, level);
        return state.state === "active" ? undefined : state;
      });
      assert.deepEqual(
        [answered.state, answered.position],
        [verdicts[level], position],
        `${gateway}, ${level}`,
      );
      assert.equal(decodeToken(answered.token ?? "")?.offset, decodeToken(token)?.offset);
    }
  }
  assert.deepEqual(verdicts, { disk: "durable", region: "broken", global: "lost" });
});
