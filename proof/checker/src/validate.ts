// Checks each line against the format (history.ts). Unknown fields are allowed.
import { type HistoryRecord } from "./history.ts";

/** Returns the fault with the path to it, or null. */
type Check = (value: unknown, path: string) => string | null;

const OFFSET = /^(0|[1-9][0-9]{0,99})$/;

function wrong(path: string, expected: string): string {
  return `${path === "" ? "the record" : path} is not ${expected}`;
}

function is(expected: string, test: (value: unknown) => boolean): Check {
  return (value, path) => (test(value) ? null : wrong(path, expected));
}

const text = is("a text that is not empty", (value) => typeof value === "string" && value !== "");
const flag = is("true or false", (value) => typeof value === "boolean");
const time = is("a time in milliseconds", (value) => typeof value === "number" && Number.isFinite(value));
const integer = is("an integer that is exact", Number.isSafeInteger);
const count = is("a whole number", (value) => Number.isSafeInteger(value) && (value as number) >= 0);
const offset = is("an offset as decimal digits", (value) => typeof value === "string" && OFFSET.test(value));

function oneOf(...choices: readonly unknown[]): Check {
  return is(`one of ${choices.join(", ")}`, (value) => choices.includes(value));
}

function nullOr(check: Check): Check {
  return (value, path) => (value === null ? null : check(value, path));
}

function maybe(check: Check): Check {
  return (value, path) => (value === undefined ? null : check(value, path));
}

function listOf(check: Check): Check {
  return (value, path) => {
    if (!Array.isArray(value)) return wrong(path, "a list");
    for (const [at, item] of value.entries()) {
      const fault = check(item, `${path}[${String(at)}]`);
      if (fault !== null) return fault;
    }
    return null;
  };
}

/** Lists of values are long and many, so a path is made only for a wrong element. */
const values: Check = (value, path) => {
  if (!Array.isArray(value)) return wrong(path, "a list");
  const at = value.findIndex((item) => !Number.isSafeInteger(item));
  return at < 0 ? null : wrong(`${path}[${String(at)}]`, "an integer that is exact");
};

function recordOf(check: Check): Check {
  return (value, path) => {
    if (!isObject(value)) return wrong(path, "an object");
    for (const [name, item] of Object.entries(value)) {
      const fault = check(item, `${path}.${name}`);
      if (fault !== null) return fault;
    }
    return null;
  };
}

function object(shape: Readonly<Record<string, Check>>): Check {
  const fields = Object.entries(shape);
  return (value, path) => {
    if (!isObject(value)) return wrong(path, "an object");
    for (const [name, check] of fields) {
      const fault = check(value[name], path === "" ? name : `${path}.${name}`);
      if (fault !== null) return fault;
    }
    return null;
  };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const OPERATIONS: Readonly<Record<string, Check>> = {
  append: object({ key: text, value: integer }),
  readAppend: object({ key: text, value: integer }),
  read: object({ key: text }),
  transfer: object({ from: count, to: count, amount: integer }),
  sum: object({}),
  insert: object({ value: integer }),
  make: object({ key: text, value: integer }),
  add: object({ key: text, value: integer, how: oneOf("shown", "silent", "upsert") }),
  look: object({ key: text }),
};

const operation: Check = (value, path) => {
  const f = isObject(value) ? value.f : undefined;
  const check = typeof f === "string" && Object.hasOwn(OPERATIONS, f) ? OPERATIONS[f] : undefined;
  if (check === undefined) return wrong(`${path}.f`, `one of ${Object.keys(OPERATIONS).join(", ")}`);
  return check(value, path);
};

const shown: Check = (value, path) =>
  value === null || typeof value === "number" ? null : values(value, path);

const position = nullOr(object({ epoch: text, offset }));
const verdict = oneOf("durable", "lost", "broken", "pending", "expired", "unknown", "refused");
const range = { level: text, epoch: text, from: offset, to: offset };
const EVENT = /^[1-9][0-9]*\.[1-9][0-9]*\.[0-9a-f]{8}$/;
const event = is("the id of an event", (value) => typeof value === "string" && EVENT.test(value));
const reports = recordOf(is("a text", (value) => typeof value === "string"));

const RECORDS: Readonly<Record<HistoryRecord["type"], Check>> = {
  scenario: object({
    format: oneOf(1),
    seed: integer,
    levels: listOf(text),
    crashOnly: maybe(listOf(text)),
    bank: object({ accounts: count, balance: integer }),
    retentionMs: maybe(time),
    replays: maybe(oneOf(true)),
  }),
  invocation: object({
    atMs: time,
    client: text,
    owner: maybe(text),
    metadata: maybe(reports),
    session: nullOr(text),
    txn: text,
    rerunOf: nullOr(text),
    ack: oneOf("commit", "durable"),
    level: text,
    readOnly: flag,
    isolation: oneOf("serializable", "snapshot"),
    after: nullOr(text),
    operations: listOf(operation),
    receipt: maybe(oneOf(false)),
    keep: maybe(oneOf(true)),
    redoOf: maybe(text),
  }),
  answer: object({
    atMs: time,
    txn: text,
    outcome: oneOf("committed", "aborted", "lost", "unknown"),
    durableAt: nullOr(text),
    position,
    shown: nullOr(listOf(shown)),
    replayed: flag,
    tokenOf: maybe(text),
    error: nullOr(text),
  }),
  resolution: object({
    atMs: time,
    txn: text,
    outcome: oneOf("committed", "aborted", "lost", "never", "expired", "unresolved"),
    position,
  }),
  report: object({
    atMs: time,
    txn: text,
    level: text,
    verdict,
    by: oneOf("promise", "event", "asked", "final"),
    tracker: nullOr(text),
    attempt: nullOr(text),
    rule: nullOr(text),
    position: maybe(position),
  }),
  broken_range: object({ atMs: time, tracker: text, ...range }),
  subscription: object({ atMs: time, endpoint: text, owner: text, events: listOf(text), filter: reports }),
  delivery: object({
    atMs: time,
    untilMs: time,
    endpoint: text,
    message: text,
    isSigned: flag,
    answer: nullOr(count),
    bytes: count,
    digest: text,
    event: text,
    sequence: nullOr(object({ first: event, last: event })),
    transactions: listOf(object({ event, txn: text, attempt: text, verdicts: recordOf(verdict), position })),
    promises: listOf(object({ event, ...range })),
  }),
  end: object({
    atMs: time,
    txn: text,
    attempt: text,
    outcome: oneOf("replayed", "conflict", "unrecoverable"),
    reason: nullOr(text),
  }),
  fault: object({ atMs: time, untilMs: time, kind: text, target: text, error: nullOr(text) }),
  clock: object({
    atMs: time,
    untilMs: time,
    of: oneOf("database", "service"),
    name: text,
    offMs: time,
  }),
  failure: object({ atMs: time, kind: text, node: text, kept: listOf(text) }),
  final: object({
    atMs: time,
    node: text,
    lists: recordOf(values),
    balances: values,
    inserted: values,
    transfers: listOf(object({ txn: text, from: count, to: count, amount: integer })),
    receipts: listOf(object({ txn: text, kind: oneOf("commit", "aborted", "lost"), epoch: text })),
    rows: maybe(listOf(object({ key: text, count: integer, log: values }))),
    redone: maybe(listOf(object({ root: text, txn: text }))),
    expiry: maybe(object({ expiredBeforeMs: time, readAtMs: time })),
    epochs: listOf(
      object({
        id: text,
        seq: integer,
        previous: nullOr(text),
        node: text,
        inHistory: flag,
        commanded: flag,
      }),
    ),
  }),
};

/** The record, or its fault. */
export function validate(value: unknown): HistoryRecord | string {
  if (!isObject(value)) return wrong("", "an object");
  const { type } = value;
  if (typeof type !== "string" || !Object.hasOwn(RECORDS, type)) {
    return wrong("type", `one of ${Object.keys(RECORDS).join(", ")}`);
  }
  const fault = RECORDS[type as HistoryRecord["type"]](value, "");
  return fault ?? (value as unknown as HistoryRecord);
}
