// Experiment 5, the auction (paper section 2.1) end to end: how long a page waits for its ad when
// the application chooses, transaction by transaction, against the same application with every
// commit synchronous.
import type { Measurement, Sample } from "./bench.ts";
import { SCHEMA } from "@highwater/example-ad-exchange/exchange";
import { type Experiment, LINKS_MS, measureInRounds, NEAR_MS, sized } from "./experiment.ts";
import { pointsOf, ratioOf } from "./figures.ts";
import type { Subject } from "./load/target.ts";
import { PAGE } from "./auction/worker.ts";
import type { ExperimentSystem } from "./system.ts";

const TABLES = ["auction", "bid", "sale"];
const BIDS = 4;

interface Sizes {
  readonly rounds: number;
  readonly seconds: number;
  readonly publishers: number;
  readonly linksMs: readonly number[];
}

const CONFIGURATIONS = {
  "as designed": { subject: "fast", allSafe: false },
  "all safe": { subject: "safe", allSafe: true },
  "PostgreSQL, on": { subject: "direct_on", allSafe: false },
  "PostgreSQL, off": { subject: "direct_off", allSafe: false },
} as const satisfies Record<string, { readonly subject: Subject; readonly allSafe: boolean }>;
type Configuration = keyof typeof CONFIGURATIONS;

export const auction: Experiment = {
  name: "auction",
  async run(context) {
    const sizes: Sizes = sized(context.mode, {
      quick: { rounds: 1, seconds: 4, publishers: 4, linksMs: [NEAR_MS] },
      full: { rounds: 2, seconds: 6, publishers: 4, linksMs: [...LINKS_MS] },
    });
    const { system } = context.bench;
    await system.createTables(
      SCHEMA.map(({ text }) => text),
      TABLES,
    );
    const samples = await measureInRounds(context, sizes.rounds, measurements(sizes), () =>
      checkSales(system),
    );
    const page = (configuration: Configuration, linkMs: number) => ({
      subject: CONFIGURATIONS[configuration].subject,
      kind: PAGE,
      labels: { configuration, link_ms: linkMs },
    });
    const mean = ({ meanMs }: Sample): number | null => meanMs;
    return {
      experiment: auction.name,
      mode: context.mode,
      settings: { ...sizes, bidsPerAuction: BIDS },
      points: pointsOf(samples),
      ratios: Object.fromEntries(
        sizes.linksMs.flatMap((linkMs) =>
          (["PostgreSQL, on", "all safe"] as const).map((other) => [
            `mean time of a page as designed to "${other}", ${String(linkMs)} ms`,
            ratioOf(samples, { of: page("as designed", linkMs), to: page(other, linkMs) }, mean),
          ]),
        ),
      ),
      bars: [],
    };
  },
};

function measurements(sizes: Sizes): Omit<Measurement, "round">[] {
  return sizes.linksMs.flatMap((linkMs) =>
    Object.entries(CONFIGURATIONS).map(([configuration, { subject, allSafe }]) => ({
      labels: { configuration, link_ms: linkMs },
      linkMs,
      groups: [
        {
          name: configuration,
          subject,
          isolation: "serializable" as const,
          workload: { kind: "auction" as const, bidsPerAuction: BIDS, allSafe },
          clients: sizes.publishers,
          retries: 0,
        },
      ],
      warmUpMs: 1_500,
      durationMs: 1_000 * sizes.seconds,
    })),
  );
}

/** Every auction was closed, sold once, and to its best bid. */
async function checkSales(system: ExperimentSystem): Promise<void> {
  const [row] = await system.query(`SELECT count(*)::int AS wrong FROM auction
    LEFT JOIN (SELECT auction_id, count(*) AS sales, max(cents) AS paid FROM sale GROUP BY auction_id) s ON s.auction_id = id
    LEFT JOIN (SELECT auction_id, count(*) AS bids, max(cents) AS best FROM bid GROUP BY auction_id) b ON b.auction_id = id
    WHERE state <> 'closed' OR sales IS DISTINCT FROM 1 OR bids IS DISTINCT FROM ${String(BIDS)} OR paid IS DISTINCT FROM best`);
  if (row?.["wrong"] !== 0) throw new Error(`${String(row?.["wrong"])} auctions differ from the answers`);
}
