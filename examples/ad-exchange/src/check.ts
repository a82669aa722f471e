// The honest end check. Asks the service for its final word about every transaction, then asks the
// database itself, past all services, what is really there. Every write names its transaction in
// the application's own tables.
import { type Cluster } from "@highwater/lab-system";
import { type Highwater, HighwaterError, type TokenVerdict } from "@highwater/sdk";
import { type Claim } from "./recorder.ts";

const LEVEL = "region";
const VERDICT_WAIT_MS = 10_000;
const RESOLVE_TIMEOUT_MS = 15_000;
const RESOLVE_PAUSE_MS = 200;
/** Of each kind of fault, so many are printed in full. */
const FAULTS_PRINTED = 5;

/** What became of a transaction, by the service's final word. */
type Fate = "durable" | "lost" | "pending" | "aborted" | "never ran" | "broken" | "expired" | "unknown";

export interface Findings {
  /** Answered as committed, or found committed when the answer had gone missing. */
  readonly committed: number;
  readonly durable: number;
  readonly lost: number;
  readonly pending: number;
  /** Came to nothing and never will: aborted, refused, or never run. */
  readonly aborted: number;
  /** Answers that went missing and were found out afterwards. */
  readonly resolved: number;
  readonly readsChecked: number;
  /** Every claim that the database contradicts. */
  readonly wrong: number;
  readonly faults: readonly string[];
}

export interface CheckOptions {
  readonly client: Highwater;
  readonly cluster: Cluster;
  /** The node whose history counts. */
  readonly primary: string;
  readonly claims: readonly Claim[];
  /** Whether a transaction was run at all, when the claims are not all that there are. */
  readonly isKnown?: (id: string) => boolean;
}

export async function check(options: CheckOptions): Promise<Findings> {
  const { client, cluster, primary, claims } = options;
  const faults: string[] = [];
  const unanswered = claims.filter(({ answer }) => answer === "unknown" || answer === "in flight");
  const resolved = new Map<string, Fate>();
  for (const claim of unanswered) resolved.set(claim.id, await resolve(client, claim, faults));
  const verdicts = await finalVerdicts(client, claims);
  const rows = await rowsByTransaction(cluster, primary);
  const fates = new Map<string, Fate>();
  for (const claim of claims) {
    const verdict = claim.token === undefined ? undefined : verdicts.get(claim.token);
    const fate =
      verdict?.verdict ?? resolved.get(claim.id) ?? (claim.answer === "aborted" ? "aborted" : "pending");
    fates.set(claim.id, fate);
    faults.push(...faultsOfClaim(claim, fate, verdict, rows));
  }
  const { isKnown = (id) => fates.has(id) } = options;
  for (const id of rows.keys()) if (!isKnown(id)) faults.push(`${id}: its rows are there, and nobody ran it`);
  faults.push(...(await badSales(cluster, primary)));
  const count = (...wanted: readonly Fate[]): number =>
    [...fates.values()].filter((fate) => wanted.includes(fate)).length;
  const aborted = count("aborted", "never ran");
  return {
    committed: claims.length - aborted,
    durable: count("durable"),
    lost: count("lost"),
    pending: count("pending"),
    aborted,
    resolved: unanswered.length,
    readsChecked: claims.filter(({ seen }) => seen.length > 0).length,
    wrong: faults.length,
    faults: faults.slice(0, FAULTS_PRINTED),
  };
}

function faultsOfClaim(
  claim: Claim,
  fate: Fate,
  verdict: TokenVerdict | undefined,
  rows: ReadonlyMap<string, number>,
): string[] {
  const faults: string[] = [];
  const fault = (what: string): void => {
    faults.push(`${claim.name} ${claim.id}: ${what}`);
  };
  const times = rows.get(claim.id) ?? 0;
  if (times > 1) fault(`its effects are there ${String(times)} times`);
  if (claim.contradicted) fault("its promises took back what they had said");
  if (claim.answer === "committed" && claim.reported === undefined)
    fault(`its promise never spoke, the verdict is ${fate} (${String(claim.error)})`);
  if (claim.reported !== undefined && claim.reported !== fate)
    fault(`its promise said ${claim.reported}, the verdict is ${fate}`);
  if (claim.readOnly) {
    const gone = claim.seen.filter((id) => !rows.has(id));
    if (fate === "durable" && gone.length > 0)
      fault(`durable, but ${String(gone.length)} things it showed are gone`);
    return faults;
  }
  switch (fate) {
    case "durable":
      if (claim.wrote === true && times === 0) fault("durable, but its rows are not there");
      break;
    case "lost":
      // Unless another attempt under the same id committed later: then the rows are that one's.
      if (times > 0 && verdict?.retriedIn === undefined) fault("lost, but its rows are there");
      break;
    case "aborted":
    case "never ran":
      if (times > 0) fault(`${fate}, but its rows are there`);
      break;
    case "pending":
      break;
    case "broken":
    case "expired":
    case "unknown":
      fault(`its verdict is ${fate}`);
      break;
  }
  return faults;
}

/**
 * Finds out what became of a transaction whose answer went missing. A token, if there is one, goes
 * into the claim.
 */
async function resolve(client: Highwater, claim: Claim, faults: string[]): Promise<Fate> {
  const deadlineMs = performance.now() + RESOLVE_TIMEOUT_MS;
  // A read without an answer has claimed nothing.
  if (claim.readOnly) return "never ran";
  let last = "";
  for (;;) {
    try {
      const status = await client.status(claim.id, { level: LEVEL });
      last = status.state;
      switch (status.state) {
        case "committed":
        case "pending":
        case "durable":
          claim.token = status.token;
          return "pending";
        case "aborted":
        case "lost":
        case "broken":
        case "expired":
          return status.state;
        case "unknown":
          return "never ran";
        case "active":
          break;
      }
    } catch (error) {
      if (!(error instanceof HighwaterError)) throw error;
      claim.error = error;
      last = `${error.code}: ${error.message}`;
    }
    if (performance.now() > deadlineMs) {
      faults.push(`${claim.name} ${claim.id}: what became of it cannot be found out (${last})`);
      return "pending";
    }
    await new Promise((wake) => setTimeout(wake, RESOLVE_PAUSE_MS));
  }
}

async function finalVerdicts(
  client: Highwater,
  claims: readonly Claim[],
): Promise<ReadonlyMap<string, TokenVerdict>> {
  const tokens = claims.flatMap(({ token }) => token ?? []);
  const verdicts = await client.verdicts(tokens, { level: LEVEL, waitMs: VERDICT_WAIT_MS });
  return new Map(
    verdicts.map((verdict) => {
      if ("error" in verdict) throw new Error(`a token was refused: ${verdict.error.detail}`);
      return [verdict.token, verdict];
    }),
  );
}

/** How often each transaction's rows are in the database, straight from the node. */
async function rowsByTransaction(cluster: Cluster, node: string): Promise<ReadonlyMap<string, number>> {
  const rows = await cluster.query(
    node,
    `SELECT id::text, max(times)::int AS times FROM (
       SELECT created_by AS id, count(*) AS times FROM auction GROUP BY created_by
       UNION ALL SELECT placed_by, count(*) FROM bid GROUP BY placed_by
       UNION ALL SELECT closed_by, count(*) FROM sale GROUP BY closed_by
     ) AS effects GROUP BY id`,
  );
  return new Map(rows.map((row) => [row["id"] as string, row["times"] as number]));
}

/**
 * What the exchange itself must be able to rely on: at most one sale, to the highest of the bids,
 * in a closed auction.
 */
async function badSales(cluster: Cluster, node: string): Promise<string[]> {
  const rows = await cluster.query(
    node,
    `SELECT auction.id::text FROM auction LEFT JOIN sale ON sale.auction_id = auction.id
     GROUP BY auction.id, auction.state
     HAVING count(sale.id) <> CASE auction.state WHEN 'closed' THEN 1 ELSE 0 END
       OR max(sale.cents) IS DISTINCT FROM CASE auction.state WHEN 'closed'
         THEN (SELECT max(bid.cents) FROM bid WHERE bid.auction_id = auction.id) END`,
  );
  return rows.map((row) => `auction ${row["id"] as string}: it was not sold once, to its highest bid`);
}
