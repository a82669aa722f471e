// The primary's view of itself and its replicas: one prepared statement, hundreds of times a second.
import { type ClientBase } from "pg";
import { type EpochId, ZERO } from "@highwater/protocol";
import { type PositionsReport } from "../port.ts";
import { endOfLog, parseLsn } from "./lsn.ts";
import { type ReplicaStream, type ReplicaStreams } from "./replica-streams.ts";
import { POSITIONS, POSITIONS_WITH_SOURCES } from "./sql.ts";

interface PositionsRow {
  epoch: string | null;
  flushed: string;
  applied: string;
  segment_bytes: string;
  fsync: string;
  streams: string | null;
}

/** Null where no epoch was minted. */
export async function readPositions(
  client: ClientBase,
  node: string,
  known: ReplicaStreams,
): Promise<PositionsReport | null> {
  const statement = known.needsSource
    ? { name: "positions_with_sources", text: POSITIONS_WITH_SOURCES }
    : { name: "positions", text: POSITIONS };
  const [row] = (await client.query<PositionsRow>(statement)).rows;
  if (row?.epoch == null) return null;
  return {
    node,
    epoch: row.epoch as EpochId,
    flushed: row.fsync === "on" ? parseLsn(row.flushed) : ZERO,
    applied: endOfLog(parseLsn(row.applied), BigInt(row.segment_bytes)),
    replicas: row.streams === null ? [] : known.recognise(row.streams.split("\n").map(stream), node),
  };
}

/** The server cleans application names of everything but printable ASCII, so tabs and line ends are ours. */
function stream(line: string): ReplicaStream {
  const [session = "", flushed = "", address = "", slot = "", applicationName = ""] = line.split("\t");
  return {
    session,
    flushed,
    address: address === "" ? null : address,
    slot: slot === "" ? null : slot,
    applicationName,
  };
}
