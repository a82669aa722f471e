// Turns rows of the adapter's tables into the port's types.
import { type EpochCause, type EpochRecord, formatOffset } from "@highwater/protocol";
import { parseLsn } from "./lsn.ts";

export interface EpochRow {
  seq: string;
  id: string;
  previous: string | null;
  node: string;
  cause: string;
  timeline: number;
  started_at: string;
  start_offset: string;
  fork_offset: string;
  fork_limit: string | null;
  supersedes: string[];
  commanded: boolean;
  final_marks: Record<string, string>;
}

export function epochRecord(row: EpochRow): EpochRecord {
  return {
    id: row.id,
    seq: Number(row.seq),
    previous: row.previous,
    node: row.node,
    cause: row.cause as EpochCause,
    startedAt: row.started_at,
    startOffset: formatOffset(parseLsn(row.start_offset)),
    forkOffset: formatOffset(parseLsn(row.fork_offset)),
    forkLimit: row.fork_limit === null ? null : formatOffset(parseLsn(row.fork_limit)),
    supersedes: row.supersedes,
    commanded: row.commanded,
    finalMarks: row.final_marks,
  };
}
