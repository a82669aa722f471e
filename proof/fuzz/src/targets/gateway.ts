// A gateway's input: transactions in its own format and in Neon's, the SQL that it looks at, and
// its trackers' answers.
import assert from "node:assert/strict";
import { Readable } from "node:stream";
import {
  EpochEvent,
  ExposureReport,
  makeUuidV7,
  Marks,
  parseOffset,
  type StatementResult,
  type TransactionResponse,
  validate,
} from "@highwater/protocol";
import { FakeClock } from "@highwater/runtime/testing";
import { MemoryLog, testDeploymentKeys } from "@highwater/service/testing";
import { changesRows, changesSession, leadingWords, refusal } from "@highwater/store/internals";
import {
  acceptBegin,
  acceptCommit,
  type Accepted,
  acceptRequest,
  acceptRollback,
  acceptStatements,
  decoderOf,
  KNOWN_ARRAYS,
  neonAnswer,
  paramText,
  parseArray,
  parseExactly,
  readRequest,
  readSse,
  TrackerOrder,
  TrackerStream,
  Verdicts,
} from "@highwater/txn-gateway/internals";
import { cut, jsonOf, orRefused } from "../holds.ts";
import { seedOf } from "../random.ts";
import { EPOCH, fixtures, ID, TOKEN, TOKENS } from "../samples.ts";
import { pure, type Target } from "../target.ts";

const RULES = { levels: ["disk", "region", "global"], maxWaitMs: 1_000, tokens: testDeploymentKeys() };

const requests = pure({
  name: "requests",
  about: "the body of a transaction or of one of its calls is accepted as the rules have it, or refused",
  seeds: [
    ...fixtures(/^transaction-request/),
    JSON.stringify({
      id: ID,
      statements: [{ sql: "SELECT $1", params: [1, null, true, "x"] }],
      ack: "durable",
    }),
    JSON.stringify({
      id: ID,
      statements: [{ sql: "SELECT 1" }],
      readOnly: true,
      after: TOKEN,
      mode: "local",
    }),
    JSON.stringify({
      id: ID,
      isolation: "serializable",
      readOnly: true,
      deferrable: true,
      metadata: { a: "b" },
    }),
    JSON.stringify({ seq: 1, statements: [{ sql: "SELECT 1" }] }),
    JSON.stringify({ seq: 2, level: "region", maxWaitMs: 10, maxDelayMs: 500 }),
  ],
  words: [
    "id",
    "statements",
    "sql",
    "params",
    "ack",
    "durable",
    "after",
    "mode",
    "metadata",
    "seq",
    ...TOKENS,
  ],
  sliceRuns: 1_500,
  run: (input) => {
    const body = jsonOf(input);
    if (body === undefined) return;
    const accepted = orRefused(() => acceptRequest(body, RULES));
    if (accepted !== null) assertAccepted(accepted);
    orRefused(() => acceptBegin(body));
    orRefused(() => acceptStatements(body));
    orRefused(() => acceptCommit(body, RULES));
    orRefused(() => acceptRollback(body));
  },
});

/** Properties of an accepted request on which the rest of the gateway relies. */
function assertAccepted({ statements, level, maxWaitMs, metadata, placement }: Accepted): void {
  assert.ok(RULES.levels.includes(level) && maxWaitMs >= 0);
  for (const { sql, params = [] } of statements) {
    assert.ok(!sql.includes("\0") && sql.isWellFormed(), "PostgreSQL would get another text");
    for (const param of params) if (typeof param === "string") assert.ok(param.isWellFormed());
  }
  for (const [name, value] of Object.entries(metadata ?? {}))
    assert.ok(name !== "" && typeof value === "string");
  if (placement?.after) assert.ok(parseOffset(String(placement.after.offset)) !== undefined);
}

const neonRules = { rules: RULES, newId: () => makeUuidV7(1_700_000_000_000, new Uint8Array(10)) };

const neonRequests = pure({
  name: "neon-requests",
  about: "a body and headers of the Neon wire become a transaction, or are refused",
  seeds: [
    `neon-array-mode: true\nhighwater-ack: durable\n\n${JSON.stringify({ query: "SELECT $1", params: ["1", null, [1, "a"], { b: 2 }] })}`,
    `neon-batch-isolation-level: Serializable\nneon-batch-read-only: true\nneon-batch-deferrable: true\n\n${JSON.stringify(
      {
        queries: [
          { query: "SELECT 1", arrayMode: true },
          { query: "SELECT 2", params: [12345678901234567890] },
        ],
      },
    )}`,
    `highwater-level: region\nhighwater-max-wait-ms: 10\nhighwater-read-only: true\nhighwater-transaction-id: ${ID}\n\n{"query":"SELECT 1"}`,
  ],
  words: [
    "query",
    "queries",
    "params",
    "arrayMode",
    "highwater-",
    "neon-",
    ": ",
    "true",
    "ReadCommitted",
    "12345678901234567890",
    "1.10",
  ],
  sliceRuns: 1_500,
  run: (input) => {
    const text = input.toString("utf8");
    const end = text.indexOf("\n\n");
    const headers: Record<string, string> = {};
    for (const line of text.slice(0, Math.max(0, end)).split("\n")) {
      const at = line.indexOf(":");
      // Node passes on names in lower case, and no value with a line break.
      if (at > 0) headers[line.slice(0, at).toLowerCase()] = line.slice(at + 1).trim();
    }
    const body = text.slice(end < 0 ? 0 : end + 2);
    const asked = orRefused(() => readRequest({ headers, body, mayWrite: true }, neonRules));
    if (asked === null) return;
    assertAccepted(asked.accepted);
    assert.equal(asked.shape.formats.length, asked.accepted.statements.length);
  },
});

/** Types of arrays, and of others to which a server's text may be decoded. */
const OIDS = [16, 20, 21, 23, 25, 114, 700, 701, 1700, 3802, 199, 1000, 1007, 1009, 1016, 1021, 1022, 3807];

const neonValues = pure({
  name: "neon-values",
  about:
    "a server's text is decoded, or the answer is an error: JSON that can be written; numbers keep their digits",
  seeds: [
    '{1,NULL,"a,b",{2}}',
    "[0:1]={t,f}",
    '{"a":12345678901234567890.10}',
    "NaN",
    "t",
    "1.5",
    '"\\ud800"',
    "{}",
  ],
  words: ["{", "}", ",", '"', "\\", "NULL", "[1:2]=", "1e400", "12345678901234567890"],
  sliceRuns: 1_000,
  run: (input) => {
    const text = input.toString("utf8");
    for (const oid of OIDS) {
      const decode = decoderOf(oid);
      if (decode === null) continue;
      const mayFail = KNOWN_ARRAYS.has(oid) || oid === 114 || oid === 3802;
      let value: unknown;
      try {
        value = decode(text);
      } catch (cause) {
        if (!mayFail) throw cause;
        continue;
      }
      assert.notEqual(JSON.stringify(value), undefined, `type ${String(oid)} has no JSON`);
    }
    roundTrips(text);
  },
});

function roundTrips(text: string): void {
  let value: unknown;
  try {
    value = parseExactly(text);
  } catch {
    return;
  }
  const written = JSON.stringify(value);
  assert.equal(JSON.stringify(parseExactly(written)), written, "numbers have changed");
  if (!Array.isArray(value) || value.length === 0) return;
  const texts = value.filter((one) => typeof one === "string");
  const literal = paramText(texts);
  assert.deepEqual(
    parseArray(literal ?? "", (one) => one),
    texts,
    "the array has changed",
  );
}

const RESULT: StatementResult = {
  command: "SELECT",
  rowCount: 1,
  rows: [["1", null, "{a,b}"]],
  fields: [
    { name: "a", oid: 23 },
    { name: "__proto__", oid: 114 },
    { name: "c", oid: 1009 },
  ],
};
const RESPONSE: TransactionResponse = {
  id: ID,
  state: "committed",
  token: TOKEN,
  position: { epoch: EPOCH, offset: "1" },
  results: [],
  marks: null,
  announced: true,
};

const neonAnswers = pure({
  name: "neon-answers",
  about: "whatever names, types and texts a result has, an answer of the Neon wire can be made of it",
  seeds: [JSON.stringify(RESULT), JSON.stringify({ ...RESULT, command: "INSERT", rows: [] })],
  words: ["__proto__", "constructor", "23", "114", "1007", "{1}", "t"],
  sliceRuns: 1_000,
  run: (input) => {
    const result = validStatementResult(jsonOf(input));
    if (result === null) return;
    for (const arrayMode of [true, false])
      for (const rawText of [true, false])
        JSON.stringify(neonAnswer(RESPONSE, [result], { isBatch: false, formats: [{ rawText, arrayMode }] }));
  },
});

/** A possible answer of PostgreSQL: as many values as columns. */
function validStatementResult(value: unknown): StatementResult | null {
  const result = value as Partial<StatementResult> | null;
  if (typeof result !== "object" || result === null) return null;
  const { fields, rows, command } = result;
  if (!Array.isArray(fields) || !Array.isArray(rows) || typeof command !== "string") return null;
  const isField = (one: unknown): boolean => {
    const field = one as { name?: unknown; oid?: unknown } | null;
    return typeof field?.name === "string" && Number.isInteger(field.oid);
  };
  const isRow = (row: unknown): boolean =>
    Array.isArray(row) &&
    row.length === fields.length &&
    row.every((one) => one === null || typeof one === "string");
  return fields.every(isField) && rows.every(isRow) ? { command, rowCount: rows.length, fields, rows } : null;
}

const statements = pure({
  name: "statements",
  about: "first words of SQL are found in a time that is linear in the text",
  seeds: [
    "SELECT 1",
    "/* a /* b */ */ -- c\n;; ROLLBACK TO x",
    "SET LOCAL a = 1",
    "WITH x AS (DELETE FROM a) SELECT",
    "\ufeffCOMMIT",
    "PREPARE TRANSACTION 'x'",
  ],
  words: [
    "/*",
    "*/",
    "--",
    "\n",
    ";",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "TO",
    "WORK",
    "$$",
    "'",
    "temp",
    "create ",
    "into ",
  ],
  sliceRuns: 3_000,
  run: (input) => {
    const text = input.toString("utf8");
    const words = leadingWords(text, 3);
    assert.ok(words.every((verdict) => /^[A-Z_][A-Z_0-9$]*$/.test(verdict)));
    changesSession(text);
    changesRows(text);
    const behind = refusal(`/* ${text.replaceAll(/[*/]/g, "x")} */ COMMIT`);
    assert.equal(behind?.keyword, "COMMIT", "a comment hides what follows");
    const repeated = text.slice(0, 200).repeat(200);
    leadingWords(repeated, 3);
    changesSession(repeated);
    changesRows(repeated);
  },
});

const EVENTS = [
  `id: 1.1\nevent: mark\ndata: ${JSON.stringify({ epoch: EPOCH, seq: 1, levels: { disk: "5", region: "4" } })}\n\n`,
  ...fixtures(/^epoch-event/).map(
    (text) => `id: 1.2\r\nevent: epoch\r\ndata: ${JSON.stringify(JSON.parse(text))}\r\n\r\n`,
  ),
  `: alive\n\nevent: exposure\ndata: ${JSON.stringify({ epoch: EPOCH, level: "region", transactions: 1, bytes: "10", oldestMs: 5, byOwner: { "0": { transactions: 1, bytes: "10", oldestMs: 5 } } })}\n\n`,
];

const trackerStream = pure({
  name: "tracker-stream",
  about: "whatever a tracker streams: only events that are as the wire has them are heard, however it is cut",
  seeds: [...EVENTS, EVENTS.join("")],
  words: ["data: ", "event: mark", "event: epoch", "id: ", "\r", "\n\n", ": ", "retry: 0", "\ufeff"],
  sliceRuns: 250,
  run: async (input) => {
    const whole: unknown[] = [];
    const pieces: unknown[] = [];
    const read = async (chunks: Buffer[], into: unknown[]): Promise<void> => {
      for await (const event of readSse(Readable.from(chunks) as AsyncIterable<Uint8Array>)) into.push(event);
    };
    await read([input], whole);
    await read(cut(input, seedOf(input)), pieces);
    assert.deepEqual(pieces, whole, "it matters where the stream is cut");
    const received = await follow(input);
    for (const [schema, value] of received) assert.ok(validate(schema, value).ok);
  },
});

async function follow(
  input: Buffer,
): Promise<[typeof Marks | typeof EpochEvent | typeof ExposureReport, unknown][]> {
  const received: [typeof Marks | typeof EpochEvent | typeof ExposureReport, unknown][] = [];
  const ended = Promise.withResolvers<undefined>();
  const transport = {
    post: () => Promise.reject(new Error("not asked")),
    open: async () => ({ status: 200, chunks: Readable.from([input]) as AsyncIterable<Uint8Array> }),
    close: () => undefined,
  };
  const log = new MemoryLog();
  const warn = log.warn.bind(log);
  log.warn = (event) => {
    warn(event);
    if (event === "tracker_stream_lost") ended.resolve(undefined);
  };
  const stream = new TrackerStream(
    { clock: new FakeClock(), rng: { random: () => 0.5 }, log, transport },
    {
      trackers: new TrackerOrder(new FakeClock(), ["http://tracker"]),
      onEpochs: (epochs) => received.push([EpochEvent, { epochs }]),
      onMarks: (marks) => received.push([Marks, marks]),
      onExposure: (report) => received.push([ExposureReport, report]),
      onContact: () => undefined,
      onAllFailed: () => undefined,
    },
  );
  stream.start();
  await ended.promise;
  stream.stop();
  return received;
}

const trackerVerdicts = pure({
  name: "tracker-verdicts",
  about: "a tracker's verdicts are taken as the wire has them, or the tracker counts as silent",
  seeds: [...fixtures(/^verdicts-response/), "", "{}"],
  words: ["durable", "lost", "pending", "verdicts", TOKEN],
  sliceRuns: 250,
  run: async (input) => {
    const transport = {
      post: async () => ({ status: 200, body: input.toString("utf8") }),
      open: () => Promise.reject(new Error("not asked")),
      close: () => undefined,
    };
    const clock = new FakeClock();
    const trackers = new TrackerOrder(clock, ["http://tracker"]);
    const verdicts = new Verdicts({ clock, transport }, trackers, () => undefined);
    const verdict = await verdicts.ask({ token: TOKEN, level: "region", limitMs: 0 });
    verdicts.stop();
    assert.ok(
      verdict === null || ["pending", "durable", "lost", "broken", "expired", "unknown"].includes(verdict),
    );
  },
});

export const targets: readonly Target[] = [
  ...[requests, neonRequests, neonValues, neonAnswers, statements, trackerStream, trackerVerdicts],
];
