// `make load SCENARIO=…`, `make load-smoke`: runs one k6 script against a system of its own in three regions, and afterwards compares what the
// script was told with the table. With --gateways (and --trackers) against a deployment, whose tables load_account and load_entry
// must be there (README), and without the comparison.
// Exit codes: 0 when all thresholds are met and the table agrees, 1 when not, 2 when k6 is missing.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { endGuarded, spawnGuarded, TemporaryFolder } from "@highwater/dev-process";
import { System } from "@highwater/dev-system";
import { record } from "../record.ts";
import { findK6, whyNoGo } from "./find.ts";
import type { Summary } from "./lib/summary.ts";
import { compareTold, parseTold } from "./told.ts";

const SCENARIOS = ["smoke", "steady", "stress", "spike", "soak", "failover"] as const;
type Scenario = (typeof SCENARIOS)[number];

/** Where the load is: beside the primary, and still there when that region is gone. */
const CLIENTS = "clients";
const ACCOUNTS = 10_000;
const TABLES = [
  "CREATE TABLE load_account (id int PRIMARY KEY, balance int NOT NULL DEFAULT 0) WITH (fillfactor = 50)",
  "CREATE TABLE load_entry (id uuid PRIMARY KEY, account int NOT NULL, cents int NOT NULL)",
  `INSERT INTO load_account (id) SELECT generate_series(1, ${String(ACCOUNTS)})`,
  "GRANT ALL ON load_account, load_entry TO app",
];
/** k6 ends by itself; this is for one that does not. */
const K6_LIMIT_MS = 4 * 3_600_000;
/** How long the region goes on committing what nobody else can hear of. */
const CUT_MS = 700;

const { values } = parseArgs({
  options: {
    scenario: { type: "string", default: "smoke" },
    gateways: { type: "string" },
    trackers: { type: "string" },
    env: { type: "string", multiple: true, default: [] },
  },
});
const scenario = SCENARIOS.find((name) => name === values.scenario);
if (scenario === undefined) throw new Error(`--scenario is one of ${SCENARIOS.join(", ")}`);
const k6 = findK6(existsSync);
if (k6 === null) {
  console.error(`k6 is missing: ${whyNoGo() ?? "make load-smoke builds it"}`);
  process.exit(2);
}

interface Ended {
  readonly code: number;
  readonly summary: Summary;
  readonly log: string;
}

async function runK6(program: string, env: Readonly<Record<string, string>>): Promise<Ended> {
  await using folder = await TemporaryFolder.make("highwater-k6-");
  const [summaryFile, logFile] = [join(folder.path, "summary.json"), join(folder.path, "told.log")];
  const settings = { ACCOUNTS: String(ACCOUNTS), ...env, SUMMARY_FILE: summaryFile };
  const given = [...Object.entries(settings).map(([name, value]) => `${name}=${value}`), ...values.env];
  const script = fileURLToPath(new URL(`${scenario}.ts`, import.meta.url));
  // No usage report, and no server of its own: two load tests may run on one machine.
  const args = ["run", "--quiet", "--no-usage-report", "--address", "", "--log-output", `file=${logFile}`];
  const child = spawnGuarded(
    [program, ...args, "--log-format", "raw", ...given.flatMap((each) => ["-e", each]), script],
    { stdout: "inherit", stderr: "inherit" },
  );
  const limit = setTimeout(() => void endGuarded(child), K6_LIMIT_MS);
  const code = await new Promise<number>((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (status) => {
      resolve(status ?? 1);
    });
  });
  clearTimeout(limit);
  const log = existsSync(logFile) ? readFileSync(logFile, "utf8") : "";
  if (!existsSync(summaryFile))
    throw new Error(`k6 ended with ${String(code)} and without a summary:\n${log}`);
  return { code, log, summary: JSON.parse(readFileSync(summaryFile, "utf8")) as Summary };
}

function faultAtS(): number {
  const given = values.env.find((each) => each.startsWith("FAULT_S="));
  return given === undefined ? 15 : Number(given.slice("FAULT_S=".length));
}

/** The loss of the primary's region, as an operator lives through it. Answers who is the primary now. */
async function failOver(system: System, primary: string): Promise<string> {
  await sleep(1_000 * faultAtS());
  console.error(`${primary} is cut off from the other regions, while its clients go on`);
  await system.cluster.isolate(primary, { except: [CLIENTS] });
  await sleep(CUT_MS);
  await system.killRegion(primary);
  const next = await system.cluster.mostAdvancedReplica();
  console.error(`${primary} is lost; promoting ${next}`);
  await system.cluster.promote(next, { reason: `${primary} is lost` });
  return next;
}

async function onOwnSystem(program: string, name: Scenario): Promise<boolean> {
  await using system = await System.start();
  const [home = ""] = system.regions;
  for (const statement of TABLES) await system.cluster.query(home, statement);
  const endpoints = await system.endpoints(CLIENTS);
  const running = runK6(program, {
    GATEWAYS: endpoints.map(({ gateway }) => gateway).join(","),
    TRACKERS: endpoints.map(({ tracker }) => tracker).join(","),
    TELL: "1",
  });
  const failing = name === "failover" ? failOver(system, home) : Promise.resolve(home);
  // Both are waited for also if one of them fails: the system may only be closed behind them.
  const [ended, primary] = await Promise.allSettled([running, failing]);
  if (ended.status === "rejected") throw ended.reason;
  if (primary.status === "rejected") throw primary.reason;
  const told = parseTold(ended.value.log);
  const rows = await system.cluster.query(primary.value, "SELECT id::text AS id FROM load_entry");
  const table = compareTold(told, new Set(rows.map(({ id }) => String(id))));
  const { code, summary } = ended.value;
  record(`k6-${name}`, { ...summary, table });
  console.log(`table: ${JSON.stringify(table)}`);
  const settled = (summary.counts["durable"] ?? 0) + (summary.counts["lost"] ?? 0);
  if (told.length < settled)
    console.error(`${String(told.length)} of ${String(settled)} verdicts were written down`);
  for (const line of ended.value.log
    .split("\n")
    .filter((each) => each !== "" && !each.startsWith('{"id":'))
    .slice(0, 20))
    console.error(line);
  return code === 0 && table.missing + table.returned === 0 && table.kept > 0 && told.length >= settled;
}

async function onDeployment(program: string, name: Scenario, gateways: string): Promise<boolean> {
  const { code, summary } = await runK6(program, {
    GATEWAYS: gateways,
    TRACKERS: values.trackers ?? gateways,
  });
  record(`k6-${name}`, summary);
  return code === 0;
}

const isGood =
  values.gateways === undefined
    ? await onOwnSystem(k6, scenario)
    : await onDeployment(k6, scenario, values.gateways);
process.exit(isGood ? 0 : 1);
