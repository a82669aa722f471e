// The last step of a failover: a gateway says that transactions can commit on the promoted node,
// and the store says how many were lost. Exit codes: 0 verified, 1 failed, 2 wrong environment, 4
// not within the time.
import { readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { explainTls, parseTopology, readSettings, tlsAuthority, trustAuthority } from "@highwater/service";
import pg from "pg";
import { isRun, type Origin, finish } from "./failover-lines.ts";

const EXIT = { verified: 0, failed: 1, wrongEnvironment: 2, notYet: 4 } as const;
const POLL_MS = 500;
const ASK_LIMIT_MS = 5_000;
/** Looks at the number of losses that have to agree: those are reported in batches. */
const SETTLED_LOOKS = 6;
const LOOK_MS = 2_500;

interface Order {
  readonly origin: Origin;
  readonly node: string;
  readonly url: string;
  readonly gateways: readonly string[];
  readonly waitMs: number;
  /** That of the gateways' certificates, in PEM. */
  readonly tlsAuthority: string | null;
}

interface Losses {
  /**
   * Transactions that are settled as lost in the epochs after the failover, and can never commit
   * again.
   */
  readonly settled: number;
  /** Of those, reported so far. */
  readonly reported: number;
  /** Promises that a level had made and that do not hold any more. */
  readonly broken: number;
  /**
   * The tracker that began the epoch knows of every transaction before it; null while nothing has
   * been reported.
   */
  readonly complete: boolean | null;
}

/** The first gateway that is ready and names the node; the epoch in which it is. */
async function firstReady({ gateways, node }: Order): Promise<{ epoch: string } | string> {
  const answers = await Promise.all(
    gateways.map(async (url) => {
      try {
        const response = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(ASK_LIMIT_MS) });
        const body = (await response.json()) as { primary?: string; epoch?: string; detail?: string };
        if (response.ok && body.primary === node && body.epoch !== undefined) return { epoch: body.epoch };
        return `${url}: ${String(response.status)} ${body.detail ?? `the primary is ${body.primary ?? "not told"}`}`;
      } catch (cause) {
        return `${url}: ${reasonOf(url, cause)}`;
      }
    }),
  );
  const ready = answers.find((answer) => typeof answer !== "string");
  return ready ?? answers.filter((answer) => typeof answer === "string").join("; ");
}

/** Of a request without an answer: `fetch` itself says no more than that it failed. */
function reasonOf(url: string, cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause);
  return cause.cause instanceof Error ? explainTls(url, cause.cause).message : cause.message;
}

const LOSSES = `
  WITH new_epoch AS (SELECT seq, id FROM highwater.epoch WHERE seq >= (SELECT seq FROM highwater.epoch WHERE id = $1))
  SELECT (SELECT count(*)::int FROM highwater.receipt WHERE kind = 'lost' AND epoch IN (SELECT id FROM new_epoch)) AS settled,
         (SELECT count(*)::int FROM highwater.event WHERE type = 'transaction.lost' AND seq IN (SELECT seq FROM new_epoch)) AS reported,
         (SELECT count(*)::int FROM highwater.event WHERE type = 'transaction.broken' AND seq IN (SELECT seq FROM new_epoch)) AS broken,
         (SELECT (data->>'complete')::boolean FROM highwater.event WHERE key = 'epoch/' || $1::text) AS complete`;

async function countLosses(url: string, epoch: string): Promise<Losses> {
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: ASK_LIMIT_MS,
    query_timeout: 60_000,
    application_name: "highwater-verify",
  });
  client.on("error", () => undefined);
  try {
    await client.connect();
    const { rows } = await client.query<Losses>(LOSSES, [epoch]);
    const [losses] = rows;
    if (losses === undefined) throw new Error("the store answers without a row");
    return losses;
  } finally {
    await client.end().catch(() => undefined);
  }
}

/**
 * The numbers once all that is settled is reported and nothing has changed for a while; otherwise
 * those at the end of the time.
 */
async function settledLosses(
  { url }: Order,
  epoch: string,
  untilMs: number,
): Promise<Losses & { final: boolean }> {
  let last: Losses | null = null;
  let equal = 0;
  for (;;) {
    const now = await countLosses(url, epoch);
    const isSame = last?.settled === now.settled && last.reported === now.reported && now.complete !== null;
    // Transactions below a level's promise are reported as broken.
    equal = isSame && now.reported + now.broken >= now.settled ? equal + 1 : 0;
    if (equal >= SETTLED_LOOKS) return { ...now, final: true };
    if (performance.now() >= untilMs) return { ...now, final: false };
    last = now;
    await pause(LOOK_MS);
  }
}

function readOrder(env: Readonly<Record<string, string | undefined>>): Order | string {
  const { FAILOVER_RUN: run = "", FAILOVER_NODE: node = "", VERIFY_WAIT_S: wait = "600" } = env;
  if (!isRun(run)) return "FAILOVER_RUN must be the id of the automation's run";
  if (!/^[0-9]{1,4}$/.test(wait)) return "VERIFY_WAIT_S must be a whole number of seconds";
  const gateways = (env["VERIFY_GATEWAYS"] ?? "").split(",").filter((url) => url !== "");
  if (gateways.length === 0 || !gateways.every((url) => URL.canParse(url)))
    return "VERIFY_GATEWAYS must be the base URLs of gateways, separated by commas";
  const { values, faults } = readSettings({ tlsAuthority }, env, (path) => readFileSync(path, "utf8"));
  if (faults[0] !== undefined) return faults[0];
  try {
    const text = env["HIGHWATER_TOPOLOGY"] ?? "";
    const json = text.startsWith("@") ? readFileSync(text.slice(1), "utf8") : text;
    const url = parseTopology(json).nodes.find(({ id }) => id === node)?.url;
    if (url === undefined) return "FAILOVER_NODE must be a node of the topology";
    return { origin: { run, stage: "verify" }, node, url, gateways, waitMs: 1_000 * Number(wait), ...values };
  } catch (cause) {
    return `HIGHWATER_TOPOLOGY must be as the services have it: ${cause instanceof Error ? cause.message : String(cause)}`;
  }
}

async function main(env: Readonly<Record<string, string | undefined>>): Promise<number> {
  const order = readOrder(env);
  if (typeof order === "string") {
    console.error(order);
    return EXIT.wrongEnvironment;
  }
  trustAuthority(order.tlsAuthority);
  const untilMs = performance.now() + order.waitMs;
  let ready = await firstReady(order);
  while (typeof ready === "string") {
    if (performance.now() >= untilMs)
      return finish(order.origin, EXIT.notYet, `no gateway is ready: ${ready}`);
    await pause(POLL_MS);
    ready = await firstReady(order);
  }
  const { settled, reported, broken, complete, final } = await settledLosses(order, ready.epoch, untilMs);
  const count = `${String(settled)} transactions are lost, ${String(reported)} of them reported, ${String(broken)} are broken`;
  const more = final
    ? ""
    : "; more may follow: read on at /v1/durability/events?types=transaction.lost, and start this step again to count";
  const known =
    complete === true ? "" : "; the tracker that counted may not have heard of every transaction before";
  return finish(order.origin, EXIT.verified, `commits go on at ${order.node}: ${count}${more}${known}`);
}

if (import.meta.main)
  try {
    process.exitCode = await main(process.env);
  } catch (cause) {
    console.error(`not verified: ${cause instanceof Error ? cause.message : String(cause)}`);
    process.exitCode = EXIT.failed;
  }
