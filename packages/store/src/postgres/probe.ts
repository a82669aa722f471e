// What a node says of itself, and the positions of a primary and its replicas.
import { type ClientBase } from "pg";
import { type EpochId, ZERO } from "@highwater/protocol";
import { type NodeReport, type PositionsReport } from "../port.ts";
import { parseLsn } from "./lsn.ts";
import { type EpochRow, epochRecord } from "./rows.ts";
import {
  EPOCHS,
  FACTS,
  PENDING_COMMAND,
  POSITIONS,
  PRIMARY_POSITION,
  REPLICA_POSITION,
  SENTINEL,
} from "./sql.ts";

interface FactsRow {
  in_recovery: boolean;
  prepared: boolean;
  started_at: string;
  system_identifier: string;
  server_time_ms: string;
  fsync: string;
  recovery_target: string | null;
}

export async function probeNode(client: ClientBase, node: string): Promise<NodeReport> {
  // The role may change between two statements, never the incarnation: that would end the connection.
  const [facts] = (await client.query<FactsRow>(FACTS)).rows;
  if (facts === undefined) throw new Error(`${node} did not describe itself`);
  const epochs = facts.prepared ? (await client.query<EpochRow>(EPOCHS)).rows.map(epochRecord) : [];
  const common = {
    node,
    incarnation: `${facts.system_identifier}/${facts.started_at}`,
    prepared: facts.prepared,
    epochs,
    unfit: unfitness(facts),
    serverTimeMs: Number(facts.server_time_ms),
  };
  return facts.in_recovery
    ? { ...common, role: "replica", current: null, command: null, ...(await replicaPosition(client)) }
    : {
        ...common,
        role: "primary",
        upstream: null,
        ...(await primaryState(client, node, facts, epochs.at(-1)?.id)),
      };
}

function unfitness(facts: FactsRow): string | null {
  if (facts.fsync !== "on") return "fsync is off";
  return facts.recovery_target === null ? null : `a recovery target is set: ${facts.recovery_target}`;
}

async function replicaPosition(
  client: ClientBase,
): Promise<Pick<NodeReport, "flushed" | "applied" | "upstream">> {
  const { rows } = await client.query<{
    applied: string | null;
    received: string | null;
    session: string | null;
    streamed: string | null;
    status: string | null;
  }>(REPLICA_POSITION);
  const [row] = rows;
  const applied = row?.applied == null ? ZERO : parseLsn(row.applied);
  const received = row?.received == null ? ZERO : parseLsn(row.received);
  const upstream =
    row?.session != null && row.streamed != null && row.status === "streaming"
      ? { session: row.session, flushed: parseLsn(row.streamed) }
      : null;
  // What was replayed had been flushed before.
  return { applied, flushed: received > applied ? received : applied, upstream };
}

async function primaryState(
  client: ClientBase,
  node: string,
  facts: FactsRow,
  newest: string | undefined,
): Promise<Pick<NodeReport, "flushed" | "applied" | "current" | "command">> {
  const [position] = (await client.query<{ flushed: string; applied: string }>(PRIMARY_POSITION)).rows;
  if (position === undefined) throw new Error(`${node} told no position`);
  const flushed = parseLsn(position.flushed);
  const applied = parseLsn(position.applied);
  if (!facts.prepared) return { flushed, applied, current: null, command: null };
  const [sentinel] = (
    await client.query<{ id: string; system_identifier: string; same_start: boolean; unlogged: boolean }>(
      SENTINEL,
    )
  ).rows;
  const [command] = (await client.query<{ id: string }>(PENDING_COMMAND, [node])).rows;
  const valid =
    sentinel !== undefined &&
    sentinel.same_start &&
    sentinel.unlogged &&
    sentinel.system_identifier === facts.system_identifier &&
    sentinel.id === newest;
  return { flushed, applied, current: valid ? (sentinel.id as EpochId) : null, command: command?.id ?? null };
}

export async function readPositions(client: ClientBase, node: string): Promise<PositionsReport | null> {
  const { rows } = await client.query<{
    epoch: string | null;
    flushed: string;
    applied: string;
    fsync: string;
    replicas: [string, string, string][];
  }>({ name: "positions", text: POSITIONS });
  const [row] = rows;
  if (row?.epoch == null) return null;
  const names = row.replicas.map(([name]) => name);
  return {
    node,
    epoch: row.epoch as EpochId,
    flushed: row.fsync === "on" ? parseLsn(row.flushed) : ZERO,
    applied: parseLsn(row.applied),
    replicas: row.replicas
      .filter(([name]) => names.indexOf(name) === names.lastIndexOf(name))
      .map(([name, session, flushed]) => ({ node: name, session, flushed: parseLsn(flushed) })),
  };
}
