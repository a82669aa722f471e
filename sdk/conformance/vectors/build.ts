// What every SDK must make of the same data, as the protocol and the TypeScript SDK make it of it:
// tokens, errors, decisions, events of a stream, parameters. Written to the JSON files of this
// folder by `write.ts`.
import {
  decodeToken as known,
  type EpochId,
  type ErrorCode,
  ERRORS,
  HighwaterError as ServiceError,
  NO_ID,
} from "@highwater/protocol";
import { type HighwaterError, type TransactionState } from "@highwater/sdk";
import { testToken } from "@highwater/service/testing";
import {
  answerError,
  decide,
  decodeToken,
  DEFAULT_TUNING,
  resolve,
  retryAfter,
  type Situation,
  sseParser,
  toParam,
} from "@highwater/sdk/internals";

const ID = "0198c0de-0000-7000-8000-000000000001";
const PARENT = "0198c0de-0000-4000-8000-00000000000a";
const [E1, E2] = ["00000000-0000-4000-8000-000000000001", "ffffffff-ffff-4fff-bfff-ffffffffffff"] as const;

const OFFSET_AT = 66;
const MAC = Buffer.alloc(16, 170);

/** Tokens of every kind that the service writes, and texts that are nearly one. */
function tokens(): unknown {
  const offsets = [0n, 1n, 255n, 256n, 10n ** 29n + 7n, 10n ** 64n - 1n];
  const valid = offsets.flatMap((offset, n) =>
    [E1, E2].map((epoch) => {
      const attempt = n % 2 === 0 ? epoch : epoch === E1 ? E2 : E1;
      const owner = [0n, 1n, 2n ** 64n, 2n ** 127n - 1n][n % 4] ?? 0n;
      const token = testToken({
        kind: n % 3 === 0 ? ("read" as const) : ("write" as const),
        id: ID,
        owner,
        epoch,
        offset,
        attempt: attempt as EpochId,
        parent: n % 2 === 0 ? null : (PARENT as EpochId),
      });
      return { token, ...decodeToken(token) };
    }),
  );
  const withoutId = testToken({ kind: "position", id: NO_ID, epoch: E1, offset: 256n, owner: 1n });
  valid.push({ token: withoutId, ...decodeToken(withoutId) });
  const first = valid[0]?.token ?? "";
  const bytes = Buffer.from(first.slice(4), "base64url");
  const spelled = (change: (copy: Buffer) => Buffer): string =>
    `hw2_${change(Buffer.from(bytes)).toString("base64url")}`;
  const nearly = [
    ...["", "hw2_", first.slice(4), `${first}=`, `${first} `, `hw1_${first.slice(4)}`, first.slice(0, 40)],
    // A byte after the end makes the offset one with a leading zero.
    spelled((copy) => Buffer.concat([copy, Buffer.from([0])])),
    spelled((copy) => copy.subarray(0, OFFSET_AT)),
    spelled((copy) => copy.subarray(0, OFFSET_AT + MAC.length)),
    // Flags that do not go together, and those that no service knows.
    ...[5, 6, 7, 8, 16].map((flags) => spelled((copy) => copy.fill(flags, 0, 1))),
    spelled((copy) =>
      Buffer.concat([
        copy.fill(2, 0, 1).subarray(0, OFFSET_AT),
        copy.subarray(18, 34),
        Buffer.from([1]),
        MAC,
      ]),
    ),
    ...[Buffer.alloc(27, 255), Buffer.alloc(28, 1), Buffer.from([0, 1])].map((offset) =>
      spelled((copy) => Buffer.concat([copy.subarray(0, OFFSET_AT), offset, MAC])),
    ),
  ];
  return { valid, invalid: nearly.filter((token) => known(token) === undefined) };
}

const situation = (overrides: Partial<Situation> = {}): Situation => ({
  attempt: 0,
  remainingMs: 30_000,
  uncertain: false,
  elsewhere: false,
  random: 0.5,
  ...overrides,
});

const shown = (error: HighwaterError): unknown => {
  const { name, code, outcome, retry, retryAfterMs = null } = error;
  return { name, code, outcome, retry, retryAfterMs };
};

/**
 * Every error of the catalogue, and answers that no service gave: the error, and what a client does
 * next.
 */
function errors(): unknown {
  const answers: [number, unknown, number?][] = (Object.keys(ERRORS) as ErrorCode[]).map((code) => [
    ERRORS[code].status,
    new ServiceError(code, { retryAfterMs: 40 }).toProblem(),
  ]);
  const future = { title: "x", type: "x", status: 503, outcome: "not_applied", retry: "wait" };
  answers.push(
    [408, "<html>"],
    [502, "<html>"],
    [429, null, 3_000],
    [401, {}],
    [204, null],
    [503, { ...future, code: "tea_break" }],
  );
  for (const retry of ["never", "transaction", "resolve_outcome", "later"])
    answers.push([503, { ...future, code: "constructor", retry }]);
  return answers.map(([status, body, retryAfterMs]) => {
    const error = answerError(status, body, retryAfterMs);
    const decided = (overrides: Partial<Situation>): unknown =>
      decide(error, situation(overrides), DEFAULT_TUNING);
    return {
      status,
      body,
      retryAfterMs: retryAfterMs ?? null,
      error: shown(error),
      certain: decided({}),
      uncertain: decided({ uncertain: true }),
      repeatable: decided({ repeatable: true }),
      elsewhere: decided({ elsewhere: true }),
      late: decided({ attempt: 7, remainingMs: 2_000, random: 1 }),
    };
  });
}

/**
 * What the state of an id means for an attempt whose outcome is unknown, and for one that failed
 * for certain.
 */
function resolutions(): unknown {
  const states: TransactionState[] = [
    ...([
      "active",
      "committed",
      "pending",
      "durable",
      "lost",
      "aborted",
      "broken",
      "expired",
      "unknown",
    ] as const),
  ];
  const failure = (code: ErrorCode): HighwaterError =>
    answerError(ERRORS[code].status, new ServiceError(code).toProblem(), undefined);
  const held = [undefined, "constraint_violation", "serialization_failure"] as const;
  return states.flatMap((state) =>
    [true, false].flatMap((hasPosition) =>
      held.map((code) => {
        const located = hasPosition ? { token: "t", position: { epoch: E1, offset: "5" } } : {};
        const status = { id: ID, state, marks: null, ...located };
        const resolution = resolve(status, code === undefined ? undefined : failure(code));
        const [action, error] =
          typeof resolution === "string" ? [resolution, null] : ["throw", shown(resolution)];
        return { status, held: code ?? null, action, error };
      }),
    ),
  );
}

function retryAfters(): unknown {
  const date = "Thu, 01 Jan 1970 00:00:10 GMT";
  const cases: [string | null, number][] = [
    ["2", 0],
    [" 3 ", 0],
    [date, 4_000],
    [date, 40_000],
    ["soon", 0],
    [null, 0],
  ];
  return cases.map(([header, wallMs]) => ({ header, wallMs, ms: retryAfter(header, wallMs) ?? null }));
}

/** Streams as texts, to be cut at any byte, and the events in them. */
function events(): unknown {
  const texts = [
    "id: 1.2\nevent: mark\ndata: {}\n\n",
    "id: 1.2\r\nevent: mark\r\ndata: {\r\ndata: }\r\n\r\n",
    "event: a\ndata: ä𝄞\n\r\n\ndata:x\n\n",
    ": alive\n\nid: 7\ndata\n\nfuture: 1\n\ndata: y\n\ndata: never finished",
    "\uFEFFdata: after a byte order mark\n\n",
    "id: a\0b\ndata: 1\n\nid\ndata: 2\n\nretry: 5\ndata:  two spaces\n\n",
    "data: no \u2028 end of a line, nor \u000b nor \u0085\n\n",
  ];
  return texts.map((text) => {
    const parse = sseParser("resumed");
    const lines = text.replace(/^\uFEFF/, "").split(/\r?\n/);
    return { text, events: lines.slice(0, -1).flatMap((line) => parse(line) ?? []) };
  });
}

/** Values that every language has, and the parameter that each of them is. */
function params(): unknown {
  const values: unknown[] = [
    ...["x", "", 'b"c', "d\\e", "NULL", "ä𝄞", true, false, null, 0, -1, 1.5, 1e300, 2 ** 53 - 1],
    ...[
      [],
      [1, null, true],
      ["a", 'b"c', "d\\e", "", "NULL", "{}", ","],
      [["a"], ["b"]],
      [[], []],
      [{ a: 1 }],
    ],
    ...[{}, { a: 1, b: [null, "x", { c: true }] }, { ä: "𝄞\n" }],
  ];
  return values.map((value) => ({ value, param: toParam(value, 1) }));
}

export const VECTORS: Readonly<Record<string, () => unknown>> = {
  "tokens.json": tokens,
  "errors.json": errors,
  "resolutions.json": resolutions,
  "retry-after.json": retryAfters,
  "events.json": events,
  "params.json": params,
};
