// `make load SCENARIO=…`, `make load-smoke`: runs one k6 script against a system of its own in
// three regions, and afterwards compares the verdicts that the script received with the table. With
// --gateways (and --trackers) it runs against a deployment, which must have the tables load_account
// and load_entry (README), and does not compare.
// Exit codes: 0 when all thresholds are met and the table agrees, 1 when not, 2 when k6 is missing.
import { setTimeout as sleep } from "node:timers/promises";
import { readOptions } from "@highwater/lab-tools/process";
import { System } from "@highwater/lab-system";
import { record } from "../record.ts";
import { findK6, whyNoK6 } from "./find.ts";
import { type Ended, runScript, TABLES, unfinished } from "./script.ts";
import { compareReported } from "./reported.ts";
import { judgeSharing, SharingLoad } from "./sharing.ts";
import { judgeWire, WireLoad } from "./wire.ts";

const SCENARIOS = ["smoke", "steady", "stress", "spike", "soak", "failover"] as const;
type Scenario = (typeof SCENARIOS)[number];

/** The location of the load: beside the primary, and still there when that region is gone. */
const CLIENTS = "clients";
const GRANT = "GRANT ALL ON load_account, load_entry TO app";
/** How long the isolated region continues to commit before it is lost. */
const CUT_MS = 700;
const FAULT_S = 15;
/** Lines of log that are shown from the run. */
const LOG_LINES = 20;

const { values } = readOptions(import.meta.filename, {
  options: {
    scenario: { type: "string", default: "smoke" },
    gateways: { type: "string" },
    trackers: { type: "string" },
    env: { type: "string", multiple: true, default: [] },
  },
});
const scenario = SCENARIOS.find((name) => name === values.scenario);
if (scenario === undefined) throw new Error(`--scenario is one of ${SCENARIOS.join(", ")}`);
const k6 = findK6();
if (k6 === null) {
  console.error(whyNoK6());
  process.exit(2);
}

/** Settings of the command line override those given here. */
async function runK6(
  program: string,
  name: Scenario,
  settings: Readonly<Record<string, string>>,
): Promise<Ended> {
  const given = values.env.map((each) => {
    const at = each.indexOf("=");
    return [each.slice(0, at), each.slice(at + 1)] as const;
  });
  const ended = await runScript({
    k6: program,
    name,
    settings: { ...settings, ...Object.fromEntries(given) },
  });
  console.log(ended.output);
  for (const line of ended.log.slice(0, LOG_LINES)) console.error(line);
  const open = unfinished(ended.summary);
  if (open > 0) console.error(`k6 ended ${String(open)} transactions that waited for their verdict`);
  return open > 0 ? { ...ended, code: 1 } : ended;
}

function settingOf(name: string): string | undefined {
  return values.env.find((each) => each.startsWith(`${name}=`))?.slice(name.length + 1);
}

/** Loses the primary's region, as an operator would see it. Resolves with the new primary. */
async function failOver(system: System, primary: string): Promise<string> {
  await sleep(1_000 * Number(settingOf("FAULT_S") ?? FAULT_S));
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
  for (const statement of [...TABLES, GRANT]) await system.cluster.query(home, statement);
  const endpoints = await system.endpoints(CLIENTS);
  const postgres = endpoints[0]?.postgres;
  const wire = name === "smoke" && postgres !== undefined ? new WireLoad(postgres) : null;
  const sharing = name === "smoke" ? new SharingLoad(endpoints) : null;
  const running = runK6(program, name, {
    GATEWAYS: endpoints.map(({ gateway }) => gateway).join(","),
    TRACKERS: endpoints.map(({ tracker }) => tracker).join(","),
    REPORT: "1",
  });
  const failing = name === "failover" ? failOver(system, home) : Promise.resolve(home);
  // Waits for both even if one of them fails: the system may only be closed after them.
  const [ended, primary] = await Promise.allSettled([running, failing]);
  const onWire = await wire?.stop();
  const bySdk = await sharing?.stop();
  if (ended.status === "rejected") throw ended.reason;
  if (primary.status === "rejected") throw primary.reason;
  const { code, summary, reported } = ended.value;
  const rows = await system.cluster.query(primary.value, "SELECT id::text AS id FROM load_entry");
  const all = [...reported, ...(onWire?.reported ?? []), ...(bySdk?.reported ?? [])];
  const table = compareReported(all, new Set(rows.map(({ id }) => String(id))));
  const beside = {
    ...(onWire !== undefined && { wire: onWire.figures }),
    ...(bySdk !== undefined && { sdk: bySdk.figures }),
  };
  record(`k6-${name}`, { ...summary, ...beside, table });
  console.log(`table: ${JSON.stringify(table)}`);
  const settled = (summary.counts["durable"] ?? 0) + (summary.counts["lost"] ?? 0);
  if (reported.length < settled)
    console.error(`${String(reported.length)} of ${String(settled)} verdicts were written down`);
  const isWireGood = onWire === undefined || judgeWire(onWire.figures, settingOf("DURABLE_P95_MS"));
  const isSdkGood = bySdk === undefined || judgeSharing(bySdk.figures);
  return (
    code === 0 &&
    isWireGood &&
    isSdkGood &&
    table.missing + table.returned === 0 &&
    table.kept > 0 &&
    reported.length >= settled
  );
}

async function onDeployment(program: string, name: Scenario, gateways: string): Promise<boolean> {
  const { code, summary } = await runK6(program, name, {
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
