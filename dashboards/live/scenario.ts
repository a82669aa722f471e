// The whole product on this machine with a Prometheus that scrapes it, under load, through the loss
// of the primary's region: what tests of panels and pictures look at.
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { TemporaryFolder } from "@highwater/lab-tools/process";
import { System } from "@highwater/lab-system";
import { DevPrometheus, type ScrapeTarget } from "@highwater/lab-tools/prometheus";
import { answers, Receiver } from "@highwater/lab-system/receiver";
import { eventually, post, send, verdicts } from "@highwater/lab-system/testing";
import { JOBS } from "../src/config.ts";
import { ROOT } from "../src/files.ts";
import { RULE_FILES } from "../src/rules/files.ts";
import { Load, LOAD_ENVIRONMENT } from "./load.ts";

/** A busy machine needs its time to answer. */
const SCRAPE_MS = 4_000;
const REFUSED = "increase(highwater_gateway_exposure_refusals_total[20s]) > 0";
/** Ids of the rows that are to be lost begin here. */
const FIRST_LOST = 10_000;
/** So much is lost at most; reaching it is refused. */
const AT_RISK_MAX = 100;
/** Deliveries are given up after seconds instead of days. */
const LIMITS = {
  GATEWAY_EXPOSURE_TRANSACTIONS: String(AT_RISK_MAX),
  GATEWAY_EXPOSURE_VALUE: "EUR:0",
  TRACKER_WEBHOOK_ALLOW: "127.0.0.1",
  TRACKER_WEBHOOK_DELAYS_MS: "500,1000",
} as const;

export interface ScenarioOptions {
  /** Under load before the region is lost, and after the service has recovered. */
  readonly beforeMs: number;
  readonly afterMs: number;
  readonly log?: (line: string) => void;
}

export interface Scene extends AsyncDisposable {
  readonly prometheus: DevPrometheus;
  readonly fromSeconds: number;
  readonly toSeconds: number;
  /**
   * Transactions that were committed in the region, cut off with it, and judged as lost; the load
   * has more of them.
   */
  readonly lost: number;
}

export async function play({ beforeMs, afterMs, log = () => undefined }: ScenarioOptions): Promise<Scene> {
  const stack = new AsyncDisposableStack();
  try {
    const system = stack.use(
      await System.start({
        env: { ...LOAD_ENVIRONMENT, ...LIMITS },
      }),
    );
    const good = stack.use(await Receiver.start());
    const bad = stack.use(await Receiver.start());
    bad.behaviour = answers(500);
    const prometheus = await startPrometheus(system, stack);
    await prometheus.untilScraped();
    const fromSeconds = Date.now() / 1_000;
    for (const receiver of [good, bad]) await makeEndpoint(system, receiver.url);
    const load = await Load.start(system);
    stack.defer(() => load.stop());
    log("under load");
    await pause(beforeMs);
    const lost = await loseRegion(system, prometheus, log);
    await pause(afterMs);
    log(`${String(load.answered)} calls were answered, ${String(load.failed)} failed`);
    const owned = stack.move();
    return {
      prometheus,
      fromSeconds,
      toSeconds: Date.now() / 1_000,
      lost,
      [Symbol.asyncDispose]: () => owned.disposeAsync(),
    };
  } catch (cause) {
    await stack.disposeAsync();
    throw cause;
  }
}

async function startPrometheus(system: System, stack: AsyncDisposableStack): Promise<DevPrometheus> {
  const folder = stack.use(await TemporaryFolder.make("highwater-scenario-"));
  const rules: string[] = [];
  for (const name of Object.keys(RULE_FILES)) {
    const text = await readFile(new URL(`prometheus/${name}`, ROOT), "utf8");
    const path = join(folder.path, name);
    // Half a minute between two evaluations is long here.
    await writeFile(path, text.replaceAll("interval: 30s", "interval: 1s"));
    rules.push(path);
  }
  const targets: ScrapeTarget[] = system.regions.flatMap((region) => [
    { job: JOBS.gateway, url: system.gateway(region).url },
    { job: JOBS.tracker, url: system.tracker(region).url },
  ]);
  return stack.use(await DevPrometheus.start({ targets, scrapeMs: SCRAPE_MS, evaluateMs: 1_000, rules }));
}

async function makeEndpoint(system: System, url: string): Promise<void> {
  const [first = ""] = system.regions;
  const events = ["transaction.lost", "transaction.durable", "epoch.started"];
  await eventually("the endpoint is made", async () => {
    const { status } = await post(`${system.tracker(first).url}/v1/webhooks`, { url, events });
    return status === 201;
  });
}

/**
 * The primary's log stops flowing, while what it commits is announced; then the region dies, and
 * another one takes over.
 */
async function loseRegion(
  system: System,
  prometheus: DevPrometheus,
  log: (line: string) => void,
): Promise<number> {
  const [east = "", west = ""] = system.regions;
  const statement = { sql: "INSERT INTO account VALUES ($1, 0)" };
  const tokens: string[] = [];
  await stopLog(system, east);
  // Until the limit of exposure has refused something, and that was scraped: it would die with the
  // gateway, unseen.
  await eventually("its refusals are scraped", async () => {
    const params = [FIRST_LOST + tokens.length];
    const { status, body } = await send(system.gateway(east).url, [{ ...statement, params }], {
      atRisk: { amount: "12.50", unit: "EUR" },
    });
    if (status === 200) tokens.push(body.token);
    return status === 503 && (await prometheus.query(REFUSED)).length > 0;
  });
  log(`${String(tokens.length)} commits are cut off; the region ${east} dies`);
  await system.killRegion(east);
  const heir = await system.cluster.mostAdvancedReplica();
  await system.cluster.promote(heir);
  // Under a new id each time: an attempt in the middle of the change may be lost, too.
  await eventually("commits go on", async () => {
    const { status } = await send(system.gateway(west).url, [{ ...statement, params: [20_000] }]);
    return status === 200;
  });
  log(`${heir} has taken over`);
  const lost = await eventually("they are judged, and some of them are lost", async () => {
    const judged = await verdicts(system.tracker(west).url, tokens, { level: "region" });
    return (
      judged.every(({ verdict }) => verdict !== "pending") &&
      judged.filter(({ verdict }) => verdict === "lost").length
    );
  });
  log(`${String(lost)} of them are lost`);
  return lost;
}

async function stopLog({ cluster }: System, primary: string): Promise<void> {
  for (const { id } of cluster.nodes.filter((node) => node.id !== primary)) {
    // A replica that receives nothing would connect anew, and get what it lacks.
    await cluster.query(id, "ALTER SYSTEM SET wal_receiver_timeout TO 0");
    await cluster.query(id, "SELECT pg_reload_conf()");
  }
  for (const { pid } of await cluster.query(primary, "SELECT pid FROM pg_stat_replication"))
    process.kill(Number(pid), "SIGSTOP");
}
