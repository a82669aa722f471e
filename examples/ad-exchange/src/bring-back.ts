// The operator's part after the failover: starts the lost region's tracker again, because it alone
// has what its clients wrote at the end. Then has the lost transactions brought back.
import { type System } from "@highwater/lab-system";
import { eventually } from "@highwater/lab-tools/process";
import { type Claim } from "./recorder.ts";

export type Outcome = "replayed" | "conflict" | "unrecoverable";

/** Of the answer of `POST /v1/lost/replay`. */
export interface Report {
  readonly lostWrites: number;
  readonly replayed: number;
  readonly conflicts: number;
  readonly unrecoverable: number;
  readonly transactions: readonly {
    readonly id: string;
    readonly outcome: Outcome;
    readonly reason?: string;
    readonly kind?: string;
  }[];
}

/** The trackers keep the contents of what the exchange writes (GATEWAY_KEEP). */
export const KEEPING = {
  GATEWAY_KEEP: "true",
  HIGHWATER_CONTENTS_KEYS: JSON.stringify([
    { kid: 1, validFrom: "2026-01-01T00:00:00Z", secret: "contents of the ad exchange, as an example" },
  ]),
};

const LISTED_MS = 30_000;

export async function bringBack(
  system: System,
  failover: { readonly from: string; readonly to: string },
  claims: readonly Claim[],
): Promise<Report> {
  await system.cluster.healAll();
  await system.restartService(failover.from, "tracker");
  const reportedLost = claims.filter(({ readOnly, reported }) => !readOnly && reported === "lost");
  await eventually(
    `${failover.from}'s tracker lists what was lost`,
    async () => {
      const listed = await listOf(system.tracker(failover.from).url);
      return reportedLost.every(({ id }) => listed.has(id));
    },
    LISTED_MS,
  );
  const response = await fetch(`${system.gateway(failover.to).url}/v1/lost/replay`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    // The exchange can say so: each of its statements checks what it depends on.
    body: JSON.stringify({ dryRun: false, independent: "all" }),
  });
  if (!response.ok) throw new Error(`nothing was brought back: ${await response.text()}`);
  return (await response.json()) as Report;
}

async function listOf(tracker: string): Promise<ReadonlySet<string>> {
  const ids = new Set<string>();
  for (let after: string | null = "0"; after !== null;) {
    const page = await fetch(`${tracker}/v1/lost?limit=1000&after=${after}`);
    const { lost, next } = (await page.json()) as { lost: { id: string }[]; next: string | null };
    for (const { id } of lost) ids.add(id);
    after = next;
  }
  return ids;
}

/** How often each reason was given. */
export function reasonsOf(report: Report, wanted: Outcome): Readonly<Record<string, number>> {
  const reasons: Record<string, number> = {};
  for (const { outcome, reason, kind } of report.transactions)
    if (outcome === wanted) {
      const why = [reason, kind].filter((each) => each !== undefined).join(": ");
      reasons[why] = (reasons[why] ?? 0) + 1;
    }
  return reasons;
}
