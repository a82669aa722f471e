// The loss of the primary's region, as an operator lives through it: the region is cut off, its
// clients go on committing for a moment, it dies, and the most advanced of the replicas is
// promoted.
import { setTimeout as sleep } from "node:timers/promises";
import { type System } from "@highwater/lab-system";
import { type Claim, type Recorder } from "./recorder.ts";
import { PUBLISHERS } from "./regions.ts";

/** How long the region's clients commit what cannot reach another region any more. */
const CUT_MS = 700;
/** Longer than any verdict should take. */
const VERDICTS_MS = 20_000;

export interface Failover {
  readonly from: string;
  readonly to: string;
  readonly cutMs: number;
  readonly killedMs: number;
  readonly promoteCalledMs: number;
  readonly promotedMs: number;
  /** Committed and not yet known to be durable when the region died. */
  readonly exposed: readonly Claim[];
}

export interface VerdictTimes {
  /**
   * From the call of promote() to the last verdict about a transaction that was exposed; 0 if none
   * came later.
   */
  readonly afterCallMs: number;
  /** The same from when promote() had returned. */
  readonly afterReturnMs: number;
  /** From the call to the last verdict `lost`. */
  readonly lostAfterCallMs: number;
  readonly lost: number;
  readonly carriedOver: number;
  /** Without a verdict when the time was over. */
  readonly open: number;
}

export async function failOver(
  system: System,
  options: { primary: string; recorder: Recorder; say?: (what: string) => void },
): Promise<Failover> {
  const { primary, recorder, say = () => undefined } = options;
  const { cluster } = system;
  const node = cluster.nodes.find(({ id }) => id === primary);
  if (node === undefined) throw new Error(`there is no node ${primary}`);
  const { region } = node;
  say(`${region} is cut off from the other regions; its clients go on committing`);
  const cutMs = performance.now();
  await cluster.isolate(region, { except: [PUBLISHERS] });
  await sleep(CUT_MS);
  await system.killRegion(region);
  const killedMs = performance.now();
  const exposed = recorder.claims.filter(
    (claim) => claim.answer === "committed" && claim.reported === undefined,
  );
  say(`${region} is dead: its database, its gateway and its tracker`);
  const to = await cluster.mostAdvancedReplica();
  say(`promoting ${to}, the most advanced replica`);
  const promoteCalledMs = performance.now();
  await cluster.promote(to, { reason: `${region} is lost` });
  const promotedMs = performance.now();
  say(`${to} is the primary`);
  return { from: primary, to, cutMs, killedMs, promoteCalledMs, promotedMs, exposed };
}

/**
 * Waits for the promises of the exposed transactions, and says how long after the promotion the
 * last one spoke.
 */
export async function verdictTimes(failover: Failover): Promise<VerdictTimes> {
  const { exposed, promoteCalledMs, promotedMs } = failover;
  const settled = Promise.all(exposed.map((claim) => claim.settled));
  await Promise.race([settled, sleep(VERDICTS_MS, undefined, { ref: false })]);
  const reported = exposed.filter((claim) => claim.reported !== undefined);
  const lost = reported.filter((claim) => claim.reported === "lost");
  const last = (claims: readonly Claim[], sinceMs: number): number =>
    claims.reduce((max, claim) => Math.max(max, claim.reportedMs - sinceMs), 0);
  return {
    afterCallMs: last(reported, promoteCalledMs),
    afterReturnMs: last(reported, promotedMs),
    lostAfterCallMs: last(lost, promoteCalledMs),
    lost: lost.length,
    carriedOver: reported.filter((claim) => claim.reported === "durable").length,
    open: exposed.length - reported.length,
  };
}
