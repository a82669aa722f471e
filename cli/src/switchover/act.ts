// Carries out the steps of a switchover on the servers, by SQL as a superuser. Every step may be
// repeated.
import { spawn } from "node:child_process";
import { authorityCommand, strangersOf } from "@highwater/durability-tracker/failover";
import { type NodeSpec } from "@highwater/protocol";
import { type Clock, sleep } from "@highwater/runtime";
import pg from "pg";
import { give } from "../failover/authorize.ts";
import { rows, withServer } from "../postgres.ts";
import { EXIT_REFUSED, Refusal } from "../refusal.ts";
import { pointedAt, type Upstream } from "./conninfo.ts";
import { type Node, type Observed, signalText } from "./observe.ts";

/** A checkpoint writes what is in memory; a promotion replays what has come. */
const LONG_MS = 600_000;
const PROMOTION_S = 60;
/** A reload takes effect a moment later. */
const RELOAD_MS = 10_000;
const POLL_MS = 100;

const SLOT_EXISTS = "42710";
/**
 * Of promotions: a temporary slot ends with its session, and takes a right that no application has.
 */
const TURN = "highwater_switchover";

export interface Handover {
  readonly owner: Node;
  readonly heir: Node;
  /** All that will follow the heir. */
  readonly standbys: readonly Node[];
  /** Where standbys reach the heir. */
  readonly upstream: Upstream;
  readonly clock: Clock;
}

/**
 * Makes the primary a standby at its next start, for whatever reason it comes. The file comes last:
 * where it is, everything else is done.
 */
export async function handOver({ owner, heir, standbys, upstream, clock }: Handover): Promise<void> {
  const slots = new Set(standbys.map((node) => slotOf(node)).filter((slot) => slot !== ""));
  for (const slot of slots) await ensureSlot(heir, slot);
  const conninfo = pointedAt(heir.server?.conninfo ?? "", upstream, {
    name: streamName(owner.spec),
    onlyWritable: true,
  });
  await follow(owner, conninfo, clock);
  await withServer(
    owner.spec.url,
    async (client) => {
      // The stop is then quick.
      await client.query("CHECKPOINT");
      const file = `${owner.server?.dataDirectory ?? ""}/standby.signal`;
      await client.query(
        `COPY (SELECT ${pg.escapeLiteral(signalText(heir.spec.id))}) TO ${pg.escapeLiteral(file)}`,
      );
    },
    { limitMs: LONG_MS },
  );
}

/** In the server's own folder, where its programs run. */
export async function callOff({ spec }: Node): Promise<void> {
  await withServer(spec.url, (client) => client.query("COPY (SELECT 1) TO PROGRAM 'rm -f standby.signal'"));
}

/**
 * One promotion runs at a time: `decide` looks anew when no other can run any more, and says
 * whether it is still the next step. False: it is not, or another one runs.
 */
export async function promote(
  node: NodeSpec,
  arbiter: NodeSpec,
  decide: () => Promise<boolean>,
): Promise<boolean> {
  return withServer(
    arbiter.url,
    async (turn) => {
      try {
        await turn.query("SELECT pg_create_physical_replication_slot($1, false, true)", [TURN]);
      } catch (cause) {
        if ((cause as { readonly code?: unknown }).code === SLOT_EXISTS) return false;
        throw cause;
      }
      if (!(await decide())) return false;
      await withServer(
        node.url,
        (client) => client.query("SELECT pg_promote(wait => true, wait_seconds => $1)", [PROMOTION_S]),
        { limitMs: 2_000 * PROMOTION_S },
      );
      return true;
    },
    { limitMs: LONG_MS },
  );
}

export async function authorize(
  { spec, report }: Node,
  { nodes, known }: Observed,
  { by, reason }: { readonly by: string; readonly reason: string },
): Promise<void> {
  const reports = new Map(
    [...nodes].flatMap(([id, node]) => (node.report === null ? [] : [[id, node.report]])),
  );
  const ends = report?.epochs.at(-1)?.id;
  if (ends === undefined) throw new Refusal([`${spec.id} has no epoch`], EXIT_REFUSED);
  const overrules = strangersOf(spec.id, { reports }, known);
  await give(spec, authorityCommand({ node: spec.id, ends, overrules, reason }), by);
}

/** Lets a standby follow the primary. */
export async function pointAt(
  node: Node,
  { heir, upstream, clock }: Pick<Handover, "heir" | "upstream" | "clock">,
): Promise<void> {
  const slot = slotOf(node);
  if (slot !== "") await ensureSlot(heir, slot);
  const own = node.server?.conninfo ?? "";
  const name = own === "" || node.spec.replication === undefined ? streamName(node.spec) : null;
  const template = own === "" ? (heir.server?.conninfo ?? "") : own;
  await follow(node, pointedAt(template, upstream, { name, onlyWritable: false }), clock);
}

export async function dropSlot({ url }: NodeSpec, slot: string): Promise<void> {
  await withServer(url, (client) =>
    client.query(
      "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = $1 AND NOT active",
      [slot],
    ),
  );
}

/** Errors: Refusal, with the end of what the command said. */
export async function runShell(command: string, node: string, env: NodeJS.ProcessEnv): Promise<void> {
  const child = spawn("sh", ["-c", command], {
    env: { ...env, HIGHWATER_NODE: node },
    // Standard output is for the answer. A server that the command starts may keep the stream open,
    // so the end of the stream is not the command's.
    stdio: ["ignore", 2, 2],
  });
  const code = await new Promise<number | string>((resolve) => {
    child.once("error", (cause) => {
      resolve(cause.message);
    });
    child.once("exit", (exit, signal) => {
      resolve(exit ?? signal ?? 1);
    });
  });
  if (code !== 0) throw new Refusal([`--restart-command failed: ${String(code)}`], EXIT_REFUSED);
}

/** What the topology knows a node's stream by, as far as that is a name. */
function streamName({ id, replication }: NodeSpec): string {
  return replication !== undefined && "applicationName" in replication
    ? (replication.applicationName ?? id)
    : id;
}

function slotOf({ spec: { replication }, server }: Node): string {
  if (replication !== undefined && "slot" in replication && replication.slot !== undefined)
    return replication.slot;
  return server?.slot ?? "";
}

/** It keeps the log from now on. */
async function ensureSlot({ spec }: Node, slot: string): Promise<void> {
  await withServer(spec.url, (client) =>
    client.query(
      `SELECT pg_create_physical_replication_slot($1, true)
       WHERE NOT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = $1)`,
      [slot],
    ),
  );
}

/** Errors: Refusal, if another place sets the connection string. */
async function follow(node: Node, conninfo: string, clock: Clock): Promise<void> {
  const { spec } = node;
  const [slot, shown] = [slotOf(node), spec.id];
  await withServer(spec.url, async (client) => {
    await client.query(`ALTER SYSTEM SET primary_conninfo = ${pg.escapeLiteral(conninfo)}`);
    if (slot !== node.server?.slot)
      await client.query(`ALTER SYSTEM SET primary_slot_name = ${pg.escapeLiteral(slot)}`);
    await client.query("SELECT pg_reload_conf()");
  });
  const untilMs = clock.monotonicMs() + RELOAD_MS;
  for (;;) {
    const [found] = await withServer(spec.url, (client) =>
      rows<{ setting: string; source: string }>(
        client,
        "SELECT setting, source FROM pg_settings WHERE name = 'primary_conninfo'",
      ),
    );
    if (found?.setting === conninfo) return;
    if (clock.monotonicMs() >= untilMs)
      throw new Refusal(
        [
          `primary_conninfo on ${shown} cannot be set by ALTER SYSTEM: it comes from ${found?.source ?? "elsewhere"}`,
        ],
        EXIT_REFUSED,
      );
    await sleep(clock, POLL_MS);
  }
}
