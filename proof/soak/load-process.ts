// The steady load: clients in every region that follow each transaction to its verdict. Besides
// fast and safe writes, whose sum is compared with the database, it runs reads near the user and
// interactive transactions.
import { type Endpoint, Highwater, HighwaterError, newTransactionId, sql } from "@highwater/sdk";
import { serveOrders } from "../../loadtests/tracker/helper.ts";
import { pace } from "../../loadtests/tracker/pace.ts";
import { quantile } from "../../loadtests/rounds/figures.ts";
import { LEVEL, ROWS, WATCHED } from "./table.ts";

export interface Load {
  readonly rate: number;
  readonly durationMs: number;
}

export interface Tally {
  begun: number;
  /** Not begun, because too many were running. */
  heldBack: number;
  /** Writes reported as committed, in the first answer or a repeated one. */
  committed: number;
  /** Committed writes that were reported as lost afterwards. */
  lost: number;
  broken: number;
  durable: number;
  /** Certainly without effect, by error code. */
  readonly refused: Record<string, number>;
  /** Outcome unknown at the limit, by the last answer. */
  readonly unresolved: Record<string, number>;
  reads: number;
  interactive: number;
  /** Reads and interactive transactions that failed, as they do in a failover. */
  sideFailures: number;
  readonly commitMs: { p50: number; p99: number };
  readonly durableMs: { p50: number; p99: number };
}

/**
 * How many may run at a time, about two seconds' worth; above it the load waits for the service.
 * More would be another scenario: a queue in which requests wait longer than their clients.
 */
const MAX_UNDER_WAY = 400;
/**
 * Limit for one transaction, repetitions included. Shorter than the retention of receipts in a run
 * with faults.
 */
const RESOLVE_MS = 45_000;
/** Limit for one call of the client, which repeats requests itself. */
const ATTEMPT_MS = 15_000;
const RETRY_MS = 250;
const SIDE_LIMIT_MS = 10_000;
/** Of a hundred transactions. */
const READS = 5;
const INTERACTIVE = 3;
const SAFE = 20;
const GLOBAL = 20;
const WATCHED_SHARE = 20;

interface Site {
  readonly gateway: string;
  readonly client: Highwater;
}

let sites: readonly Site[] = [];

const chance = (hundredths: number): boolean => 100 * Math.random() < hundredths;
const anyRow = (): number => 1 + Math.floor(ROWS * Math.random());

class Run {
  readonly tally: Tally = {
    begun: 0,
    heldBack: 0,
    committed: 0,
    lost: 0,
    broken: 0,
    durable: 0,
    refused: {},
    unresolved: {},
    reads: 0,
    interactive: 0,
    sideFailures: 0,
    commitMs: { p50: 0, p99: 0 },
    durableMs: { p50: 0, p99: 0 },
  };
  readonly #commitMs: number[] = [];
  readonly #durableMs: number[] = [];
  readonly #underWay = new Set<Promise<void>>();

  begin(): void {
    const site = sites[this.tally.begun % sites.length];
    if (site === undefined) return;
    if (this.#underWay.size >= MAX_UNDER_WAY) {
      this.tally.heldBack++;
      return;
    }
    this.tally.begun++;
    const work = this.#one(site).finally(() => this.#underWay.delete(work));
    this.#underWay.add(work);
  }

  async end(): Promise<Tally> {
    await Promise.all(this.#underWay);
    return { ...this.tally, commitMs: spread(this.#commitMs), durableMs: spread(this.#durableMs) };
  }

  #one(site: Site): Promise<void> {
    if (chance(READS)) return this.#aside(() => readNearby(site.gateway), "reads");
    if (chance(INTERACTIVE)) return this.#aside(() => converse(site.gateway), "interactive");
    return this.#write(site.client);
  }

  async #aside(work: () => Promise<boolean>, counted: "reads" | "interactive"): Promise<void> {
    const done = await work().catch(() => false);
    if (done) this.tally[counted]++;
    else this.tally.sideFailures++;
  }

  async #write(client: Highwater): Promise<void> {
    const id = newTransactionId();
    const row = anyRow();
    const level = chance(GLOBAL) ? "global" : LEVEL;
    const options = {
      id,
      level,
      timeoutMs: ATTEMPT_MS,
      isolation: "read committed" as const,
      ...(chance(SAFE) ? { ack: "durable" as const } : {}),
      ...(chance(WATCHED_SHARE) ? { metadata: WATCHED } : {}),
    };
    const beganMs = performance.now();
    let isAcknowledged = false;
    try {
      const statement = sql`UPDATE soak SET n = n + 1 WHERE id = ${row}`;
      const done = await repeated(beganMs, () => client.transaction(statement, options));
      this.tally.committed++;
      isAcknowledged = true;
      const committedMs = performance.now();
      this.#commitMs.push(committedMs - beganMs);
      await repeated(committedMs, () => done.durable({ timeoutMs: ATTEMPT_MS }));
      this.tally.durable++;
      this.#durableMs.push(performance.now() - committedMs);
    } catch (cause) {
      this.#ended(cause, isAcknowledged);
    }
  }

  #ended(cause: unknown, isAcknowledged: boolean): void {
    if (!(cause instanceof HighwaterError)) throw cause;
    const { outcome } = cause;
    // After an error that forbids a repetition, this program or the service is at fault; the text
    // shows which.
    const code = cause.code === "invalid_request" ? `invalid_request: ${cause.message}` : cause.code;
    if (code === "transaction_lost" && isAcknowledged) this.tally.lost++;
    else if (code === "promise_broken") this.tally.broken++;
    else if (outcome === "not_applied") count(this.tally.refused, code);
    else count(this.tally.unresolved, code);
  }
}

function count(counts: Record<string, number>, code: string): void {
  counts[code] = (counts[code] ?? 0) + 1;
}

/**
 * Repeats while the service asks to wait or the outcome is unknown. The same id never runs twice.
 */
async function repeated<T>(sinceMs: number, attempt: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await attempt();
    } catch (cause) {
      const again = cause instanceof HighwaterError && ["wait", "resolve_outcome"].includes(cause.retry);
      if (!again || performance.now() - sinceMs > RESOLVE_MS) throw cause;
    }
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}

function spread(times: number[]): { p50: number; p99: number } {
  times.sort((a, b) => a - b);
  return { p50: quantile(times, 0.5), p99: quantile(times, 0.99) };
}

function post(url: string, body: unknown, session?: string): Promise<Response> {
  return fetch(url, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      ...(session === undefined ? {} : { "highwater-session": session }),
    },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(SIDE_LIMIT_MS),
  });
}

async function readNearby(gateway: string): Promise<boolean> {
  const statements = [{ sql: "SELECT n FROM soak WHERE id = $1", params: [anyRow()] }];
  const answer = await post(`${gateway}/v1/transactions`, {
    id: newTransactionId(),
    statements,
    readOnly: true,
    mode: "local",
  });
  await answer.text();
  return answer.ok;
}

/** Leaves half of them open, so that the service rolls them back at the time limit. */
async function converse(gateway: string): Promise<boolean> {
  const id = newTransactionId();
  const url = `${gateway}/v1/transactions`;
  const statements = [{ sql: "SELECT n FROM soak WHERE id = $1", params: [anyRow()] }];
  const begun = await post(`${url}/begin`, { id, statements });
  await begun.text();
  const session = begun.headers.get("highwater-session");
  if (!begun.ok || session === null) return false;
  if (chance(50)) return true;
  const ended = await post(`${url}/${id}/commit`, { seq: 1, statements }, session);
  await ended.text();
  return ended.ok;
}

const orders = {
  open: async (regions: readonly (readonly Endpoint[])[]): Promise<void> => {
    sites = regions.map((endpoints) => ({
      gateway: endpoints[0]?.gateway ?? "",
      client: new Highwater({ endpoints, level: LEVEL }),
    }));
  },
  run: async (load: Load): Promise<Tally> => {
    const run = new Run();
    await pace(load, () => {
      run.begin();
    });
    return run.end();
  },
  close: async (): Promise<void> => {
    await Promise.all(sites.map(({ client }) => client.close()));
    sites = [];
  },
};
export type LoadOrders = typeof orders;

serveOrders(orders);
