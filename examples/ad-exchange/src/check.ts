// The honest end check. Asks the service for its final word about every transaction. Then asks the
// database itself, past all services, what is really there. It must be the rows that clients sent,
// of the transactions that are durable or were brought back, and no others.
import { type Cluster } from "@highwater/lab-system";
import { type Highwater, HighwaterError, type TokenVerdict } from "@highwater/sdk";
import { type Outcome, type Report } from "./bring-back.ts";
import { type Claim, rowText } from "./recorder.ts";

const LEVEL = "region";
const VERDICT_WAIT_MS = 10_000;
const RESOLVE_TIMEOUT_MS = 60_000;
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
  /** Lost transactions whose client knew that they had written a row, by what became of them. */
  readonly answered: Readonly<Record<Outcome, number>>;
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
  /** What was brought back. */
  readonly report?: Report;
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
  const { report } = options;
  const outcomes = report && new Map(report.transactions.map(({ id, outcome }) => [id, outcome]));
  const answered = { replayed: 0, conflict: 0, unrecoverable: 0 };
  for (const claim of claims) {
    const verdict = claim.token === undefined ? undefined : verdicts.get(claim.token);
    const fate =
      verdict?.verdict ?? resolved.get(claim.id) ?? (claim.answer === "aborted" ? "aborted" : "pending");
    fates.set(claim.id, fate);
    const outcome = outcomes?.get(claim.id);
    faults.push(...faultsOfClaim(claim, { fate, verdict, outcome }, rows));
    if (report === undefined || claim.readOnly || fate !== "lost") continue;
    if (outcome === undefined) faults.push(`${claim.name} ${claim.id}: lost, and the report leaves it out`);
    if (claim.answer === "committed" && claim.wrote !== false) answered[outcome ?? "unrecoverable"] += 1;
  }
  const { isKnown = (id) => fates.has(id) } = options;
  for (const id of outcomes?.keys() ?? [])
    if (!isKnown(id)) faults.push(`${id}: it was to be brought back, and no client ran it`);
  for (const id of rows.keys())
    if (!isKnown(id)) faults.push(`${id}: its rows are there, and no client ran it`);
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
    answered,
    readsChecked: claims.filter(({ seen }) => seen.length > 0).length,
    wrong: faults.length,
    faults: faults.slice(0, FAULTS_PRINTED),
  };
}

function faultsOfClaim(
  claim: Claim,
  known: {
    readonly fate: Fate;
    readonly verdict: TokenVerdict | undefined;
    readonly outcome: Outcome | undefined;
  },
  rows: ReadonlyMap<string, readonly string[]>,
): string[] {
  const { fate, verdict, outcome } = known;
  const faults: string[] = [];
  const fault = (what: string): void => {
    faults.push(`${claim.name} ${claim.id}: ${what}`);
  };
  const found = rows.get(claim.id) ?? [];
  const times = found.length;
  if (times > 1) fault(`its effects are there ${String(times)} times`);
  if (times > 0 && claim.sent !== null && found[0] !== claim.sent)
    fault(`it sent ${claim.sent}, and there is ${String(found[0])}`);
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
  if (outcome === "replayed") {
    if (times === 0 && claim.wrote === true) fault("brought back, but its row is not there");
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

/** The rows that each transaction wrote, straight from the node. */
async function rowsByTransaction(
  cluster: Cluster,
  node: string,
): Promise<ReadonlyMap<string, readonly string[]>> {
  const found = new Map<string, string[]>();
  for (const [table, columns] of [
    ["auction", "id, publisher, slot, created_by"],
    ["bid", "id, auction_id, advertiser, cents, placed_by"],
    ["sale", "id, auction_id, bid_id, cents, closed_by"],
  ] as const)
    for (const row of await cluster.query(node, `SELECT ${columns} FROM ${table}`)) {
      const values = Object.values(row);
      const id = String(values.at(-1));
      found.set(id, [...(found.get(id) ?? []), rowText(table, values)]);
    }
  return found;
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
