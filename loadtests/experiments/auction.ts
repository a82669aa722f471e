// Experiment 5, the auction (paper section 2.1) end to end: how long a page waits for its ad when
// the application chooses, transaction by transaction, against the same application with every
// commit synchronous.
import { SCHEMA } from "@highwater/example-ad-exchange/exchange";
import { compared } from "../rounds/figures.ts";
import type { Turn } from "../rounds/turns.ts";
import { PAGE } from "./auction/worker.ts";
import { workloadOf } from "./bench.ts";
import { type Experiment, type Findings, LINKS_MS, rowOf } from "./experiment.ts";
import { bar } from "../rounds/bars.ts";
import type { Way } from "./load/target.ts";
import type { ExperimentSystem } from "./system.ts";

const TABLES = ["auction", "bid", "sale"];
const BIDS = 4;
const PUBLISHERS = 4;
const DESIGNED = "as designed";

const CONFIGURATIONS = {
  [DESIGNED]: { way: "fast", allSafe: false },
  "all safe": { way: "safe", allSafe: true },
  "PostgreSQL, on": { way: "direct_on", allSafe: false },
  "PostgreSQL, off": { way: "direct_off", allSafe: false },
} as const satisfies Record<string, { readonly way: Way; readonly allSafe: boolean }>;

export const auction: Experiment = {
  name: "auction",
  settings: { publishers: PUBLISHERS, bidsPerAuction: BIDS },
  prepare: (system) =>
    system.createTables(
      SCHEMA.map(({ text }) => text),
      TABLES,
    ),
  measurements: () =>
    LINKS_MS.flatMap((linkMs) =>
      Object.entries(CONFIGURATIONS).map(([configuration, { way, allSafe }]) =>
        rowOf(
          configuration,
          {
            way,
            workload: { kind: "auction", bidsPerAuction: BIDS, allSafe },
            clients: PUBLISHERS,
            retries: 0,
          },
          { conditions: { link_ms: linkMs }, linkMs, labels: { configuration }, whole: PAGE },
        ),
      ),
    ),
  check: checkSales,
  judge,
};

function judge(turns: readonly Turn[]): Findings {
  const times = (to: string, linkMs: number): number =>
    compared(turns, { workload: workloadOf({ link_ms: linkMs }), of: DESIGNED, to, figure: "mean_ms" });
  return {
    ratios: Object.fromEntries(
      LINKS_MS.flatMap((linkMs) =>
        ["PostgreSQL, on", "all safe"].map((other) => [
          `mean time of a page as designed to "${other}", ${String(linkMs)} ms`,
          times(other, linkMs),
        ]),
      ),
    ),
    bars: LINKS_MS.map((linkMs) =>
      bar(
        `${String(linkMs)} ms: mean time of a page as designed at most that of PostgreSQL, on`,
        times("PostgreSQL, on", linkMs),
        { max: 1 },
      ),
    ),
  };
}

/** Every auction was closed, sold once, and to its best bid. */
async function checkSales(system: ExperimentSystem): Promise<void> {
  const [row] = await system.query(`SELECT count(*)::int AS wrong FROM auction
    LEFT JOIN (SELECT auction_id, count(*) AS sales, max(cents) AS paid FROM sale GROUP BY auction_id) s ON s.auction_id = id
    LEFT JOIN (SELECT auction_id, count(*) AS bids, max(cents) AS best FROM bid GROUP BY auction_id) b ON b.auction_id = id
    WHERE state <> 'closed' OR sales IS DISTINCT FROM 1 OR bids IS DISTINCT FROM ${String(BIDS)} OR paid IS DISTINCT FROM best`);
  if (row?.["wrong"] !== 0) throw new Error(`${String(row?.["wrong"])} auctions differ from the answers`);
}
