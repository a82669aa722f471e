// Goal: a console that stays open needs no more memory after a minute of 1,000 events a second. Method: Chromium shows the console of a
// stand-in for a tracker, whose page already keeps as many events as it may; the heap is measured after collections of garbage. How many
// frames a second the page draws depends on the machine: `make bench-console` prints it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { launchBrowser, whyNoBrowser } from "@highwater/lab-tools/browser";
import { floodPage, RECORDED } from "./flood.ts";
import { StandIn } from "./stand-in.ts";

const PER_SECOND = 1_000;
const COUNT = 60 * PER_SECOND;
const LIMIT_MS = 300_000;
/** The marks of a minute, from which the page says when a transaction became durable, and noise. */
const GROWTH_BYTES = 3 * 1_024 * 1_024;
/** A few texts come and go. */
const GROWTH_NODES = 100;

test(
  "after a minute of 1,000 events a second the page holds no more memory, nodes or listeners",
  { skip: whyNoBrowser() },
  async () => {
    await using standIn = await StandIn.start({ recorded: RECORDED });
    await using launched = await launchBrowser();
    const { before, after, faults } = await floodPage(standIn, launched.browser, {
      ...{ count: COUNT, perSecond: PER_SECOND, limitMs: LIMIT_MS },
    });
    const grown = {
      heapBytes: after.heapBytes - before.heapBytes,
      nodes: after.nodes - before.nodes,
      listeners: after.listeners - before.listeners,
    };
    const measured = JSON.stringify({ before, after });
    assert.ok(grown.heapBytes < GROWTH_BYTES, measured);
    assert.ok(grown.nodes < GROWTH_NODES, measured);
    assert.ok(grown.listeners < GROWTH_NODES, measured);
    assert.deepEqual(faults, []);
  },
);
