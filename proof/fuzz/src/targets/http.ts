// The routes of both services over real sockets: almost valid bodies, invalid headers, and bytes
// that are not HTTP.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { type EpochId, makeUuidV7, type TxnId } from "@highwater/protocol";
import { testToken } from "@highwater/service/testing";
import { assertAnswer, type HttpReply, send } from "../http.ts";
import { EPOCH, fixtures, ID, OTHER_EPOCH, SEALED, TOKEN, TOKENS } from "../samples.ts";
import { type Fuzzed, type Target } from "../target.ts";

const MAX_BYTES = 65_536;

/**
 * Placeholders that only a running service can fill in: a new id, an open transaction, the current
 * epoch.
 */
const NAMES = ["{{fresh}}", "{{open}}", "{{session}}", "{{seq}}", "{{epoch}}", "{{token}}", "{{webhook}}"];

const json = (head: string, body: unknown): string =>
  `${head}\ncontent-type: application/json\n\n${typeof body === "string" ? body : JSON.stringify(body)}`;
const one = [{ sql: "SELECT $1::text", params: ["x"] }];

const gatewaySeeds = [
  json("POST /v1/transactions", {
    id: "{{fresh}}",
    statements: one,
    ack: "durable",
    level: "disk",
    maxWaitMs: 500,
  }),
  json("POST /v1/transactions", {
    id: "{{fresh}}",
    statements: one,
    readOnly: true,
    after: "{{token}}",
    mode: "local",
  }),
  json("POST /v1/transactions", { id: "{{fresh}}", statements: one, readOnly: true, deferrable: true }),
  json("POST /v1/transactions", {
    id: "{{fresh}}",
    statements: [...one, ...one],
    metadata: { a: "b" },
    maxDelayMs: 500,
    keep: true,
  }),
  json("POST /v1/transactions/begin", { id: "{{fresh}}", statements: one, isolation: "repeatable read" }),
  ...["statements", "commit", "rollback"].map((call) =>
    json(`POST /v1/transactions/{{open}}/${call}\nhighwater-session: {{session}}`, {
      seq: "{{seq}}",
      ...(call === "rollback" ? {} : { statements: one }),
    }).replace('"{{seq}}"', "{{seq}}"),
  ),
  "GET /v1/transactions/{{fresh}}?wait=0.1&level=disk\n\n",
  `GET /v1/transactions/${ID}\nauthorization: Bearer hwk_abcdefgh_${"A".repeat(43)}\n\n`,
  `POST /sql\nneon-connection-string: postgresql://u:p@h/d\nneon-array-mode: true\n\n${JSON.stringify({ query: "SELECT $1::int[]", params: [[1, 2]] })}`,
  `POST /sql\nneon-batch-isolation-level: Serializable\nhighwater-ack: durable\nhighwater-level: disk\n\n${JSON.stringify({ queries: [{ query: "SELECT 1" }, { query: "SELECT $1::jsonb", params: [{ a: 1.1 }] }] })}`,
  "GET /healthz\n\n",
  "OPTIONS /v1/transactions\n\n",
];

const trackerSeeds = [
  "GET /v1/durability/marks\n\n",
  "GET /v1/durability/exposure\n\n",
  "GET /v1/durability/stream?exposure=true\nlast-event-id: 1.7.00000000\naccept: text/event-stream\n\n",
  "GET /v1/durability/events?types=transaction.lost&durable=true&level=disk&metadata.a=b\nlast-event-id: 1.7\n\n",
  "GET /v1/durability/events?format=json&after=0.0&limit=10\n\n",
  json("POST /v1/durability/verdicts", { tokens: ["{{token}}", ...TOKENS], level: "disk", waitMs: 50 }),
  ...fixtures(/^(announcements|verdicts-request)/).map((body) =>
    json(
      `POST ${body.includes("tokens") ? "/v1/durability/verdicts" : "/internal/announcements"}`,
      body.trim(),
    ),
  ),
  json("POST /internal/announcements", {
    gateway: "fuzz",
    region: "east",
    announcements: [
      {
        kind: "intent",
        id: "{{fresh}}",
        epoch: "{{epoch}}",
        by: "fuzz.1",
        endsWithinMs: 1_000,
        owner: "-5",
        metadata: { a: "b" },
        maxDelayMs: 1,
        level: "disk",
      },
      { kind: "position", id: "{{fresh}}", epoch: "{{epoch}}", offset: "5", owner: "7" },
      { kind: "withdrawn", id: ID, epoch: EPOCH, by: "fuzz.2" },
      { kind: "contents", id: "{{fresh}}", epoch: "{{epoch}}", offset: "5", owner: "7", sealed: SEALED },
      { kind: "answered", id: "{{fresh}}", epoch: "{{epoch}}", owner: "7", answered: "no" },
    ],
  }),
  "GET /v1/lost?owner=7&after=1&limit=10&since=2026-01-01T00:00:00Z&contents=kept&answered=yes\n\n",
  `GET /v1/lost/${ID}\n\n`,
  "DELETE /v1/lost/contents?owner=7\n\n",
  json("POST /v1/webhooks", {
    url: "https://127.0.0.1:9/a",
    events: ["transaction.lost"],
    filter: { a: "b" },
  }),
  "GET /v1/webhooks\n\n",
  json("PATCH /v1/webhooks/{{webhook}}", { disabled: true, description: "x" }),
  "GET /v1/webhooks/{{webhook}}/secret\n\n",
  json("POST /v1/webhooks/{{webhook}}/secret/rotate", { overlapSeconds: 60 }),
  json("POST /v1/webhooks/{{webhook}}/recover", { since: "2026-01-01T00:00:00Z" }),
  "GET /v1/webhooks/{{webhook}}/deliveries?status=failed&before=12&limit=5\n\n",
  "POST /v1/webhooks/{{webhook}}/test\n\n",
  "DELETE /v1/webhooks/{{webhook}}\n\n",
  "GET /v1/failover-candidate?x=1\n\n",
  "GET /metrics\n\n",
];

const WORDS = [
  ...[
    "POST ",
    "GET ",
    "HEAD ",
    "PUT ",
    "/v1/transactions",
    "/sql",
    "/v1/durability/",
    "/v1/webhooks/",
    "?wait=",
    "%00",
    "%",
  ],
  ...[
    "content-type: text/plain",
    "content-encoding: gzip",
    "transfer-encoding: chunked",
    "expect: 100-continue",
  ],
  ...[
    "highwater-session: ",
    "last-event-id: ",
    "authorization: ",
    "content-length: 5",
    "connection: upgrade\nupgrade: x",
  ],
  ...[
    "SELECT 1",
    "SELECT '{1}'::int[]",
    "COMMIT",
    "BEGIN",
    "SELECT 1/0",
    "SET statement_timeout = 0",
    "COPY x FROM STDIN",
  ],
  ...[
    "durable",
    "disk",
    "global",
    "seq",
    "statements",
    TOKEN,
    EPOCH,
    OTHER_EPOCH,
    "[".repeat(6_000),
    ...NAMES,
  ],
];

class Names {
  readonly #base: string;
  #open: { readonly id: string; readonly session: string; seq: number } | null = null;
  #epoch = EPOCH;
  #webhook = "none";

  constructor(base: string) {
    this.#base = base;
  }

  async fill(text: string): Promise<string> {
    if (!text.includes("{{")) return text;
    const id = (): TxnId => makeUuidV7(Date.now(), randomBytes(10));
    if (text.includes("{{session}}") && this.#open === null) await this.#begin(id());
    const open = this.#open ?? { id: ID, session: "none", seq: 0 };
    if (text.includes("{{seq}}")) open.seq++;
    const epoch = this.#epoch as EpochId;
    const token = testToken({ id: id(), epoch, offset: 5n });
    return text
      .replaceAll("{{fresh}}", id)
      .replaceAll("{{open}}", open.id)
      .replaceAll("{{session}}", open.session)
      .replaceAll("{{seq}}", String(open.seq))
      .replaceAll("{{epoch}}", this.#epoch)
      .replaceAll("{{token}}", token)
      .replaceAll("{{webhook}}", this.#webhook);
  }

  /** Keeps from an answer what later inputs need. */
  learn({ status, body }: HttpReply): void {
    const epoch = /"epoch":"([0-9a-f-]{36})"/.exec(body)?.[1];
    if (status < 300 && epoch !== undefined) this.#epoch = epoch;
    const made = /^\{"id":"([^"]+)","url":/.exec(body)?.[1];
    if (made !== undefined) this.#webhook = made;
    if (status >= 400 || body.includes('"state":"aborted"') || body.includes('"token"')) this.#open = null;
  }

  async #begin(id: TxnId): Promise<void> {
    const answer = await fetch(`${this.#base}/v1/transactions/begin`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ id }),
    });
    await answer.arrayBuffer();
    const session = answer.headers.get("highwater-session");
    if (session !== null) this.#open = { id, session, seq: 0 };
  }
}

/**
 * Completes the input's head with what HTTP requires; null if the head would make the server wait.
 */
function requestOf(text: string): { readonly bytes: Buffer; readonly isComplete: boolean } {
  const end = text.indexOf("\n\n");
  const [head, body] = end < 0 ? [text, ""] : [text.slice(0, end), text.slice(end + 2)];
  const [first = "", ...lines] = head.split("\n");
  const given = lines.map((line) => line.slice(0, line.indexOf(":")).trim().toLowerCase());
  const length = Buffer.byteLength(body);
  const added = [
    ...(given.includes("host") ? [] : ["host: fuzz"]),
    ...(given.includes("content-length") ||
    given.includes("transfer-encoding") ||
    (length === 0 && first.startsWith("GET"))
      ? []
      : [`content-length: ${String(length)}`]),
  ];
  const isPlain = /^(GET|POST|PATCH|PUT|DELETE) \/[!-~]* *$/.test(first.trimEnd());
  const isComplete =
    isPlain &&
    lines.every((line) => /^[a-z-]+: ?[\x20-\x7e]*$/.test(line)) &&
    !/content-length|transfer-encoding|expect|upgrade/.test(given.join());
  const all = [`${first.trimEnd()} HTTP/1.1`, ...added, ...lines].join("\r\n");
  return { bytes: Buffer.from(`${all}\r\n\r\n${body}`), isComplete };
}

async function assertWell(base: string): Promise<void> {
  const { status } = await fetch(`${base}/readyz`);
  assert.equal(status, 200, "the service is not ready any more");
}

function requests(base: string): Fuzzed {
  const names = new Names(base);
  return {
    run: async (input) => {
      const { bytes, isComplete } = requestOf(await names.fill(input.toString("utf8")));
      const answers = await send(base, bytes, { isComplete });
      assert.ok(answers.length > 0 || !isComplete, "the connection was closed without an answer");
      const isNeon = /^\S+ \/sql/.test(bytes.toString("latin1"));
      for (const answer of answers) {
        assertAnswer(answer, isNeon);
        names.learn(answer);
      }
    },
    after: () => assertWell(base),
  };
}

/** Sends exactly these bytes. */
function bytes(base: string): Fuzzed {
  return {
    run: async (input) => {
      for (const answer of await send(base, input, { isComplete: false })) {
        const isNeon = /\/sql/.test(input.toString("latin1"));
        assertAnswer(answer, isNeon);
      }
    },
    after: () => assertWell(base),
  };
}

const rawSeeds = (seeds: readonly string[]): string[] =>
  seeds.map((seed) => requestOf(seed.replaceAll(/\{\{\w+\}\}/g, ID)).bytes.toString("latin1"));

const RAW_WORDS = [
  ...WORDS,
  "HTTP/1.1",
  "HTTP/1.0",
  "\r\n",
  "\r\n\r\n",
  "0\r\n\r\n",
  "ffffffff\r\n",
  "\0",
  "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
  "\u0016\u0003\u0001",
];

function target(
  name: string,
  service: "gateway" | "tracker",
  more: Pick<Target, "seeds" | "sliceRuns" | "words" | "about">,
  make: (base: string) => Fuzzed,
): Target {
  return {
    name,
    ...more,
    needsServices: true,
    maxBytes: MAX_BYTES,
    limitMs: 20_000,
    open: ({ services }) => {
      if (services === null) throw new Error(`${name} needs services`);
      return make(services[service]);
    },
  };
}

const ABOUT = "every request is answered, and what is wrong with it is named by a code of the catalogue";
const ABOUT_BYTES = "whatever comes over a connection: an answer or its end, and the service goes on";

export const targets: readonly Target[] = [
  target(
    "gateway-http",
    "gateway",
    { seeds: gatewaySeeds, words: WORDS, sliceRuns: 150, about: ABOUT },
    requests,
  ),
  target(
    "tracker-http",
    "tracker",
    { seeds: trackerSeeds, words: WORDS, sliceRuns: 150, about: ABOUT },
    requests,
  ),
  target(
    "gateway-bytes",
    "gateway",
    { seeds: rawSeeds(gatewaySeeds), words: RAW_WORDS, sliceRuns: 30, about: ABOUT_BYTES },
    bytes,
  ),
  target(
    "tracker-bytes",
    "tracker",
    { seeds: rawSeeds(trackerSeeds), words: RAW_WORDS, sliceRuns: 30, about: ABOUT_BYTES },
    bytes,
  ),
];
