// The arithmetic of the benchmark: medians over rounds, ratios, and which bar is missed.
import assert from "node:assert/strict";
import { test } from "node:test";
import { verdictOf } from "../rounds/bars.ts";
import { CLIENTS, type Sample, SERIES, type Series, summarize, tableOf } from "./results.ts";

const TPS: Readonly<Record<Series, number>> = {
  gateway: 600,
  direct_async: 500,
  direct_sync: 100,
  gateway_with_tracker: 540,
};

function sample(
  series: Series,
  clients: Sample["clients"],
  round: number,
  slower: number,
  p50Ms: number,
): Sample {
  return {
    round,
    series,
    clients,
    segment: { committed: 2 * TPS[series], conflicts: 0, elapsedMs: 2_000 * slower, p50Ms, p99Ms: 9 },
    cpu: { gateway: series.startsWith("gateway") ? 60 : null, generator: 90, database: 120 },
  };
}

/** Three rounds. The second was seven times as slow for all. */
function samples(p50Ms: Readonly<Record<"gateway" | "direct", number>>): Sample[] {
  return SERIES.flatMap((series) =>
    CLIENTS.flatMap((clients) =>
      [1, 7, 1].map((slower, round) => {
        const usual = p50Ms[series.startsWith("gateway") ? "gateway" : "direct"];
        return sample(series, clients, round, slower, slower * usual);
      }),
    ),
  );
}

test("a disturbed round changes nothing", () => {
  const result = summarize(samples({ gateway: 1.5, direct: 1 }));
  assert.deepEqual(result.gateway.c8, {
    p50_ms: 1.5,
    p99_ms: 9,
    tps: 600,
    conflicts: 0,
    cpu_us: { gateway: 50, generator: 75, database: 100 },
  });
  assert.equal(result.direct_async.c1.cpu_us.gateway, null);
  assert.equal(result.ratios.tps_to_direct_async.c64, 1.2);
  assert.equal(result.ratios.tps_to_direct_sync.c64, 6);
  assert.equal(result.ratios.with_tracker_tps_to_gateway.c64, 0.9);
  assert.deepEqual(
    result.bars.map((bar) => [bar.measured, bar.met]),
    [
      [0.5, true],
      [1.2, true],
    ],
  );
});

test("a ratio compares within a round", () => {
  // Everything grows three times slower from round to round, and always by the same ratio.
  const drifting = SERIES.flatMap((series) =>
    CLIENTS.flatMap((clients) =>
      [1, 3, 9].flatMap((slower, round) =>
        // The gateway's second round is missing: there the median of its times alone would be of other rounds.
        series === "gateway" && round === 1 ? [] : [sample(series, clients, round, slower, slower)],
      ),
    ),
  );
  const result = summarize(drifting);
  assert.equal(result.ratios.tps_to_direct_async.c64, 1.2);
  assert.equal(result.ratios.p50_ms_above_direct_async.c1, 0);
});

test("a missed bar is called missed", () => {
  const { bars } = summarize(samples({ gateway: 1.7, direct: 1 }));
  assert.deepEqual(
    bars.map((bar) => bar.met),
    [false, true],
  );
  assert.match(
    bars.map(verdictOf).join("\n"),
    /^MISSED gateway p50 at 1 client .*: 0\.7\nmet {4}gateway throughput/,
  );
});

test("a cell without a sample is an error, not a gap", () => {
  const all = samples({ gateway: 1, direct: 1 }).filter(({ series }) => series !== "direct_sync");
  assert.throws(() => summarize(all), /not measured/);
});

test("the table has a line for every series and number of clients, all of one width", () => {
  const lines = tableOf(summarize(samples({ gateway: 1, direct: 1 }))).split("\n");
  assert.equal(lines.length, 1 + SERIES.length * CLIENTS.length);
  assert.equal(new Set(lines.map((line) => line.length)).size, 1);
});
