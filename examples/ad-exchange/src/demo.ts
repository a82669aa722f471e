// `make demo`: auctions in a three-region system, then the loss of the primary's region in the
// middle of them. The lost transactions are brought back, and at the end every promise is held
// against the database. Exit code 1 if one of them was wrong. On a terminal it ends with the page
// of what was lost, which stays open until Enter.
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { type System } from "@highwater/lab-system";
import { Highwater } from "@highwater/sdk";
import { bringBack, KEEPING, reasonsOf, type Report } from "./bring-back.ts";
import { check, type Findings } from "./check.ts";
import { commitMs, Display, durableMs } from "./display.ts";
import { Exchange } from "./exchange.ts";
import { failOver, type Failover, type VerdictTimes, verdictTimes } from "./failover.ts";
import { MODERATE, Publishers } from "./publishers.ts";
import { quantile, round } from "./quantile.ts";
import { type Claim, Recorder } from "./recorder.ts";
import { endpointsBeside, roundTrips } from "./regions.ts";
import { withSystem } from "./with-system.ts";

const PRIMARY = "us-east";
const LOAD_MS = 1_000 * Number(process.env["DEMO_SECONDS"] ?? 20);
const AFTERWARDS_MS = 3_000;

async function demo(system: System, interrupted: AbortSignal): Promise<boolean> {
  const endpoints = await endpointsBeside(system, PRIMARY);
  const client = new Highwater({ endpoints, level: "region" });
  const recorder = new Recorder(client);
  await new Exchange(client).createTables();
  const publishers = new Publishers(new Exchange(recorder), MODERATE);
  const display = new Display({ client, recorder, publishers, endpoints });
  interrupted.addEventListener("abort", () => {
    display.stop();
  });
  display.say(
    `${String(MODERATE.publishers)} publishers beside ${PRIMARY} run auctions for ${round(LOAD_MS / 1_000).toString()} s`,
  );
  const survivor = system.regions.find((each) => each !== PRIMARY) ?? PRIMARY;
  display.say(`watch it in a browser: ${consoleOf(system, survivor)}`);
  await sleep(LOAD_MS);
  const failover = await failOver(system, {
    primary: PRIMARY,
    recorder,
    say: (what) => {
      display.say(what);
    },
  });
  const times = await verdictTimes(failover);
  display.say("every transaction that was exposed has its verdict; the auctions go on");
  await sleep(AFTERWARDS_MS);
  display.say("no more pages; waiting for the last answers");
  await publishers.stop();
  await Promise.all(recorder.claims.map((claim) => claim.settled));
  display.say(`starting the tracker of ${PRIMARY} again, and bringing back what was lost`);
  const back = await bringBack(system, failover, recorder.claims);
  display.stop();
  const { claims } = recorder;
  const findings = await check({
    client,
    cluster: system.cluster,
    primary: failover.to,
    claims,
    report: back,
  });
  await client.close();
  const isRight = report({ publishers, claims, failover, times, findings, back });
  if (process.stdin.isTTY && process.stdout.isTTY) await showLosses(system);
  return isRight;
}

/** On the tracker of the lost region, because it alone knew them all and keeps their contents. */
async function showLosses(system: System): Promise<void> {
  const page = `${consoleOf(system, PRIMARY)}#/after`;
  console.log(`\nThe console lists the lost transactions: ${page}\nPress Enter to stop everything.`);
  await Promise.race([once(process.stdin, "data"), once(process.stdin, "end")]);
}

function consoleOf(system: System, region: string): string {
  return `${system.tracker(region).url}/console`;
}

interface Results {
  readonly publishers: Publishers;
  readonly claims: readonly Claim[];
  readonly failover: Failover;
  readonly times: VerdictTimes;
  readonly findings: Findings;
  readonly back: Report;
}

function report({ publishers, claims, failover, times, findings, back }: Results): boolean {
  const { tally, errors } = publishers;
  const before = claims.filter(
    (claim) => !claim.safe && !claim.readOnly && claim.answeredMs < failover.cutMs,
  );
  const safeBefore = claims.filter((claim) => claim.safe && claim.answeredMs < failover.cutMs);
  const fast = { commit: before.map(commitMs), durable: before.map(durableMs) };
  const { answered } = findings;
  const known = answered.replayed + answered.conflict + answered.unrecoverable;
  const ms = (value: number): string => `${value.toFixed(value < 20 ? 1 : 0)} ms`;
  const lines = [
    "",
    `Ads: ${String(tally.sold)} sold, ${String(tally.unsold)} slots without a bid, ${String(tally.vanished)} auctions lost before they closed, ${String(tally.skipped)} pages not tried, ${String(tally.failed)} given up.`,
    `Fast transactions before the failure: commit ${ms(quantile(fast.commit, 0.5))} (p99 ${ms(quantile(fast.commit, 0.99))}), durable in another region after ${ms(quantile(fast.durable, 0.5))} (p99 ${ms(quantile(fast.durable, 0.99))}).`,
    `Safe transactions before the failure: answered after ${ms(quantile(safeBefore.map(commitMs), 0.5))} (p99 ${ms(quantile(safeBefore.map(commitMs), 0.99))}).`,
    `When ${failover.from} died, ${String(failover.exposed.length)} transactions were committed and not known to be durable: ${String(times.lost)} were lost, ${String(times.carriedOver)} had reached ${failover.to}.`,
    `The last of them had its verdict ${ms(times.afterCallMs)} after the promotion was called (${ms(times.afterReturnMs)} after it returned); the last loss was told after ${ms(times.lostAfterCallMs)}.`,
    `Every transaction, by its final verdict: ${String(findings.committed)} committed, ${String(findings.durable)} durable, ${String(findings.lost)} lost, ${String(findings.pending)} pending; ${String(findings.aborted)} came to nothing, ${String(findings.resolved)} missing answers were found out.`,
    `Brought back: of ${String(back.lostWrites)} lost writes, ${String(back.replayed)} were replayed, ${String(back.conflicts)} were conflicts${listed(back, "conflict")}, ${String(back.unrecoverable)} were unrecoverable${listed(back, "unrecoverable")}.`,
    `Clients knew of ${String(known)} of them: ${String(answered.replayed)} were replayed, ${String(answered.conflict)} were conflicts, ${String(answered.unrecoverable)} were unrecoverable.`,
    `Against the tables of ${failover.to} itself, ${String(findings.readsChecked)} reads included: ${String(findings.wrong)} wrong.`,
    ...findings.faults.map((fault) => `  ${fault}`),
    ...[...errors].map(([code, times]) => `  ${String(times)} pages or bids ended with ${code}`),
  ];
  console.log(lines.join("\n"));
  const { committed, durable, lost, pending, wrong } = findings;
  const summary = {
    committed,
    durable,
    lost,
    pending,
    wrong,
    lostWrites: back.lostWrites,
    replayed: back.replayed,
    conflicts: back.conflicts,
    unrecoverable: back.unrecoverable,
    unrecoverableBecause: reasonsOf(back, "unrecoverable"),
    answeredLost: known,
    answeredReplayed: answered.replayed,
    answeredUnrecoverable: answered.unrecoverable,
    commit_p50_ms: round(quantile(fast.commit, 0.5), 2),
    durable_p50_ms: round(quantile(fast.durable, 0.5), 2),
    verdict_after_promotion_ms: round(times.afterCallMs),
    verdict_after_promote_returned_ms: round(times.afterReturnMs),
    last_loss_after_promotion_ms: round(times.lostAfterCallMs),
    exposed_at_failure: failover.exposed.length,
  };
  console.log(JSON.stringify(summary));
  if (lost === 0)
    console.log(
      "\nNothing that a client knew of was lost, so this run has not shown what it is for: the machine is too busy. Run it again.",
    );
  const isBack =
    back.lostWrites === back.replayed + back.conflicts + back.unrecoverable && answered.unrecoverable === 0;
  return wrong === 0 && pending === 0 && lost > 0 && isBack;
}

function listed(back: Report, outcome: "conflict" | "unrecoverable"): string {
  const reasons = Object.entries(reasonsOf(back, outcome)).map(([why, times]) => `${String(times)} ${why}`);
  return reasons.length === 0 ? "" : ` (${reasons.join(", ")})`;
}

// Everything is closed by now. Left to end by itself, Node 24.21 was once seen to spin in its
// clean-up.
process.exit(await withSystem({ cluster: { roundTripMs: roundTrips() }, env: KEEPING }, demo));
