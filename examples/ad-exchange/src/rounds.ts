// `make failover-rounds N=20`: failover after failover on one system, so that epochs pile up. In
// every round auctions run, the primary's region is lost, another node is promoted, and every
// promise of the round is held against the database; at the end all promises of all rounds are,
// once more. Every third round loses the promoted node's region as well.
import { setTimeout as sleep } from "node:timers/promises";
import { type System } from "@highwater/lab-system";
import { eventually } from "@highwater/lab-tools/process";
import { Highwater } from "@highwater/sdk";
import { check, type Findings } from "./check.ts";
import { Exchange } from "./exchange.ts";
import { failOver, type Failover, type VerdictTimes, verdictTimes } from "./failover.ts";
import { MODERATE, Publishers } from "./publishers.ts";
import { quantile, round } from "./quantile.ts";
import { type Claim, Recorder } from "./recorder.ts";
import { endpointsBeside, roundTrips } from "./regions.ts";
import { withSystem } from "./with-system.ts";

const REGIONS = ["us-east", "us-central", "us-west", "eu-west"] as const;
const ROUNDS = Number(process.argv[2] ?? 20);
const LOAD_MS = 2_000;
const AFTERWARDS_MS = 700;
const DOUBLE_EVERY = 3;
/** The bar for verdicts after a promotion. Programs beside this one can make them miss it. */
const VERDICTS_MAX_MS = 2_000;
/** How long a revived region's tracker may take to be ready, and one question to it. */
const REVIVED_MS = 180_000;
const READYZ_MS = 5_000;
/** Of the reason that a tracker gives in its readiness. */
const UNSEEN_EPOCH = /none has epoch (\S+) in its history/;

interface Round {
  readonly failovers: readonly { readonly failover: Failover; readonly times: VerdictTimes }[];
  readonly findings: Findings;
  /** Committed, and their promises ended without a verdict. */
  readonly unsettled: readonly Claim[];
}

async function rounds(system: System): Promise<boolean> {
  const { cluster } = system;
  let primary: string = REGIONS[0];
  const [version] = await cluster.query(
    primary,
    "SELECT split_part(current_setting('server_version'), ' ', 1) AS postgres",
  );
  let client = await clientBeside(system, primary);
  await new Exchange(client).createTables();
  const recorder = new Recorder(client);
  const done: Round[] = [];
  const complaints: string[] = [];
  for (let number = 1; number <= ROUNDS; number++) {
    const result = await runRound(system, { recorder, client, primary, double: number % DOUBLE_EVERY === 0 });
    done.push(result);
    const faults = faultsOf(number, result);
    complaints.push(...faults);
    report(number, result, faults);
    primary = result.failovers.at(-1)?.failover.to ?? primary;
    await cluster.healAll();
    const revived = result.failovers.map(({ failover }) => failover.from);
    await Promise.all(revived.map((region) => system.reviveRegion(region)));
    for (const region of revived) await giveUpUnseenEpoch(system, region, primary);
    await system.ready();
    await client.close();
    client = await clientBeside(system, primary);
    recorder.use(client);
  }
  const findings = await check({ client, cluster, primary, claims: recorder.claims });
  for (const fault of findings.faults) complaints.push(`at the end: ${fault}`);
  await client.close();
  const { committed, durable, lost, pending, wrong } = findings;
  const times = done.flatMap(({ failovers }) => failovers.map(({ times }) => times.afterCallMs));
  const summary = {
    ...version,
    rounds: done.length,
    committed,
    durable,
    lost,
    pending: pending + done.reduce((sum, each) => sum + each.findings.pending, 0),
    wrong: wrong + done.reduce((sum, each) => sum + each.findings.wrong, 0),
    verdict_after_promotion_ms_max: round(Math.max(0, ...times)),
    verdict_after_promotion_ms_p50: round(quantile(times, 0.5)),
    failovers: times.length,
  };
  console.log(complaints.length === 0 ? "No complaints." : ["Complaints:", ...complaints].join("\n  "));
  console.log(JSON.stringify(summary));
  const slowestMs = summary.verdict_after_promotion_ms_max;
  const isGood = complaints.length === 0 && summary.pending === 0 && summary.wrong === 0;
  const isSoon = slowestMs <= VERDICTS_MAX_MS;
  console.log(
    `${isGood ? "met   " : "MISSED"} wrong verdicts, or none: ${String(summary.wrong + summary.pending + complaints.length)}`,
  );
  console.log(
    `${isSoon ? "met   " : "MISSED"} ms from a promotion to the last verdict, at most ${String(VERDICTS_MAX_MS)}: ${String(slowestMs)}`,
  );
  return isGood && isSoon;
}

/**
 * A region that is lost right after its promotion may have begun an epoch that no other node has
 * seen. Its tracker comes back with that epoch and waits until an operator overrules it.
 */
async function giveUpUnseenEpoch(system: System, region: string, primary: string): Promise<void> {
  const tracker = system.tracker(region).url;
  const { epoch } = await eventually(
    `${region}'s tracker is ready, or says what it waits for`,
    async () => {
      const response = await fetch(`${tracker}/readyz`, { signal: AbortSignal.timeout(READYZ_MS) });
      const epoch = UNSEEN_EPOCH.exec(await response.text())?.[1];
      return (response.ok || epoch !== undefined) && { epoch };
    },
    REVIVED_MS,
  );
  if (epoch === undefined) return;
  console.log(`          only ${region}'s tracker knows epoch ${epoch}: the operator gives it up`);
  await system.cluster.authorize(primary, `epoch of ${region} is lost`, { overrules: [epoch] });
}

/** A client that is beside the primary, as the publishers are. */
async function clientBeside(system: System, primary: string): Promise<Highwater> {
  return new Highwater({ endpoints: await endpointsBeside(system, primary), level: "region" });
}

async function runRound(
  system: System,
  options: { recorder: Recorder; client: Highwater; primary: string; double: boolean },
): Promise<Round> {
  const { recorder, client, primary, double } = options;
  const before = recorder.claims.length;
  const publishers = new Publishers(new Exchange(recorder), MODERATE);
  await sleep(LOAD_MS);
  const failovers: { failover: Failover; times: VerdictTimes }[] = [];
  let victim = primary;
  for (let more = double ? 2 : 1; more > 0; more--) {
    const failover = await failOver(system, { primary: victim, recorder });
    failovers.push({ failover, times: await verdictTimes(failover) });
    victim = failover.to;
  }
  await sleep(AFTERWARDS_MS);
  await publishers.stop();
  const claims = recorder.claims.slice(before);
  await Promise.all(claims.map((claim) => claim.settled));
  const findings = await check({
    client,
    cluster: system.cluster,
    primary: victim,
    claims,
    isKnown: (id) => recorder.find(id) !== undefined,
  });
  const unsettled = claims.filter(({ answer, error }) => answer === "committed" && error !== undefined);
  return { failovers, findings, unsettled };
}

function report(number: number, { failovers, findings }: Round, faults: readonly string[]): void {
  const way = [failovers[0]?.failover.from, ...failovers.map(({ failover }) => failover.to)].join(" > ");
  const verdicts = failovers.map(({ times }) => `${times.afterCallMs.toFixed(0)} ms`).join(" and ");
  const { committed, durable, lost, pending, wrong } = findings;
  const counts = `${String(committed)} committed, ${String(durable)} durable, ${String(lost)} lost, ${String(pending)} pending, ${String(wrong)} wrong`;
  console.log(`round ${String(number).padStart(2)}  ${way}: ${counts}; verdicts after ${verdicts}`);
  for (const fault of faults) console.log(`          ${fault}`);
}

function faultsOf(number: number, { failovers, findings, unsettled }: Round): string[] {
  const { pending } = findings;
  return [
    ...failovers
      .filter(({ times }) => times.open > 0)
      .map(({ failover: { from, to }, times }) => `${from} > ${to}: ${String(times.open)} verdicts missing`),
    ...unsettled.map(
      ({ id, name, token, error }) => `no verdict for ${name} ${id} (${String(token)}): ${String(error)}`,
    ),
    ...findings.faults,
    ...(pending > 0 ? [`${String(pending)} pending`] : []),
  ].map((fault) => `round ${String(number)}: ${fault}`);
}

if (!Number.isInteger(ROUNDS) || ROUNDS < 1) {
  console.error("Usage: rounds.ts [N]   N failovers in a row (default: 20)");
  process.exitCode = 2;
} else {
  const nodes = REGIONS.map((region) => ({ id: region, region }));
  process.exit(await withSystem({ cluster: { nodes, roundTripMs: roundTrips() } }, rounds));
}
