// `make bench-gateway`: the same transaction through the gateway and by node-postgres alone,
// asynchronous and synchronous, on one primary with one replica and no added delay. Segments take
// turns, so that what disturbs the machine disturbs all.
// Options: --rounds N, --seconds S (of a segment), --profile FOLDER (processor profile of the
// gateway without a tracker).
// Exit codes: 0 when the bars are met, 1 when one is missed or the benchmark failed.
import { resolve } from "node:path";
import { readOptions } from "@highwater/lab-tools/process";
import { record } from "../record.ts";
import { verdictOf } from "../rounds/bars.ts";
import { Bench } from "./bench.ts";
import { BenchSystem } from "./bench-system.ts";
import { CLIENTS, summarize, tableOf } from "./results.ts";
import { measureInRounds, readRounds } from "./rounds.ts";

const WARM_UP_MS = 1_500;

const { values } = readOptions(import.meta.filename, {
  options: {
    rounds: { type: "string", default: "6" },
    seconds: { type: "string", default: "1" },
    profile: { type: "string" },
  },
});
const how = { ...readRounds(values), clientCounts: CLIENTS, warmUpMs: WARM_UP_MS };

async function run(system: BenchSystem): Promise<boolean> {
  const url = await system.appUrl();
  const bench = new Bench(system);
  try {
    const profile = values.profile === undefined ? {} : { profile: resolve(values.profile) };
    const gateway = await system.startGateway({ name: "gateway", withTracker: false, ...profile });
    const samples = await measureInRounds(
      bench,
      [
        { series: "gateway", target: { kind: "gateway", url: gateway.url }, pid: gateway.pid },
        { series: "direct_async", target: { kind: "direct", url, synchronousCommit: "off" } },
        { series: "direct_sync", target: { kind: "direct", url, synchronousCommit: "on" } },
      ],
      how,
    );
    await system.stop(gateway);
    // Only now: a tracker reads the positions of the nodes all the time, which the others would pay
    // for as well.
    const tracked = await system.startGateway({ name: "gateway-with-tracker", withTracker: true });
    const target = { kind: "gateway", url: tracked.url } as const;
    const last = [{ series: "gateway_with_tracker", target, pid: tracked.pid }];
    samples.push(...(await measureInRounds(bench, last, how)));
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
