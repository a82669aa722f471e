// Parses a request for events. Pure; reports every fault at once.
import {
  DURABILITY_EVENT_TYPES,
  type DurabilityEventType,
  EVENT_LIMITS,
  HighwaterError,
  LIMITS,
  LISTED_EVENT_TYPES,
} from "@highwater/protocol";
import { type DurableFilter } from "./feed.ts";
import { type Cursor, FIRST_CURSOR, parseCursor } from "./wire.ts";

export interface EventsQuery {
  readonly format: "stream" | "page";
  /** Null: from now on. */
  readonly after: Cursor | null;
  readonly types: readonly DurabilityEventType[];
  readonly durable: DurableFilter | null;
  /** Of a page. */
  readonly limit: number;
}

export interface EventsRequest {
  /** As fastify reads it: a name that comes more than once has a list. */
  readonly query: Readonly<Record<string, string | readonly string[]>>;
  readonly lastEventId: string | undefined;
  readonly accept: string | undefined;
  /** Names of the levels that are configured now, weakest first. */
  readonly levels: readonly string[];
}

const METADATA = "metadata.";

/** Errors: HighwaterError `invalid_request`, `unknown_level`. */
export function readEventsQuery({ query, lastEventId, accept, levels }: EventsRequest): EventsQuery {
  const faults: string[] = [];
  const given = new Map(Object.entries(query).map(([name, value]) => [name, [value].flat()]));
  const one = (name: string): string | undefined => {
    const values = given.get(name) ?? [];
    if (values.length > 1) faults.push(`${name} must be given once`);
    return values[0];
  };
  for (const name of given.keys())
    if (!KNOWN.has(name) && !name.startsWith(METADATA)) faults.push(`${name} is not a known parameter`);
  const format = readFormat(one("format"), accept, faults);
  const asked = readAfter(lastEventId, one("after"), faults);
  const types = readTypes(given.get("types") ?? [], faults);
  const durable = readDurable({ durable: one("durable"), level: one("level"), given, levels }, faults);
  const limit = readLimit(one("limit"), faults);
  if (format === "page" && durable !== null) faults.push("durable=true needs format=stream");
  if (faults.length > 0)
    throw new HighwaterError("invalid_request", { detail: faults.join("; "), fields: faults });
  // A page looks back, a stream looks ahead.
  return { format, after: asked ?? (format === "page" ? FIRST_CURSOR : null), types, durable, limit };
}

const KNOWN = new Set(["format", "after", "types", "durable", "level", "limit"]);

function readFormat(
  format: string | undefined,
  accept: string | undefined,
  faults: string[],
): EventsQuery["format"] {
  if (format !== undefined && format !== "json" && format !== "stream")
    faults.push("format must be json or stream");
  if (format !== undefined) return format === "json" ? "page" : "stream";
  const wanted = accept ?? "";
  return wanted.includes("application/json") && !wanted.includes("text/event-stream") ? "page" : "stream";
}

/** A client that has come back says so in the header, whatever address it was given at first. */
function readAfter(
  lastEventId: string | undefined,
  after: string | undefined,
  faults: string[],
): Cursor | null {
  const [name, text] =
    lastEventId === undefined || lastEventId === "" ? ["after", after] : ["Last-Event-ID", lastEventId];
  if (text === undefined) return null;
  const cursor = parseCursor(text);
  if (cursor === null) faults.push(`${name} must be the id of an event, a cursor, or 0.0`);
  return cursor;
}

function readTypes(values: readonly string[], faults: string[]): readonly DurabilityEventType[] {
  const names = values.flatMap((value) => value.split(","));
  if (names.length === 0) return LISTED_EVENT_TYPES;
  const types = names.flatMap((name) => LISTED_EVENT_TYPES.filter((type) => type === name));
  for (const name of names) {
    if (LISTED_EVENT_TYPES.some((type) => type === name)) continue;
    if (DURABILITY_EVENT_TYPES.some((type) => type === name))
      faults.push(`types: for ${name} use durable=true`);
    else faults.push(`types must be some of ${LISTED_EVENT_TYPES.join(", ")}`);
  }
  return [...new Set(types)];
}

function readDurable(
  asked: {
    durable: string | undefined;
    level: string | undefined;
    given: ReadonlyMap<string, readonly string[]>;
    levels: readonly string[];
  },
  faults: string[],
): DurableFilter | null {
  const { durable, level, given, levels } = asked;
  if (durable !== undefined && durable !== "true" && durable !== "false")
    faults.push("durable must be true or false");
  const metadata = new Map<string, string>();
  for (const [name, values] of given) {
    if (!name.startsWith(METADATA)) continue;
    const [value = "", ...more] = values;
    if (more.length > 0) faults.push(`${name} must be given once`);
    if (value.length > LIMITS.metadataChars)
      faults.push(`${name} must have at most ${String(LIMITS.metadataChars)} characters`);
    metadata.set(name.slice(METADATA.length), value);
  }
  if (metadata.size > EVENT_LIMITS.metadataFilters)
    faults.push(`at most ${String(EVENT_LIMITS.metadataFilters)} metadata filters are allowed`);
  if (durable !== "true") {
    if (level !== undefined) faults.push("level needs durable=true");
    if (metadata.size > 0) faults.push("metadata needs durable=true");
    return null;
  }
  const wanted = level ?? (levels.includes("region") ? "region" : (levels.at(-1) ?? ""));
  if (!levels.includes(wanted))
    throw new HighwaterError("unknown_level", {
      detail: `Level ${wanted} is not configured; use one of ${levels.join(", ")}.`,
    });
  return { level: wanted, metadata: Object.fromEntries(metadata) };
}

function readLimit(text: string | undefined, faults: string[]): number {
  if (text === undefined) return EVENT_LIMITS.defaultPageEvents;
  const limit = Number(text);
  if (!/^[0-9]{1,6}$/.test(text) || limit < 1 || limit > EVENT_LIMITS.pageEvents)
    faults.push(`limit must be a number from 1 to ${String(EVENT_LIMITS.pageEvents)}`);
  return limit;
}
