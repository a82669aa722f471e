// Documents the calls about durability: marks, verdicts, events, exposure, and the preview of an
// election.
import Type from "typebox";
import {
  AnnouncementBatch,
  AnnouncementsAnswer,
  DURABILITY_EVENT_TYPES,
  type ErrorCode,
  EVENT_LIMITS,
  EventCursor,
  EventPage,
  ExposureReport,
  LevelName,
  LossesRequest,
  LossesResponse,
  MarksResponse,
  VerdictsRequest,
  VerdictsResponse,
} from "@highwater/protocol";
import { BODY_ERRORS, CALLER_ERRORS, type Operation, type Parameter } from "@highwater/service";
import { FailoverPreview, FailoverPreviewRequest } from "../failover/wire.ts";
import { MARKS, SAMPLE, VERDICT } from "./sample.ts";

const shared = { tag: "durability", security: ["bearer"], parameters: [], errorShape: "problem" } as const;
/** A stream does not count as a request in flight. */
const STREAM_ERRORS = CALLER_ERRORS.filter((code) => code !== "concurrency_limited");

const query = (name: string, description: string, schema: Parameter["schema"]): Parameter => ({
  name,
  in: "query",
  required: false,
  description,
  schema,
});

const MARKS_OPERATIONS: readonly Operation[] = [
  {
    ...shared,
    method: "get",
    path: "/v1/durability/marks",
    id: "getMarks",
    summary: "Get the current marks",
    description:
      "A mark is the offset up to which the epoch's log has reached the level. The answer also has the configured levels, and the current epoch with its ancestors.",
    successes: {
      200: {
        description: "The marks that this tracker knows.",
        schema: MarksResponse,
        example: { marks: MARKS, levels: ["disk", "region", "global"], epochs: [] },
      },
    },
    errors: CALLER_ERRORS,
    examples: [{ name: "ask", summary: "Ask", given: "nothing", status: 200 }],
  },
  {
    ...shared,
    method: "get",
    path: "/v1/durability/stream",
    id: "streamMarks",
    summary: "Stream marks and epochs as they change",
    description:
      'Server-sent events: `epoch`, `mark`, `stalled`, `recovered` and `blind`. A new stream begins with the current state, so a client that connects again misses nothing. `blind` with `{"blind":true}`: this tracker has received nothing from the primary for a second; use another tracker. `{"blind":false}`: it receives from the primary again. While a tracker stays blind, it ends its streams every ten seconds. A stream also ends soon after its credential has expired or is revoked.',
    parameters: [
      query(
        "exposure",
        "`true`: also send events `exposure`, with the transactions at risk.",
        Type.Literal("true"),
      ),
    ],
    successes: { 200: { description: "The stream.", contentType: "text/event-stream" } },
    errors: STREAM_ERRORS,
    examples: [{ name: "listen", summary: "Listen", given: "nothing", status: 200 }],
  },
  {
    ...shared,
    method: "get",
    path: "/v1/durability/exposure",
    id: "getExposure",
    summary: "Get the transactions at risk",
    description: "A caller sees only its own entry in `byOwner`.",
    successes: { 200: { description: "The exposure that this tracker knows.", schema: ExposureReport } },
    errors: [...CALLER_ERRORS, "primary_unavailable"],
    examples: [{ name: "ask", summary: "Ask", given: "nothing", status: 200 }],
  },
];

const VERDICTS: Operation = {
  ...shared,
  method: "post",
  path: "/v1/durability/verdicts",
  id: "getVerdicts",
  summary: "Get verdicts of transactions",
  description:
    "Returns one verdict for each token, in the order of the tokens. For a text that is not a token, and for another owner's token, it returns an `error` in place of the verdict, and judges the others. With `waitMs` the answer comes when no transaction is pending. One pending transaction delays the others, so send tokens that may take long in a separate request.",
  request: VerdictsRequest,
  successes: {
    200: {
      description: "The verdicts, and the newest marks.",
      schema: VerdictsResponse,
      example: { verdicts: [VERDICT], marks: MARKS },
    },
  },
  errors: [...CALLER_ERRORS, ...BODY_ERRORS, "unknown_level"],
  examples: [
    {
      name: "ask",
      summary: "Ask about one transaction, without waiting",
      given: "committed",
      body: { tokens: [SAMPLE.token] },
      status: 200,
    },
    {
      name: "wait",
      summary: "Wait until the transaction is durable at a level",
      given: "committed",
      body: { tokens: [SAMPLE.token], level: "disk", waitMs: 2_000 },
      status: 200,
    },
    {
      name: "refused",
      summary: "A text that is not a token does not affect the others",
      given: "committed",
      body: { tokens: [SAMPLE.token, "hw2_nonsense"] },
      status: 200,
    },
    {
      name: "unknown",
      summary: "Ask at a level that is not configured",
      given: "committed",
      body: { tokens: [SAMPLE.token], level: "moon" },
      status: 400,
    },
  ],
};

const EVENTS: Operation = {
  ...shared,
  method: "get",
  path: "/v1/durability/events",
  id: "getEvents",
  summary: "Get events of the caller's transactions, and of the system",
  description:
    "As a stream of server-sent events: new events, from now on or after the cursor in `Last-Event-ID` or `after`. As JSON: a page of stored events. With `durable=true` a stream also reports transactions that have become durable and whose metadata has every `metadata.NAME=VALUE` of the query. These events have no ids and are not repeated.",
  parameters: [
    query(
      "format",
      "Default: the Accept header decides.",
      Type.Union([Type.Literal("json"), Type.Literal("stream")]),
    ),
    query("after", "Only events after this cursor.", EventCursor),
    query(
      "types",
      "Only events of these types, separated by commas.",
      Type.String({ description: DURABILITY_EVENT_TYPES.join(", ") }),
    ),
    query(
      "limit",
      "Maximum number of events in a page.",
      Type.Integer({ minimum: 1, maximum: EVENT_LIMITS.pageEvents }),
    ),
    query(
      "durable",
      "For a stream only: `true` also sends transactions that have become durable.",
      Type.Union([Type.Literal("true"), Type.Literal("false")]),
    ),
    query("level", "The level at which transactions became durable. Only with `durable=true`.", LevelName),
    {
      name: "Last-Event-ID",
      in: "header",
      required: false,
      schema: EventCursor,
      description:
        "Cursor of the last event that the client received. Clients send it when they connect again.",
    },
  ],
  successes: {
    200: {
      description: "The stream, or the page.",
      schema: EventPage,
      otherTypes: ["text/event-stream"],
      example: { events: [], next: "3.17.0b1c2d3e", more: false, missed: false },
    },
  },
  errors: [
    ...STREAM_ERRORS,
    "invalid_request",
    "unknown_level",
    "concurrency_limited",
    "primary_unavailable",
  ],
  examples: [
    {
      name: "page",
      summary: "Get stored events",
      given: "nothing",
      query: { format: "json", after: "0.0" },
      status: 200,
    },
    {
      name: "wrong",
      summary: "Ask with an invalid cursor",
      given: "nothing",
      query: { after: "nowhere" },
      status: 400,
    },
  ],
};

const PREVIEW_ERRORS: readonly ErrorCode[] = [...CALLER_ERRORS, ...BODY_ERRORS];

const FAILOVER: Operation = {
  ...shared,
  method: "post",
  path: "/v1/durability/failover-preview",
  id: "previewFailover",
  summary: "Preview what the promotion of each node would lose",
  description:
    "Needs the scope `admin`, or HIGHWATER_INTERNAL_SECRET. The command `failover-candidate` uses it, and names the node to promote.",
  request: FailoverPreviewRequest,
  successes: { 200: { description: "The loss for each candidate.", schema: FailoverPreview } },
  errors: PREVIEW_ERRORS,
  examples: [
    {
      name: "ask",
      summary: "Compare two candidates",
      given: "nothing",
      body: {
        epoch: SAMPLE.epoch,
        candidates: [
          { node: "us-west", offset: "50331832" },
          { node: "eu-west", offset: "50331000" },
        ],
      },
      status: 200,
    },
  ],
};

const ANNOUNCEMENTS: Operation = {
  ...shared,
  tag: "gateways",
  security: ["service"],
  method: "post",
  path: "/internal/announcements",
  id: "announce",
  summary: "Announce commits of a gateway",
  description:
    "The tracker answers when the announcements are on its disk. Only gateways may call this; they authenticate with HIGHWATER_INTERNAL_SECRET. A proxy must not expose it to the public.",
  request: AnnouncementBatch,
  successes: {
    200: {
      description: "The announcements are on disk, except some contents that the tracker does not keep.",
      schema: AnnouncementsAnswer,
    },
    204: { description: "The announcements are on disk.", schema: null },
  },
  errors: [...CALLER_ERRORS, ...BODY_ERRORS],
  examples: [
    {
      name: "intent",
      summary: "Announce a transaction before its commit",
      given: "service",
      body: {
        gateway: "us-east",
        announcements: [
          { kind: "intent", id: SAMPLE.id, epoch: SAMPLE.epoch, by: "fC1xq0Zr9nTk.1", endsWithinMs: 63_000 },
        ],
      },
      status: 204,
    },
  ],
};

const LOSSES: Operation = {
  ...shared,
  tag: "gateways",
  security: ["service"],
  method: "post",
  path: "/internal/losses",
  id: "losses",
  summary: "Get verdicts by id",
  description:
    "Returns the ledger's entries for ids whose receipt is the tombstone of a loss. Gateways call this for `GET /v1/transactions/{id}`; they authenticate with HIGHWATER_INTERNAL_SECRET. A proxy must not expose it to the public.",
  request: LossesRequest,
  successes: { 200: { description: "The ledger's entry for each id.", schema: LossesResponse } },
  errors: [...CALLER_ERRORS, ...BODY_ERRORS, "unknown_level"],
  examples: [
    {
      name: "ask",
      summary: "Ask about an id that the tracker does not know",
      given: "service",
      body: { of: [{ id: SAMPLE.id }], level: "region" },
      status: 200,
    },
  ],
};

export const DURABILITY_OPERATIONS: readonly Operation[] = [
  ...MARKS_OPERATIONS,
  VERDICTS,
  EVENTS,
  FAILOVER,
  ANNOUNCEMENTS,
  LOSSES,
];
