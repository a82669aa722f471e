// A node's replication: its state, and commands for it. SQL only, no processes.

import { DevClusterError } from "./errors.ts";
import { conninfo } from "./postgres-config.ts";
import { querySql, type SqlTarget, withClient } from "./sql.ts";
import { setTimeout as sleep } from "node:timers/promises";

const pollMs = 5;
const promoteLimitMs = 60_000;
const commandLimitMs = 30_000;
/** A replica that does not accept its new upstream in this time is left alone. */
const repointLimitMs = 10_000;

export interface Reading {
  isReplica: boolean;
  timeline: number;
  insertLsn: string | null;
  replayLsn: string | null;
  isStreaming: boolean;
}

/**
 * A primary's timeline comes from its current log file's name, because after a promotion the
 * control file has the old one until the first checkpoint.
 */
const readingSql = `
  SELECT in_recovery AS "isReplica",
         CASE WHEN in_recovery
              THEN coalesce((SELECT greatest(receive_start_tli, received_tli) FROM pg_stat_wal_receiver),
                            (SELECT nullif(min_recovery_end_timeline, 0) FROM pg_control_recovery()),
                            (SELECT timeline_id FROM pg_control_checkpoint()))
              ELSE ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::int
         END AS timeline,
         CASE WHEN NOT in_recovery THEN pg_current_wal_insert_lsn()::text END AS "insertLsn",
         pg_last_wal_replay_lsn()::text AS "replayLsn",
         EXISTS (SELECT FROM pg_stat_wal_receiver WHERE status = 'streaming') AS "isStreaming"
  FROM (SELECT pg_is_in_recovery() AS in_recovery) AS node`;

export async function readNode(target: SqlTarget, limitMs: number): Promise<Reading> {
  const [row] = await querySql(target, readingSql, undefined, { limitMs });
  const reading = row as unknown as Reading;
  // A primary still shows the value of its last recovery, which is not its position.
  return reading.isReplica ? reading : { ...reading, replayLsn: null, isStreaming: false };
}

/** The last position that the replica has, received or from its own disk. */
export async function readReceived(target: SqlTarget, limitMs: number): Promise<bigint> {
  const sql = `SELECT (greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) - '0/0')::text AS offset`;
  const [row] = await querySql(target, sql, undefined, { limitMs });
  const offset = row?.["offset"];
  if (typeof offset !== "string") throw new DevClusterError("BAD_STATE", `${target.id} has no position`);
  return BigInt(offset);
}

/** pg_promote's own wait polls only every 100 ms. */
export async function promoteNode(target: SqlTarget): Promise<void> {
  await withClient(target, { limitMs: promoteLimitMs }, async (client) => {
    const isReplica = async (): Promise<boolean> => {
      const answer = await client.query<{ replica: boolean }>("SELECT pg_is_in_recovery() AS replica");
      return answer.rows[0]?.replica ?? false;
    };
    if (!(await isReplica()))
      throw new DevClusterError("BAD_STATE", `node ${target.id} is already a primary`);
    await client.query("SELECT pg_promote(wait => false)");
    const deadline = performance.now() + promoteLimitMs;
    while (await isReplica()) {
      if (performance.now() > deadline)
        throw new DevClusterError("TIMEOUT", `node ${target.id} was not promoted in ${promoteLimitMs} ms`);
      await sleep(pollMs);
    }
  });
}

/** Epochs of the node's history; none if it does not answer or lacks the table. */
export async function readEpochs(target: SqlTarget, limitMs: number): Promise<string[]> {
  return withClient(target, { limitMs }, async (client) => {
    const found = await client.query<{ exists: boolean }>(
      "SELECT to_regclass('highwater.epoch') IS NOT NULL AS exists",
    );
    if (found.rows[0]?.exists !== true) return [];
    return (await client.query<{ id: string }>("SELECT id::text FROM highwater.epoch")).rows.map(
      ({ id }) => id,
    );
  });
}

/**
 * `overrules`: epochs that the operator knows and gives up if the node's history lacks them. False
 * if the table does not exist. Commits locally, so that a hung standby cannot delay the command.
 */
export async function commandAuthority(
  target: SqlTarget,
  command: { readonly reason: string; readonly overrules: readonly string[] },
): Promise<boolean> {
  return withClient(target, { limitMs: commandLimitMs }, async (client) => {
    const found = await client.query<{ exists: boolean }>(
      "SELECT to_regclass('highwater.authority_command') IS NOT NULL AS exists",
    );
    if (found.rows[0]?.exists !== true) return false;
    await client.query("SET synchronous_commit = local");
    await client.query(
      "INSERT INTO highwater.authority_command (node, reason, overrules) VALUES ($1, $2, $3)",
      [target.id, command.reason, command.overrules],
    );
    return true;
  });
}

/** A reload restarts the WAL receiver with the new upstream while the server runs on. */
export async function repointNode(target: SqlTarget, upstreamPort: number): Promise<void> {
  await withClient(target, { limitMs: repointLimitMs }, async (client) => {
    const answer = await client.query<{ replica: boolean }>("SELECT pg_is_in_recovery() AS replica");
    if (answer.rows[0]?.replica !== true)
      throw new DevClusterError("BAD_STATE", `node ${target.id} is a primary and follows no other node`);
    await client.query(`ALTER SYSTEM SET primary_conninfo = '${conninfo(target.id, upstreamPort)}'`);
    await client.query("SELECT pg_reload_conf()");
  });
}
