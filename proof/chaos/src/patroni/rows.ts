// Measures whether a promise survives Patroni's next decision. The cases run one after another on
// one cluster, each with its own settings. In each, one standby lags, the other one acknowledges
// transactions, and then that one fails as well.
import { setTimeout as pause } from "node:timers/promises";
import { eventually } from "@highwater/lab-tools/process";
import { makeUuidV7 } from "@highwater/protocol";
import { type PatroniSettings } from "@highwater/lab-cluster";
import { type PatroniSystem } from "./system.ts";

type Deed =
  /** Kills the leader's host and the acknowledging standby's at once. */
  | "together"
  /** The same within a second of the acknowledgement, between two loops of the leader's Patroni. */
  | "together_at_once"
  /** Kills the standby first, and the leader when Patroni has removed the standby from its list. */
  | "standby_first"
  /**
   * Kills only the leader's Patroni, while the acknowledging standby cannot reach etcd. Both
   * servers go on together.
   */
  | "leader_without_patroni";

export interface Row {
  readonly settings: PatroniSettings;
  readonly deed: Deed;
  /**
   * `laggard`: Patroni promotes a node that lacks acknowledged transactions. `nobody`: it promotes
   * no node by itself.
   */
  readonly expected: "laggard" | "nobody" | "either";
}

export const ROWS: readonly Row[] = [
  { settings: "asynchronous", deed: "together", expected: "laggard" },
  { settings: "asynchronous_without_lag", deed: "together_at_once", expected: "laggard" },
  { settings: "quorum", deed: "together", expected: "nobody" },
  { settings: "quorum", deed: "standby_first", expected: "laggard" },
  { settings: "quorum", deed: "leader_without_patroni", expected: "either" },
  { settings: "quorum_without_lag", deed: "together", expected: "nobody" },
  { settings: "quorum_without_lag", deed: "standby_first", expected: "nobody" },
  { settings: "synchronous", deed: "together", expected: "nobody" },
  { settings: "synchronous", deed: "standby_first", expected: "nobody" },
  { settings: "synchronous", deed: "leader_without_patroni", expected: "nobody" },
  { settings: "recommended", deed: "together", expected: "nobody" },
  { settings: "recommended", deed: "standby_first", expected: "nobody" },
  { settings: "recommended", deed: "leader_without_patroni", expected: "nobody" },
];

/**
 * `any` counts every replica, `safe` only those that the manager may promote. Losses are reported
 * at `any`: `safe` gets no mark while the manager's settings promise nothing, and some rows end
 * that way.
 */
export const ROW_SYSTEM = {
  levels: {
    disk: { primary: true },
    any: { replicas: 1, outside: "region" },
    safe: { synchronous: 1 },
  },
  exposureLevel: "any",
  served: ["east"],
} as const;

export interface Outcome extends Row {
  /** The member that led at the end, before any node was started again; null if none did. */
  readonly promoted: string | null;
  readonly committed: number;
  /** Transactions that the current history contains at the end. */
  readonly present: number;
  /** Final verdicts on the transactions that were reported durable before, by level. */
  readonly promised: Readonly<Record<"any" | "safe", Readonly<Record<string, number>>>>;
  /** Verdicts that the database contradicts. */
  readonly untrue: readonly string[];
}

/** The fault of an outcome; null if there is none. */
export function faultOf(outcome: Outcome): string | null {
  const { promoted, expected, promised, untrue } = outcome;
  if (untrue.length > 0) return `untrue verdicts: ${untrue.slice(0, 3).join("; ")}`;
  if (expected === "nobody" && promoted !== null) return `${promoted} was promoted`;
  if (expected === "laggard" && (promised.any["broken"] ?? 0) === 0) return "no promise broke";
  if ((promised.safe["broken"] ?? 0) > 0) return "a safe promise broke";
  return null;
}

const COMMITS = 20;
/**
 * How long to wait where nothing should happen. Patroni would act within a few loops of one second.
 */
const STRUCK_OUT_PATIENCE_MS = 15_000;
const PROMOTION_PATIENCE_MS = 8_000;
/** Limit for what has to happen, even on a busy machine. */
const LIMIT_MS = 60_000;

interface Note {
  readonly key: string;
  readonly token: string;
  /** Reported as durable before the failure. */
  readonly any: boolean;
  readonly safe: boolean;
}

export async function playRow(system: PatroniSystem, row: Row): Promise<Outcome> {
  const { patroni } = system;
  await patroni.configure(row.settings);
  const leader = await system.ready();
  const [acknowledging, laggard] = await rolesOf(system, leader);
  await writeEverywhere(system, `${row.settings}-${row.deed}-everywhere`);
  const isShared = row.deed === "leader_without_patroni";
  if (!isShared) await patroni.starve(laggard, leader);
  if (row.deed === "together_at_once") await patroni.freeze(leader, "patroni");
  const keys = Array.from({ length: COMMITS }, (_unused, at) => `${row.settings}-${row.deed}-${String(at)}`);
  const tokens: string[] = [];
  for (const key of keys) tokens.push(await write(system, key));
  const anyOf = await eventually(
    "one standby has acknowledged",
    async () => {
      const found = await judge(system, tokens, "any");
      return found.every((verdict) => verdict === "durable") && found;
    },
    LIMIT_MS,
  );
  const safeOf = await judge(system, tokens, "safe");
  const notes: Note[] = keys.map((key, at) => ({
    key,
    token: tokens[at] ?? "",
    any: anyOf[at] === "durable",
    safe: safeOf[at] === "durable",
  }));
  if (isShared) notes.push(...(await splitUp(system, { row, leader, acknowledging })));
  else await die(system, { row, leader, acknowledging });
  const promoted = await whoLeads(system, row, leader);
  await repair(system);
  return assess(system, row, promoted, notes);
}

/**
 * In synchronous mode the standby that the leader waits for acknowledges; otherwise either one may.
 */
async function rolesOf(system: PatroniSystem, leader: string): Promise<[string, string]> {
  // A standby's Patroni sometimes asks the leader for its timeline. That session has no name and
  // never streams.
  const sql =
    "SELECT application_name AS id FROM pg_stat_replication WHERE state = 'streaming' ORDER BY sync_state = 'sync' DESC, 1";
  const [first, second] = (await system.patroni.query(leader, sql)).map(({ id }) => String(id));
  if (first === undefined || second === undefined) throw new Error(`${leader} has no two standbys`);
  return [first, second];
}

async function die(
  { patroni }: PatroniSystem,
  { row, leader, acknowledging }: { row: Row; leader: string; acknowledging: string },
): Promise<void> {
  if (row.deed === "standby_first") {
    await patroni.kill(acknowledging);
    const startedAtMs = performance.now();
    // Where Patroni keeps a list, the node has to disappear from it. Otherwise there is nothing to
    // wait for.
    const patienceMs = row.expected === "laggard" ? LIMIT_MS : STRUCK_OUT_PATIENCE_MS;
    while ((await patroni.listed()).includes(acknowledging))
      if (performance.now() - startedAtMs > patienceMs) break;
      else await pause(100);
    // With `maximum_lag_on_failover: 0`, a candidate needs everything up to the leader's last
    // published position, so that position has to be up to date.
    await pause(2_000);
    await patroni.kill(leader);
  } else await Promise.all([patroni.kill(leader), patroni.kill(acknowledging)]);
  await patroni.revokeLease();
}

/**
 * Writes through the gateway all the while. Each transaction that is reported as durable is a
 * promise, too.
 */
async function splitUp(
  system: PatroniSystem,
  { row, leader, acknowledging }: { row: Row; leader: string; acknowledging: string },
): Promise<Note[]> {
  const { patroni } = system;
  const written: Promise<Note | null>[] = [];
  let isOver = false;
  const burst = (async (): Promise<void> => {
    for (let at = 0; !isOver; at++) {
      const key = `${row.settings}-burst-${String(at)}`;
      const token = await tryWrite(system, key);
      if (token !== null) written.push(promisedSoon(system, key, token));
    }
  })();
  await patroni.cutFromEtcd(acknowledging);
  await patroni.killPatroni(leader);
  await pause(500);
  await patroni.revokeLease();
  await whoLeads(system, row, leader);
  await pause(1_500);
  isOver = true;
  await burst;
  return (await Promise.all(written)).filter((note) => note !== null);
}

async function promisedSoon(system: PatroniSystem, key: string, token: string): Promise<Note> {
  const [any, safe] = await Promise.all([
    judge(system, [token], "any", 1_000).catch(() => []),
    judge(system, [token], "safe", 1_000).catch(() => []),
  ]);
  return { key, token, any: any[0] === "durable", safe: safe[0] === "durable" };
}

async function whoLeads({ patroni }: PatroniSystem, { expected }: Row, old: string): Promise<string | null> {
  const untilMs = performance.now() + (expected === "laggard" ? LIMIT_MS : PROMOTION_PATIENCE_MS);
  while (performance.now() < untilMs) {
    const now = await patroni.leader();
    if (now !== undefined && now !== old) return now;
    await pause(100);
  }
  return null;
}

async function repair(system: PatroniSystem): Promise<void> {
  const { patroni } = system;
  await patroni.heal();
  for (const id of patroni.members) {
    await patroni.thaw(id);
    if (!(await patroni.isPatroniAlive(id))) patroni.start(id);
  }
  await system.ready();
}

async function assess(
  system: PatroniSystem,
  row: Row,
  promoted: string | null,
  notes: readonly Note[],
): Promise<Outcome> {
  const leader = await system.ready();
  const rows = await system.patroni.query(leader, "SELECT key FROM kv");
  const present = new Set(rows.map(({ key }) => String(key)));
  const untrue: string[] = [];
  const promised: Record<"any" | "safe", Record<string, number>> = { any: {}, safe: {} };
  for (const level of ["any", "safe"] as const) {
    const found = await settledVerdicts(system, notes, present, level);
    for (const [at, note] of notes.entries()) {
      const verdict = found[at] ?? "none";
      const isThere = present.has(note.key);
      const right = isThere ? ["durable", "pending"] : note[level] ? ["broken"] : ["lost", "broken"];
      if (!right.includes(verdict))
        untrue.push(`${note.key} is ${isThere ? "present" : "absent"}, ${level}: ${verdict}`);
      if (note[level]) promised[level][verdict] = (promised[level][verdict] ?? 0) + 1;
    }
  }
  const kept = notes.filter(({ key }) => present.has(key)).length;
  return { ...row, promoted, committed: notes.length, present: kept, promised, untrue };
}

/**
 * Where there are no synchronous standbys, a level that counts them waits for ever. All others get
 * a verdict.
 */
function settledVerdicts(
  system: PatroniSystem,
  notes: readonly Note[],
  present: ReadonlySet<string>,
  level: "any" | "safe",
): Promise<string[]> {
  return eventually(
    `verdicts at ${level}`,
    async () => {
      const tokens = notes.map(({ token }) => token);
      const found = await judge(system, tokens, level);
      const isOpen = notes.some(
        ({ key, ...note }, at) =>
          found[at] === "pending" && (level === "any" || note[level] || !present.has(key)),
      );
      return !isOpen && found;
    },
    LIMIT_MS,
  );
}

/** Resolves with the token of a committed transaction. */
function write(system: PatroniSystem, key: string): Promise<string> {
  return eventually(`${key} commits`, async () => (await tryWrite(system, key)) ?? undefined, LIMIT_MS);
}

/** Writes the table and a first row, which every member gets, even the laggard. */
async function writeEverywhere(system: PatroniSystem, key: string): Promise<void> {
  await write(system, key);
  for (const id of system.patroni.members)
    await eventually(
      `${id} has ${key}`,
      async () => {
        const rows = await system.patroni.query(id, `SELECT FROM kv WHERE key = '${key}'`);
        return rows.length === 1;
      },
      LIMIT_MS,
    );
}

async function tryWrite(system: PatroniSystem, key: string): Promise<string | null> {
  const id = makeUuidV7(Date.now(), crypto.getRandomValues(new Uint8Array(10)));
  const statements = [
    { sql: "CREATE TABLE IF NOT EXISTS kv (key text PRIMARY KEY)" },
    { sql: "INSERT INTO kv VALUES ($1) ON CONFLICT DO NOTHING", params: [key] },
  ];
  const gateway = system.service(system.regions[0] ?? "", "gateway").url;
  try {
    const { status, body } = await post(`${gateway}/v1/transactions`, { id, statements });
    return status === 200 ? String((body as { token: string }).token) : null;
  } catch {
    return null;
  }
}

async function judge(
  system: PatroniSystem,
  tokens: readonly string[],
  level: string,
  waitMs = 0,
): Promise<string[]> {
  const tracker = system.service(system.regions[0] ?? "", "tracker").url;
  const { status, body } = await post(`${tracker}/v1/durability/verdicts`, { tokens, level, waitMs });
  if (status !== 200) throw new Error(`verdicts: ${JSON.stringify(body)}`);
  return (body as { verdicts: { verdict: string }[] }).verdicts.map(({ verdict }) => verdict);
}

async function post(url: string, body: unknown): Promise<{ status: number; body: unknown }> {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(LIMIT_MS),
  });
  return { status: response.status, body: await response.json() };
}
