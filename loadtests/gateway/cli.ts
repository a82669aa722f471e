// `make bench-gateway`: the same transaction through the gateway and by node-postgres alone, asynchronous and synchronous,
// on one primary with one replica and no added delay. Segments take turns, so that what disturbs the machine disturbs all.
// Options: --rounds N, --seconds S (of a segment), --profile FOLDER (processor profile of the gateway without a tracker).
// Exit codes: 0 when the bars are met, 1 when one is missed or the benchmark failed.
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { record } from "../record.ts";
import { Bench, type Subject } from "./bench.ts";
import { BenchSystem } from "./bench-system.ts";
import { CLIENTS, type Sample, summarize, tableOf, verdictOf } from "./results.ts";

const WARM_UP_MS = 1_500;

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "6" },
    seconds: { type: "string", default: "1" },
    profile: { type: "string" },
  },
});
const rounds = Number(values.rounds);
const durationMs = 1_000 * Number(values.seconds);
if (!(rounds >= 1 && rounds <= 50 && durationMs >= 100 && durationMs <= 60_000))
  throw new Error("--rounds is from 1 to 50, and --seconds from 0.1 to 60");

/** Every subject with every number of clients, in turns; what comes before the compiler has seen it all does not count. */
async function measure(bench: Bench, subjects: readonly Subject[]): Promise<Sample[]> {
  for (const subject of subjects)
    for (const clients of CLIENTS) await bench.run(subject, { round: 0, clients, durationMs: WARM_UP_MS });
  const samples: Sample[] = [];
  for (let round = 1; round <= rounds; round++)
    for (const clients of CLIENTS)
      for (const subject of subjects) samples.push(await bench.run(subject, { round, clients, durationMs }));
  return samples;
}

async function run(system: BenchSystem): Promise<boolean> {
  const url = await system.appUrl();
  const bench = new Bench(system);
  try {
    const profile = values.profile === undefined ? {} : { profile: resolve(values.profile) };
    const gateway = await system.startGateway({ name: "gateway", withTracker: false, ...profile });
    const samples = await measure(bench, [
      { series: "gateway", target: { kind: "gateway", url: gateway.url }, pid: gateway.pid },
      { series: "direct_async", target: { kind: "direct", url, synchronousCommit: "off" } },
      { series: "direct_sync", target: { kind: "direct", url, synchronousCommit: "on" } },
    ]);
    await system.stop(gateway);
    // Only now: a tracker reads the positions of the nodes all the time, which the others would pay for as well.
    const tracked = await system.startGateway({ name: "gateway-with-tracker", withTracker: true });
    samples.push(
      ...(await measure(bench, [
        { series: "gateway_with_tracker", target: { kind: "gateway", url: tracked.url }, pid: tracked.pid },
      ])),
    );
    await bench.check();
    const result = summarize(samples);
    record("gateway", result);
    console.log([tableOf(result), ...result.bars.map(verdictOf)].join("\n"));
    return result.bars.every((bar) => bar.met);
  } finally {
    bench.close();
  }
}

let met: boolean;
{
  await using system = await BenchSystem.start();
  met = await run(system);
}
process.exit(met ? 0 : 1);
