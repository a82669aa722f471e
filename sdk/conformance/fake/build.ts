// Answers as the service would write them, from the few words of a scenario; each is checked
// against the protocol's schema, so that no SDK passes on an answer that the service can never
// give. Epochs are numbers here: 1 is the first.
import { randomUUID } from "node:crypto";
import {
  EpochEvent,
  type ErrorEntry,
  ERRORS,
  NO_ID,
  Marks,
  MarksResponse,
  OpenTransactionResponse,
  ProblemBody,
  RollbackResponse,
  TicketEndsResponse,
  TicketsResponse,
  TransactionResponse,
  TransactionStateResponse,
  type TSchema,
  validate,
  VerdictsResponse,
} from "@highwater/protocol";
import { testToken } from "@highwater/service/testing";

export interface FakeResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
}

type Fields = Readonly<Record<string, unknown>>;

export const epochId = (number: number): string =>
  `00000000-0000-4000-8000-${number.toString(16).padStart(12, "0")}`;

/** A UUIDv7 of no particular time: only of a token that a scenario makes up. */
const madeUpId = (): string => randomUUID().replace(/^(.{14})4/, "$17");

export function token(epoch: number, offset: number, id = madeUpId()): string {
  const kind = id === NO_ID ? "position" : "write";
  return testToken({ kind, id, epoch: epochId(epoch), offset: BigInt(offset) });
}

function checked(
  schema: TSchema,
  status: number,
  body: unknown,
  headers: FakeResponse["headers"] = {},
): FakeResponse {
  const result = validate(schema, body);
  if (!result.ok) throw new Error(`the service would never answer this: ${result.faults.join("; ")}`);
  return { status, headers: { "content-type": "application/json", ...headers }, text: JSON.stringify(body) };
}

function marksOf(script: unknown): Marks | null {
  if (script === undefined || script === null) return null;
  const { epoch, levels } = script as { epoch: number; levels: Record<string, number> };
  const texts = Object.entries(levels).map(([level, offset]) => [level, String(offset)] as const);
  return { epoch: epochId(epoch), seq: epoch, levels: Object.fromEntries(texts) };
}

export function marksBody(script: unknown): string {
  return checked(Marks, 200, marksOf(script)).text;
}

export function epochsBody(epochs: readonly Fields[]): string {
  return checked(EpochEvent, 200, { epochs: epochs.map(record) }).text;
}

function record({ id, previous, fork, start }: Fields): unknown {
  return {
    id: epochId(Number(id)),
    seq: Number(id),
    node: "east",
    startedAt: "2026-01-01T00:00:00Z",
    previous: previous === undefined ? null : epochId(Number(previous)),
    cause: previous === undefined ? "first" : "promotion",
    startOffset: String((start as number | undefined) ?? 1),
    forkOffset: String((fork as number | undefined) ?? 0),
    forkLimit: null,
    supersedes: [],
    commanded: false,
    finalMarks: {},
  };
}

/** Rows of one statement: a list of objects of text. */
function resultOf(rows: readonly Readonly<Record<string, string | null>>[], truncated: boolean): unknown {
  const TEXT = 25;
  const names = Object.keys(rows[0] ?? {});
  return {
    command: "SELECT",
    rowCount: rows.length,
    fields: names.map((name) => ({ name, oid: TEXT })),
    rows: rows.map((row) => names.map((name) => row[name] ?? null)),
    ...(truncated ? { truncated: true } : {}),
  };
}

/** What a commit answers. Words: epoch, offset, rows, truncated, marks; the rest as on the wire. */
export function committed(id: string, script: Fields): FakeResponse {
  const { epoch = 1, offset = 10, rows, truncated, marks, status = 200, ...rest } = script;
  const position = { epoch: epochId(Number(epoch)), offset: String(Number(offset)) };
  const isReplay = rest["replayed"] === true;
  const results = rows === undefined ? [] : [resultOf(rows as Record<string, string>[], truncated === true)];
  return checked(TransactionResponse, Number(status), {
    id,
    state: "committed",
    token: token(Number(epoch), Number(offset), id),
    position,
    results: isReplay ? null : results,
    marks: marksOf(marks),
    announced: true,
    ...rest,
  });
}

/** What became of an id. A committed one has a token. */
export function stateOf(id: string, script: Fields): FakeResponse {
  const { epoch = 1, offset = 10, marks, state = "unknown", ...rest } = script;
  const isThere = ["committed", "pending", "durable"].includes(String(state));
  const where = {
    token: token(Number(epoch), Number(offset), id),
    position: { epoch: epochId(Number(epoch)), offset: String(Number(offset)) },
  };
  const body = { id, state, ...(isThere ? where : {}), marks: marksOf(marks), ...rest };
  return checked(TransactionStateResponse, 200, body);
}

/** What SQLAlchemy asks when it connects. */
const ASKS_VERSION = /\bversion\(\)/;

/** An open transaction; each statement gives one row with its text. */
export function opened(
  call: { id: string; seq: number; statements: readonly { sql: string }[] },
  { marks, ...rest }: Fields,
): FakeResponse {
  const body = {
    id: call.id,
    state: "active",
    seq: call.seq,
    expiresAt: "2030-01-01T00:00:00.000Z",
    marks: marksOf(marks),
    results: call.statements.map(({ sql }) =>
      resultOf([{ sql: ASKS_VERSION.test(sql) ? "PostgreSQL 18.0" : sql }], false),
    ),
    ...rest,
  };
  return checked(OpenTransactionResponse, 200, body);
}

export function rolledBack(id: string): FakeResponse {
  return checked(RollbackResponse, 200, { id, state: "aborted" });
}

export function ticketOf(id: string): FakeResponse {
  const ticket = { id, tag: id, epoch: epochId(1), digest: "7", lifeMs: 60_000, ticket: `ticket of ${id}` };
  return checked(TicketsResponse, 200, { answers: [{ status: 200, body: ticket }] });
}

/** The end of a ticket, as the problem says. */
export function endOf({ status, text }: FakeResponse): FakeResponse {
  return checked(TicketEndsResponse, 200, { answers: [{ status, body: JSON.parse(text) as unknown }] });
}

/**
 * Verdicts of tokens. Words: `each` is the verdict of all, or the words of it; `byOffset` of those
 * at an offset; `refuse` lists offsets that belong to somebody else; `leaveOut` those that get no
 * answer.
 */
export function verdictsOf(
  request: { tokens: readonly string[]; level: string },
  script: Fields,
  decode: (token: string) => { id: string; epoch: string; offset: bigint },
): FakeResponse {
  const { each = "pending", byOffset = {}, refuse = [], leaveOut = [], marks, blind } = script;
  const verdicts = request.tokens.flatMap((text): unknown[] => {
    const at = decode(text);
    const offset = Number(at.offset);
    if ((leaveOut as number[]).includes(offset)) return [];
    if ((refuse as number[]).includes(offset)) {
      const error = { code: "forbidden", detail: "The token belongs to another owner." };
      return [{ token: text, verdict: "unknown", level: request.level, rule: "refused", error }];
    }
    const found = (byOffset as Fields)[String(offset)] ?? each;
    const own = (typeof found === "string" ? { verdict: found } : found) as Fields;
    const { epoch, offset: carriedTo, retriedIn, ...rest } = own;
    const position = {
      epoch: epoch === undefined ? at.epoch : epochId(Number(epoch)),
      offset: String((carriedTo as number | undefined) ?? offset),
    };
    const retried = retriedIn === undefined ? {} : { retriedIn: epochId(Number(retriedIn)) };
    return [{ token: text, id: at.id, level: request.level, rule: "fake", position, ...retried, ...rest }];
  });
  return checked(VerdictsResponse, 200, {
    verdicts,
    marks: marksOf(marks),
    ...(blind === true ? { blind } : {}),
  });
}

export function marksAnswer(script: Fields): FakeResponse {
  const { marks, epochs = [] } = script;
  const body = {
    marks: marksOf(marks),
    levels: ["disk", "region", "global"],
    epochs: (epochs as Fields[]).map(record),
  };
  return checked(MarksResponse, 200, body);
}

/** A problem of the catalogue. `retryAfter` becomes the header, as it is: seconds or a date. */
export function problem(script: Fields): FakeResponse {
  const { problem: code, retryAfter, ...extra } = script as Fields & { retryAfter?: string | number };
  const entry = (ERRORS as Readonly<Record<string, ErrorEntry>>)[String(code)];
  if (entry === undefined) throw new Error(`there is no code ${String(code)}`);
  const { status, title, outcome, retry } = entry;
  const body = { type: `/errors/${String(code)}`, title, status, code, outcome, retry, ...extra };
  return checked(ProblemBody, status, body, {
    "content-type": "application/problem+json",
    ...(retryAfter === undefined ? {} : { "retry-after": String(retryAfter) }),
  });
}
