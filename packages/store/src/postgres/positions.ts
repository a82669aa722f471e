// Reads the primary's view of itself and its replicas, hundreds of times a second. The owner of a
// stream costs the server as much as its position, and never changes while its process lives. So
// the owners are read ten times a second and when an unknown process appears, and only the
// positions in between.
import { type ClientBase } from "pg";
import { type EpochId } from "@highwater/protocol";
import { type Clock } from "@highwater/runtime";
import { type PositionsReport } from "../port.ts";
import { endOfLog, parseLsn } from "./lsn.ts";
import { type ReplicaStream, type ReplicaStreams } from "./replica-streams.ts";
import { BARE_POSITIONS, POSITIONS, POSITIONS_WITH_SOURCES } from "./sql.ts";

/**
 * A process id is not given to another walsender within so short a time: a system counts through
 * all of them first.
 */
const IDENTITIES_MS = 100;

/** Of `quorum` ones the server waits for some, of `potential` ones for none. */
const SYNCHRONOUS = "sync";

interface Row {
  epoch: string | null;
  flushed: string;
  applied: string;
  segment_bytes: string;
  fsync: string;
  streams: string | null;
}

type Identity = Omit<ReplicaStream, "flushed" | "isSynchronous">;

interface Known {
  readonly client: ClientBase;
  readonly askedAtMs: number;
  /** By process id; null: it sends no copy of the log. */
  readonly identities: ReadonlyMap<string, Identity | null>;
}

export class PositionsReader {
  readonly #node: string;
  readonly #streams: ReplicaStreams;
  readonly #clock: Clock;
  #known: Known | null = null;

  constructor(node: string, streams: ReplicaStreams, clock: Clock) {
    this.#node = node;
    this.#streams = streams;
    this.#clock = clock;
  }

  /** Null where no epoch was minted. */
  async read(client: ClientBase): Promise<PositionsReport | null> {
    return (await this.#readPositions(client)) ?? this.#readAll(client);
  }

  /** Undefined when a process may be another than the known one. */
  async #readPositions(client: ClientBase): Promise<PositionsReport | undefined> {
    const known = this.#known;
    if (known?.client !== client || this.#isOld(known)) return undefined;
    const [row] = (await client.query<Row>({ name: "bare_positions", text: BARE_POSITIONS })).rows;
    if (row?.epoch == null || this.#isOld(known)) return undefined;
    const streams: ReplicaStream[] = [];
    for (const line of linesOf(row)) {
      const [process = "", flushed = "", syncState = ""] = line.split("\t");
      const identity = known.identities.get(process);
      if (identity === undefined) return undefined;
      if (identity !== null) streams.push({ ...identity, flushed, isSynchronous: syncState === SYNCHRONOUS });
    }
    return this.#report(row.epoch, row, streams);
  }

  async #readAll(client: ClientBase): Promise<PositionsReport | null> {
    this.#known = null;
    const askedAtMs = this.#clock.monotonicMs();
    const statement = this.#streams.needsSource
      ? { name: "positions_with_sources", text: POSITIONS_WITH_SOURCES }
      : { name: "positions", text: POSITIONS };
    const [row] = (await client.query<Row>(statement)).rows;
    if (row?.epoch == null) return null;
    const identities = new Map<string, Identity | null>();
    const streams: ReplicaStream[] = [];
    for (const line of linesOf(row)) {
      const [process = "", flushed = "", syncState = "", startedAt = "", database = "", ...source] =
        line.split("\t");
      const [address = "", slot = "", name = ""] = source;
      // A walsender that has a database sends a logical stream.
      const identity =
        database === ""
          ? {
              session: `${process}/${startedAt}`,
              address: some(address),
              slot: some(slot),
              applicationName: name,
            }
          : null;
      identities.set(process, identity);
      if (identity !== null) streams.push({ ...identity, flushed, isSynchronous: syncState === SYNCHRONOUS });
    }
    this.#known = { client, askedAtMs, identities };
    return this.#report(row.epoch, row, streams);
  }

  #isOld({ askedAtMs }: Known): boolean {
    return this.#clock.monotonicMs() - askedAtMs > IDENTITIES_MS;
  }

  #report(epoch: string, row: Row, streams: readonly ReplicaStream[]): PositionsReport {
    return {
      node: this.#node,
      epoch: epoch as EpochId,
      flushed: row.fsync === "on" ? parseLsn(row.flushed) : null,
      applied: endOfLog(parseLsn(row.applied), BigInt(row.segment_bytes)),
      replicas: this.#streams.recognise(streams, this.#node),
    };
  }
}

/**
 * The server cleans application names of everything but printable ASCII, so tabs and line ends are
 * ours.
 */
function linesOf({ streams }: Row): string[] {
  return streams === null ? [] : streams.split("\n");
}

function some(text: string): string | null {
  return text === "" ? null : text;
}
