// Documents the calls about durability: marks, verdicts, events, exposure, and the preview of an
// election.
import Type from "typebox";
import {
  AnnouncementBatch,
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
    summary: "The marks now",
    description:
      "Everything of the epoch at or below a level's mark has reached the level. Also the configured levels, and the epochs that the current one continues.",
    successes: {
      200: {
        description: "As this tracker knows them.",
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
    summary: "Marks and epochs as they change",
    description:
      'Server-sent events: `epoch`, `mark`, `stalled`, `recovered` and `blind`. A new stream begins with the current state, so nothing is missed by connecting again. `blind` with `{"blind":true}`: this tracker has received nothing from the primary for a second; listen to another one. `{"blind":false}`: it does again. The streams of a tracker that stays blind end every ten seconds. A stream ends soon after its credential has ceased to be good.',
    parameters: [
      query("exposure", "`true`: also events `exposure`, with what is at risk.", Type.Literal("true")),
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
    summary: "Transactions at risk now",
    description: "Of owners, a caller sees its own.",
    successes: { 200: { description: "As this tracker knows it.", schema: ExposureReport } },
    errors: [...CALLER_ERRORS, "primary_unavailable"],
    examples: [{ name: "ask", summary: "Ask", given: "nothing", status: 200 }],
  },
];

const VERDICTS: Operation = {
  ...shared,
  method: "post",
  path: "/v1/durability/verdicts",
  id: "getVerdicts",
  summary: "Verdicts of transactions",
  description:
    "One answer for each token, in their order. A token that is none, or belongs to another owner, is refused by itself: its answer has an `error`, and the others are answered as if it were not there. With `waitMs` the answer is held until none is pending: one that stays so holds up the others, so ask for those that may take long by themselves.",
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
      summary: "Of one transaction, at once",
      given: "committed",
      body: { tokens: [SAMPLE.token] },
      status: 200,
    },
    {
      name: "wait",
      summary: "At a level, waiting for it",
      given: "committed",
      body: { tokens: [SAMPLE.token], level: "disk", waitMs: 2_000 },
      status: 200,
    },
    {
      name: "refused",
      summary: "A text that is no token spoils no other",
      given: "committed",
      body: { tokens: [SAMPLE.token, "hw2_nonsense"] },
      status: 200,
    },
    {
      name: "unknown",
      summary: "At a level that is not configured",
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
  summary: "Events of the caller's transactions, and of the cluster",
  description:
    "As server-sent events from now on, or from where `Last-Event-ID` or `after` says; as JSON, a page of those that are kept. With `durable=true` a stream also reports transactions that have become durable, those whose metadata has every `metadata.NAME=VALUE` that is asked for; these events have no ids and are not repeated.",
  parameters: [
    query(
      "format",
      "Otherwise the Accept header decides.",
      Type.Union([Type.Literal("json"), Type.Literal("stream")]),
    ),
    query("after", "Those behind it.", EventCursor),
    query(
      "types",
      "Names of types, separated by commas.",
      Type.String({ description: DURABILITY_EVENT_TYPES.join(", ") }),
    ),
    query("limit", "Of a page.", Type.Integer({ minimum: 1, maximum: EVENT_LIMITS.pageEvents })),
    query("durable", "Of a stream.", Type.Union([Type.Literal("true"), Type.Literal("false")])),
    query("level", "At which they became durable; only with `durable=true`.", LevelName),
    {
      name: "Last-Event-ID",
      in: "header",
      required: false,
      schema: EventCursor,
      description: "Sent by clients that connect again.",
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
      summary: "Events that are kept",
      given: "nothing",
      query: { format: "json", after: "0.0" },
      status: 200,
    },
    { name: "wrong", summary: "From nowhere", given: "nothing", query: { after: "nowhere" }, status: 400 },
  ],
};

const PREVIEW_ERRORS: readonly ErrorCode[] = [...CALLER_ERRORS, ...BODY_ERRORS];

const FAILOVER: Operation = {
  ...shared,
  method: "post",
  path: "/v1/durability/failover-preview",
  id: "previewFailover",
  summary: "The loss if each node is promoted",
  description:
    "Needs the scope `admin`, or the credential that the services share. `highwater failover-candidate` asks it, and says what to do.",
  request: FailoverPreviewRequest,
  successes: { 200: { description: "By candidate.", schema: FailoverPreview } },
  errors: PREVIEW_ERRORS,
  examples: [
    {
      name: "ask",
      summary: "Of two candidates",
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
  summary: "Commits of a gateway",
  description:
    "Acknowledged when it is on the tracker's disk. For gateways only, which prove themselves by HIGHWATER_INTERNAL_SECRET; a proxy must not show it to the public.",
  request: AnnouncementBatch,
  successes: { 204: { description: "It is on disk.", schema: null } },
  errors: [...CALLER_ERRORS, ...BODY_ERRORS],
  examples: [
    {
      name: "intent",
      summary: "Before a commit",
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
  summary: "Verdicts by id",
  description:
    "The ledger's entries for ids under which a gateway found the tombstone of a loss, for `GET /v1/transactions/{id}`. For gateways only, which prove themselves by HIGHWATER_INTERNAL_SECRET; a proxy must not show it to the public.",
  request: LossesRequest,
  successes: { 200: { description: "By id.", schema: LossesResponse } },
  errors: [...CALLER_ERRORS, ...BODY_ERRORS, "unknown_level"],
  examples: [
    {
      name: "ask",
      summary: "Of one id that it does not know",
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
