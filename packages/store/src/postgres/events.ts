// The events in PostgreSQL. Opens two connections to each node when they are needed, so that
// recording never delays a reader.
import { type ClientBase } from "pg";
import { type DurabilityEventType, type EpochId, HighwaterError } from "@highwater/protocol";
import { type Clock } from "@highwater/runtime";
import {
  bestOfKeys,
  comparePositions,
  type EventExtent,
  type EventFilter,
  type EventStore,
  FIRST_POSITION,
  type FreshEvent,
  MAX_EVENTS_PER_RECORDING,
  type NewEvent,
  type RecordedEvent,
  type Recording,
  whatIsBetter,
} from "../events.ts";
import { NodeChannels, type NodeChannelsOptions } from "./node-channels.ts";
import { readLogEnd } from "./log-end.ts";

/**
 * The number of the epoch $1 if this very server process is in it, else NULL; see `SENTINEL_EPOCH`
 * in sql.ts.
 */
const EPOCH_SEQ = `(SELECT e.seq FROM highwater.epoch e JOIN highwater.current_epoch s ON s.id = e.id WHERE s.id = $1)`;

/**
 * $1 epoch, $2 the recorder's time. Locks the counter until the commit, and says from where on to
 * count and what the time is. In any other epoch the NULL violates NOT NULL; and who waited here
 * while a later epoch recorded gets no row.
 */
const LOCK_COUNTER = `INSERT INTO highwater.event_counter AS c (seq, n) VALUES (${EPOCH_SEQ}, 0)
ON CONFLICT (only_row) DO UPDATE SET seq = excluded.seq, n = CASE WHEN c.seq = excluded.seq THEN c.n ELSE 0 END
WHERE excluded.seq >= c.seq RETURNING c.seq::text, c.n::text,
  (extract(epoch FROM greatest(clock_timestamp(), to_timestamp($2::float8 / 1000))) * 1000)::float8 AS at_ms`;

const COLUMNS = `seq::text, n::text, (SELECT e.id::text FROM highwater.epoch e WHERE e.seq = event.seq) AS epoch,
  key, type, owner::text, (extract(epoch FROM at) * 1000)::float8 AS at_ms, data::text`;

/** $1 keys. */
const KNOWN = `SELECT ${COLUMNS} FROM highwater.event WHERE key = ANY ($1::text[])`;

/**
 * $1 seq, $2 the last n, $3 keys, $4 types, $5 owners, $6 data, $7 time. Nothing comes back: all of
 * it is known here.
 */
const INSERT = `INSERT INTO highwater.event (seq, n, key, type, owner, at, data)
SELECT $1::bigint, $2::bigint + asked.place, asked.key, asked.type, asked.owner, to_timestamp($7::float8 / 1000), asked.data
FROM unnest($3::text[], $4::text[], $5::numeric[], $6::json[]) WITH ORDINALITY AS asked (key, type, owner, data, place)`;

/** $1 the last n. */
const COUNT = `UPDATE highwater.event_counter SET n = $1::bigint`;

/** $1 keys. An event that is recorded instead gets numbers of its own. */
const REMOVE = `DELETE FROM highwater.event WHERE key = ANY ($1::text[])`;

/** $1 keys, $2 data. Each keeps its place. */
const REVISE = `UPDATE highwater.event SET data = asked.said
FROM unnest($1::text[], $2::json[]) AS asked (what, said) WHERE key = asked.what RETURNING ${COLUMNS}`;

/** $1 seq and $2 n of the place before, $3 owner or NULL, $4 types or NULL, $5 limit. */
const READ = `SELECT ${COLUMNS} FROM highwater.event
WHERE (event.seq, event.n) > ($1::bigint, $2::bigint) AND ($3::numeric IS NULL OR owner IS NULL OR owner = $3::numeric)
  AND ($4::text[] IS NULL OR type = ANY ($4::text[]))
ORDER BY event.seq, event.n LIMIT $5`;

const EXTENT = `SELECT c.seq::text, c.n::text, e.id::text AS epoch, c.expired_seq::text, c.expired_n::text
FROM highwater.event_counter c LEFT JOIN highwater.epoch e ON e.seq = c.seq`;

/**
 * $1 milliseconds since 1970, $2 limit. The counter is locked: no other service records one of them
 * anew meanwhile.
 */
const EXPIRE = `WITH dropped AS (
  DELETE FROM highwater.event WHERE (event.seq, event.n) IN (
    SELECT old.seq, old.n FROM highwater.event old WHERE old.at < to_timestamp($1::float8 / 1000)
    ORDER BY old.at LIMIT $2)
  RETURNING event.seq, event.n
), newest AS (
  SELECT dropped.seq, dropped.n FROM dropped ORDER BY dropped.seq DESC, dropped.n DESC LIMIT 1
), noted AS (
  UPDATE highwater.event_counter c SET expired_seq = newest.seq, expired_n = newest.n FROM newest
  WHERE (newest.seq, newest.n) > (c.expired_seq, c.expired_n)
)
SELECT count(*)::int AS dropped FROM dropped`;

const CURRENT = `SELECT ${EPOCH_SEQ}::text AS seq`;

/** So many rows go at a time: who records waits for them. */
const EXPIRE_BATCH = 2_000;
/** Recordings may have to wait for each other: they get this many times the usual limit. */
const SLOW_CALLS = 10;

export interface PostgresEventsOptions extends NodeChannelsOptions {
  /**
   * Runs inside the recording transaction, with what it has inserted or revised, in the order of
   * the places; not without any.
   */
  readonly onRecorded?: (client: ClientBase, fresh: readonly FreshEvent[]) => Promise<void>;
}

export class PostgresEvents implements EventStore {
  readonly #recording: NodeChannels;
  readonly #reading: NodeChannels;
  readonly #onRecorded: PostgresEventsOptions["onRecorded"];
  readonly #clock: Clock;

  constructor(options: PostgresEventsOptions) {
    this.#onRecorded = options.onRecorded;
    this.#clock = options.clock;
    const channels = (purpose: string, callTimeoutMs: number): NodeChannels =>
      new NodeChannels({ ...options, callTimeoutMs }, purpose, {
        // A plan that was made while the table was small would read all of it for each page.
        plan_cache_mode: "force_custom_plan",
        // A recorder whose host has died must not hold the counter: the server ends its
        // transaction.
        idle_in_transaction_session_timeout: String(callTimeoutMs),
      });
    this.#recording = channels("record", SLOW_CALLS * options.callTimeoutMs);
    this.#reading = channels("events", options.callTimeoutMs);
  }

  async record(node: string, epoch: EpochId, events: readonly NewEvent[]): Promise<Recording> {
    if (events.length > MAX_EVENTS_PER_RECORDING)
      throw new RangeError(`at most ${String(MAX_EVENTS_PER_RECORDING)} events are recorded at a time`);
    const byKey = bestOfKeys(events);
    const nowMs = this.#clock.wallMs();
    return this.#recording.of(node).run(async (client) => {
      const { recorded, fresh } = await locked(client, { epoch, nowMs }, (from) =>
        this.#record(client, from, byKey),
      );
      const { end, epoch: now } = await readLogEnd(client);
      if (now === null) throw epochChanged("The node has no epoch.");
      return {
        events: events.map(({ key }) => recorded.get(key) ?? missing(key)),
        fresh,
        epoch: now,
        asOf: end,
      };
    });
  }

  async #record(client: ClientBase, from: Start, byKey: ReadonlyMap<string, NewEvent>): Promise<Recorded> {
    const { rows } = await client.query<EventRow>({
      name: "known",
      text: KNOWN,
      values: [[...byKey.keys()]],
    });
    const known = rows.map(recordedEvent);
    const recorded = new Map(known.map((event) => [event.key, event]));
    const unknown = [...byKey.values()].filter(({ key }) => !recorded.has(key));
    const inserted = await insert(client, from, unknown);
    for (const event of inserted) recorded.set(event.key, event);
    const enriched: FreshEvent[] = [...inserted];
    const behind = { ...from, n: from.n + inserted.length };
    let fresh = inserted.length;
    for (const event of await improve(client, behind, { known, byKey })) {
      const replaced = recorded.get(event.key) ?? missing(event.key);
      if (comparePositions(event, replaced) !== 0) fresh++;
      enriched.push({ ...event, replaced });
      recorded.set(event.key, event);
    }
    if (enriched.length > 0) await this.#onRecorded?.(client, enriched.sort(comparePositions));
    return { recorded, fresh };
  }

  async read(node: string, epoch: EpochId, filter: EventFilter): Promise<readonly RecordedEvent[]> {
    const { after, owner, types, limit } = filter;
    return this.#reading.of(node).run(async (client) => {
      const whose = owner === null ? null : String(owner);
      const [{ rows }] = await Promise.all([
        client.query<EventRow>({
          name: "read-events",
          text: READ,
          values: [after.seq, after.n, whose, types, limit],
        }),
        assertEpoch(client, epoch),
      ]);
      return rows.map(recordedEvent);
    });
  }

  async extent(node: string, epoch: EpochId): Promise<EventExtent> {
    return this.#reading.of(node).run(async (client) => {
      const [{ rows }] = await Promise.all([
        client.query<ExtentRow>({ name: "extent", text: EXTENT }),
        assertEpoch(client, epoch),
      ]);
      const [row] = rows;
      if (row === undefined) return { end: FIRST_POSITION, expiredTo: FIRST_POSITION };
      return {
        end: { epoch: row.epoch, seq: Number(row.seq), n: Number(row.n) },
        expiredTo: { seq: Number(row.expired_seq), n: Number(row.expired_n) },
      };
    });
  }

  async expire(node: string, epoch: EpochId, beforeMs: number): Promise<number> {
    const nowMs = this.#clock.wallMs();
    return this.#recording.of(node).run((client) =>
      locked(client, { epoch, nowMs }, async () => {
        const { rows } = await client.query<{ dropped: number }>(EXPIRE, [beforeMs, EXPIRE_BATCH]);
        return rows[0]?.dropped ?? 0;
      }),
    );
  }

  close(): void {
    this.#recording.close();
    this.#reading.close();
  }
}

/** Where a recording begins: behind the last number. */
interface Start {
  readonly epoch: EpochId;
  readonly seq: number;
  readonly n: number;
  readonly atMs: number;
}

interface Counter {
  readonly seq: string;
  readonly n: string;
}

interface ExtentRow extends Counter {
  readonly epoch: EpochId;
  readonly expired_seq: string;
  readonly expired_n: string;
}

interface EventRow extends Counter {
  readonly epoch: EpochId;
  readonly key: string;
  readonly type: DurabilityEventType;
  readonly owner: string | null;
  readonly at_ms: number;
  readonly data: string;
}

interface Recorded {
  readonly recorded: ReadonlyMap<string, RecordedEvent>;
  readonly fresh: number;
}

/** Of keys that are not recorded yet. */
async function insert(
  client: ClientBase,
  { epoch, seq, n, atMs }: Start,
  events: readonly NewEvent[],
): Promise<RecordedEvent[]> {
  if (events.length === 0) return [];
  const values = [
    seq,
    n,
    events.map(({ key }) => key),
    events.map(({ type }) => type),
    events.map(({ owner }) => (owner === null ? null : String(owner))),
    events.map(({ data }) => asciiJson(data)),
    atMs,
  ];
  await Promise.all([
    client.query({ name: "record-events", text: INSERT, values }),
    client.query({ name: "count-events", text: COUNT, values: [n + events.length] }),
  ]);
  return events.map((event, at) => ({ ...event, epoch, seq, n: n + at + 1, atMs }));
}

/** Replaces those of the known events that have more to say now. */
async function improve(
  client: ClientBase,
  from: Start,
  {
    known,
    byKey,
  }: { readonly known: readonly RecordedEvent[]; readonly byKey: ReadonlyMap<string, NewEvent> },
): Promise<RecordedEvent[]> {
  const better = known.map((old) => {
    const event = byKey.get(old.key) ?? missing(old.key);
    return { event, what: whatIsBetter(old, event) };
  });
  const owned = better.filter(({ what }) => what === "owner").map(({ event }) => event);
  const enriched = better.filter(({ what }) => what === "data").map(({ event }) => event);
  const improved: RecordedEvent[] = [];
  if (owned.length > 0) {
    await client.query(REMOVE, [owned.map(({ key }) => key)]);
    improved.push(...(await insert(client, from, owned)));
  }
  if (enriched.length > 0) {
    const values = [enriched.map(({ key }) => key), enriched.map(({ data }) => asciiJson(data))];
    improved.push(...(await client.query<EventRow>(REVISE, values)).rows.map(recordedEvent));
  }
  return improved;
}

/**
 * In a transaction of the epoch, holding the counter. A failure ends the connection, and with it
 * the transaction.
 */
async function locked<T>(
  client: ClientBase,
  { epoch, nowMs }: { readonly epoch: EpochId; readonly nowMs: number },
  work: (from: Start) => Promise<T>,
): Promise<T> {
  try {
    const [, { rows }] = await Promise.all([
      client.query("BEGIN ISOLATION LEVEL READ COMMITTED"),
      client.query<Counter & { readonly at_ms: number }>({
        name: "lock-counter",
        text: LOCK_COUNTER,
        values: [epoch, nowMs],
      }),
    ]);
    const [row] = rows;
    if (row === undefined) throw epochChanged("A later epoch has recorded events.");
    const from = { epoch, seq: Number(row.seq), n: Number(row.n), atMs: Math.floor(row.at_ms) };
    const result = await work(from);
    await client.query("COMMIT");
    return result;
  } catch (cause) {
    const { code, table } = cause as { code?: string; table?: string };
    if (code === "23502" && table === "event_counter") throw epochChanged(undefined, cause);
    throw cause;
  }
}

/** Asked behind what was read, in the same server process: then it was in the epoch all along. */
async function assertEpoch(client: ClientBase, epoch: EpochId): Promise<void> {
  const { rows } = await client.query<{ seq: string | null }>({
    name: "current",
    text: CURRENT,
    values: [epoch],
  });
  if ((rows[0]?.seq ?? null) === null) throw epochChanged("The node is in another epoch.");
}

function epochChanged(detail?: string, cause?: unknown): HighwaterError {
  return new HighwaterError("epoch_changed", { detail, retryAfterMs: 100 }, { cause });
}

function missing(key: string): never {
  throw new Error(`event ${key} was neither recorded nor found`);
}

/**
 * Whatever characters an application uses, and whatever encoding the database has: JSON can be
 * written in ASCII.
 */
function asciiJson(data: Readonly<Record<string, unknown>>): string {
  return JSON.stringify(data).replace(
    /[\u007f-\uffff]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

function recordedEvent(row: EventRow): RecordedEvent {
  return {
    seq: Number(row.seq),
    n: Number(row.n),
    epoch: row.epoch,
    key: row.key,
    type: row.type,
    owner: row.owner === null ? null : BigInt(row.owner),
    atMs: Math.floor(row.at_ms),
    data: JSON.parse(row.data) as RecordedEvent["data"],
  };
}
