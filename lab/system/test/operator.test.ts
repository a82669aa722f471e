// Goal: with operators as the authority, the product follows their commands and the restarts of the
// chosen node, and ignores promotions without a command. Method: three regions on real PostgreSQL;
// a restart, two promotions, one command.
import assert from "node:assert/strict";
import { test } from "node:test";
import { System } from "../src/index.ts";
import {
  assertTruth,
  commitKeys,
  createTable,
  epochAfter,
  epochOf,
  eventually,
  put,
  putAhead,
  send,
} from "../src/testing.ts";

const [EAST, WEST, EUROPE] = ["us-east", "us-west", "eu-west"] as const;

test("a promotion is followed only with an operator's command, a restart without one", async () => {
  await using system = await System.start({ env: { HIGHWATER_AUTHORITY: "operator" } });
  const { cluster } = system;
  await createTable(system, EAST);
  const written = await commitKeys(system.gateway(WEST).url, "first", 3);
  const first = await epochOf(system.tracker(EAST).url);
  await cluster.restart(EAST);
  const second = (await epochAfter(system.tracker(WEST).url, first)).marks?.epoch ?? "";
  written.push(...(await commitKeys(system.gateway(WEST).url, "restarted", 3)));
  await assertTruth(system, { tracker: system.tracker(WEST).url, node: EAST, level: "global" }, written);

  await putAhead(system, { heir: WEST, other: EUROPE });
  await system.killRegion(EAST);
  await cluster.promote(WEST, { command: false });
  for (const region of [WEST, EUROPE]) {
    await eventually(`the gateway of ${region} says why`, async () => {
      const { status, body } = await send(system.gateway(region).url, [
        put(`refused-${String(Math.random())}`),
      ]);
      return status === 503 && /^us-west: writable without an operator's command/.test(body.detail ?? "");
    });
    // The tracker looks at the nodes itself, a little later or earlier.
    await eventually(`the tracker of ${region} is not ready`, async () => {
      const ready = await fetch(`${system.tracker(region).url}/readyz`);
      return ready.status === 503;
    });
  }
  await cluster.authorize(WEST, "the east has burned down");
  const third = await epochAfter(system.tracker(WEST).url, second);
  assert.equal(third.epochs.at(-1)?.node, WEST);
  written.push(...(await commitKeys(system.gateway(EUROPE).url, "authorized", 3)));
  await assertTruth(system, { tracker: system.tracker(WEST).url, node: WEST }, written);
});
