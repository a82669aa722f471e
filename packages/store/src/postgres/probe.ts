// Asks a node about itself.
import { type ClientBase } from "pg";
import { type NodeReport } from "@highwater/authority";
import { type EpochId, maxOffset, ZERO } from "@highwater/protocol";
import { endOfLog, parseLsn } from "./lsn.ts";
import { type EpochRow, epochRecord } from "./rows.ts";
import { type SentinelRow } from "./mint.ts";
import { NEWEST_MIGRATION } from "./prepare.ts";
import { EPOCHS, FACTS, PENDING_COMMAND, PRIMARY_POSITION, REPLICA_POSITION, SENTINEL } from "./sql.ts";

interface FactsRow {
  in_recovery: boolean;
  migrated_to: string | null;
  started_at: string;
  system_identifier: string;
  server_time_ms: string;
  fsync: string;
  recovery_target: string | null;
}

/**
 * What a node was when it was last asked; a guess that lets the next probe ask everything in one
 * round trip.
 */
export interface LastSeen {
  primary: boolean;
  schema: Schema;
}

/**
 * `outdated`: made by an older version of the service; it has epochs, and the rest has to be
 * upgraded first.
 */
type Schema = "none" | "outdated" | "prepared";

function schemaOf({ migrated_to: migratedTo }: FactsRow): Schema {
  if (migratedTo === null) return "none";
  return migratedTo < NEWEST_MIGRATION ? "outdated" : "prepared";
}

/**
 * Asks everything at once if the node is still what it was, and again, step by step, if it is not.
 */
export async function probeNode(client: ClientBase, node: string, seen: LastSeen): Promise<NodeReport> {
  const guessed = { ...seen };
  // The role may change between two statements, never the incarnation: that would end the
  // connection.
  const asking = readFacts(client, node);
  const guessing = readState(client, node, guessed).catch((cause: unknown) => ({ failed: cause }));
  const facts = await asking;
  const guess = await guessing;
  seen.primary = !facts.in_recovery;
  seen.schema = schemaOf(facts);
  const right = seen.primary === guessed.primary && seen.schema === guessed.schema;
  if (right && "failed" in guess) throw guess.failed;
  const state = right && !("failed" in guess) ? guess : await readState(client, node, seen);
  return {
    ...report(state, facts),
    node,
    role: seen.primary ? "primary" : "replica",
    incarnation: `${facts.system_identifier}/${facts.started_at}`,
    prepared: seen.schema === "prepared",
    unfit: unfitness(facts),
    serverTimeMs: Number(facts.server_time_ms),
  };
}

interface State {
  readonly epochs: readonly EpochRow[];
  readonly position: Pick<NodeReport, "flushed" | "applied" | "upstream" | "isFed">;
  readonly sentinel: SentinelRow | undefined;
  readonly command: NodeReport["command"];
}

async function readFacts(client: ClientBase, node: string): Promise<FactsRow> {
  const [facts] = (await client.query<FactsRow>({ name: "facts", text: FACTS })).rows;
  if (facts === undefined) throw new Error(`${node} did not describe itself`);
  return facts;
}

/**
 * Only what a node of this kind can answer: an unlogged table cannot even be named on a replica.
 */
async function readState(client: ClientBase, node: string, { primary, schema }: LastSeen): Promise<State> {
  const prepared = schema === "prepared";
  const [epochs, position, sentinel, command] = await Promise.all([
    schema === "none" ? null : client.query<EpochRow>({ name: "epochs", text: EPOCHS }),
    primary ? primaryPosition(client, node) : replicaPosition(client),
    primary && prepared ? client.query<SentinelRow>({ name: "sentinel", text: SENTINEL }) : null,
    primary && prepared
      ? client.query<{ id: string; overrules: EpochId[] }>({
          name: "command",
          text: PENDING_COMMAND,
          values: [node],
        })
      : null,
  ]);
  return {
    epochs: epochs?.rows ?? [],
    position,
    sentinel: sentinel?.rows[0],
    command: command?.rows[0] ?? null,
  };
}

function report(
  { epochs, position, sentinel, command }: State,
  facts: FactsRow,
): Pick<
  NodeReport,
  "epochs" | "current" | "command" | "flushed" | "applied" | "upstream" | "isFed" | "heldMs"
> {
  const valid =
    sentinel !== undefined &&
    sentinel.same_start &&
    sentinel.in_place &&
    sentinel.unlogged &&
    sentinel.system_identifier === facts.system_identifier &&
    sentinel.id === epochs.at(-1)?.id;
  return {
    ...position,
    epochs: epochs.map(epochRecord),
    current: valid ? (sentinel.id as EpochId) : null,
    heldMs: valid ? sentinel.held_ms : null,
    command,
  };
}

function unfitness(facts: FactsRow): string | null {
  if (facts.fsync !== "on") return "fsync is off";
  return facts.recovery_target === null ? null : `a recovery target is set: ${facts.recovery_target}`;
}

async function replicaPosition(
  client: ClientBase,
): Promise<Pick<NodeReport, "flushed" | "applied" | "upstream" | "isFed">> {
  const { rows } = await client.query<{
    applied: string | null;
    received: string | null;
    session: string | null;
    streamed: string | null;
    status: string | null;
    pid: number | null;
  }>(REPLICA_POSITION);
  const [row] = rows;
  const applied = row?.applied == null ? ZERO : parseLsn(row.applied);
  const received = row?.received == null ? ZERO : parseLsn(row.received);
  const upstream =
    row?.session != null && row.streamed != null && row.status === "streaming"
      ? // A stream that has brought nothing yet names a segment's start, below what the node has.
        { session: row.session, flushed: maxOffset(parseLsn(row.streamed), applied) }
      : null;
  // Without the right to see its state a receiver that is there counts as one that receives.
  const isFed = row?.pid != null && (row.status === null || row.status === "streaming");
  // What was replayed had been flushed before.
  return { applied, flushed: received > applied ? received : applied, upstream, isFed };
}

async function primaryPosition(
  client: ClientBase,
  node: string,
): Promise<Pick<NodeReport, "flushed" | "applied" | "upstream" | "isFed">> {
  const [row] = (
    await client.query<{ flushed: string; applied: string; segment_bytes: string }>(PRIMARY_POSITION)
  ).rows;
  if (row === undefined) throw new Error(`${node} reported no position`);
  const applied = endOfLog(parseLsn(row.applied), BigInt(row.segment_bytes));
  return { flushed: parseLsn(row.flushed), applied, upstream: null, isFed: false };
}
