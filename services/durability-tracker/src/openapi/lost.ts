// Documents the calls about what was lost.
import Type from "typebox";
import {
  Answered,
  CONTENTS_LIMITS,
  ContentsState,
  ErasedContents,
  LostCursor,
  LostDetails,
  LostList,
  OwnerText,
  ReplayReport,
  ReplayRequest,
  SealedLost,
  SealedLostRequest,
  Uuid,
} from "@highwater/protocol";
import { BODY_ERRORS, CALLER_ERRORS, type Operation, type Parameter } from "@highwater/service";

const shared = { tag: "lost", security: ["bearer"], errorShape: "problem" } as const;
const { lostPerPage, defaultLostPerPage } = CONTENTS_LIMITS;
const EPOCH = "0197a1b2-0000-7000-8000-000000000001";
const LOST = {
  id: "01980f3e-6d2a-7c44-9b1d-3f6a2c8e5d70",
  attempt: EPOCH,
  position: { epoch: EPOCH, offset: "50331976" },
  verdicts: { disk: "lost", region: "lost", global: "lost" },
  rule: "R6 absent",
  settledAt: "region",
  metadata: { order: "8141" },
  owner: "0",
  lostAt: "2026-11-28T12:00:00.000Z",
  answered: "yes",
  contents: "kept",
  dependsOn: { ids: ["01980f3e-6d21-7101-8000-00000000002a"], more: false },
} as const;
const DIGEST = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";
const query = (name: string, schema: Parameter["schema"], description: string): Parameter => ({
  name,
  in: "query",
  required: false,
  schema,
  description,
});

export const LOST_OPERATIONS: readonly Operation[] = [
  {
    ...shared,
    tag: "gateways",
    security: ["service"],
    method: "post",
    path: "/internal/lost",
    id: "listSealedLost",
    summary: "List the lost transactions of all owners, with their sealed contents",
    description:
      "Gateways call this for `POST /v1/lost/replay`, and can open the contents. They authenticate with HIGHWATER_INTERNAL_SECRET. A proxy must not expose it to the public.",
    parameters: [],
    request: SealedLostRequest,
    successes: { 200: { description: "One page.", schema: SealedLost } },
    errors: [...CALLER_ERRORS, ...BODY_ERRORS],
    examples: [
      { name: "first", summary: "The first page", given: "service", body: { after: 0 }, status: 200 },
    ],
  },
  {
    ...shared,
    method: "get",
    path: "/v1/lost",
    id: "listLost",
    summary: "List lost transactions",
    description:
      "Needs the scope `read`; with another owner's tag in `owner`, `admin`. Lists the transactions that this tracker has published as lost or broken in the last TRACKER_KEEP_LOST_MS, without their contents. Trackers differ in what they list and keep: ask each one.",
    parameters: [
      query("after", LostCursor, "`next` of the page before."),
      query(
        "limit",
        Type.Integer({ minimum: 1, maximum: lostPerPage, default: defaultLostPerPage }),
        "Maximum number of transactions.",
      ),
      query("since", Type.String({ format: "date-time" }), "Only losses that were published then or later."),
      query("contents", ContentsState, "Only those whose contents are in this state."),
      query("answered", Answered, "Only those that were answered so."),
      query("owner", OwnerText, "Tag of the owner. Default: the caller's."),
    ],
    successes: {
      200: { description: "One page.", schema: LostList, example: { lost: [LOST], next: null } },
    },
    errors: [...CALLER_ERRORS, "invalid_request"],
    examples: [{ name: "ask", summary: "Ask", given: "nothing", status: 200 }],
  },
  {
    ...shared,
    method: "get",
    path: "/v1/lost/{id}",
    id: "readLost",
    summary: "Read a lost transaction and its contents",
    description:
      "Needs the scope `contents:read`, and shows only transactions of the caller's owner. The audit log has an entry for each reading of contents, and the answer comes after that entry is written.",
    parameters: [
      { name: "id", in: "path", required: true, schema: Uuid, description: "The transaction's id." },
    ],
    successes: {
      200: {
        description: "The newest lost attempt under the id.",
        schema: LostDetails,
        example: {
          ...LOST,
          kept: {
            version: 1,
            form: "one_shot",
            isolation: "serializable",
            key: "k7m2abcd",
            role: "app_orders",
            settings: { statement_timeout: "30000", lock_timeout: "10000" },
            statements: [
              {
                sql: "INSERT INTO purchase (id, item) VALUES ($1, $2)",
                params: ["01980f3e-6d2a-7c44-9b1d-3f6a2c8e5d71", "lamp"],
                result: { command: "INSERT", rowCount: 1, digest: DIGEST },
              },
            ],
            digest: DIGEST,
          },
        },
      },
    },
    errors: [...CALLER_ERRORS, "invalid_id", "not_found", "keep_unavailable", "primary_unavailable"],
    examples: [{ name: "ask", summary: "Ask for one that was not lost", given: "nothing", status: 404 }],
  },
  {
    ...shared,
    method: "post",
    path: "/v1/lost/replay",
    id: "passReplayOn",
    summary: "Have a gateway bring lost transactions back",
    description:
      "The call of the same path at a gateway, for the console. Needs the scope `contents:replay` at both. The first of TRACKER_GATEWAYS that answers gets the request with the caller's credential, and its answer is this call's answer, whatever its status.",
    parameters: [],
    request: ReplayRequest,
    successes: { 200: { description: "The gateway's answer.", schema: ReplayReport } },
    errors: [...CALLER_ERRORS, ...BODY_ERRORS, "keep_unavailable", "primary_unavailable"],
    examples: [
      { name: "dry", summary: "Ask where no gateway is known", given: "nothing", body: {}, status: 400 },
    ],
  },
  {
    ...shared,
    method: "delete",
    path: "/v1/lost/contents",
    id: "eraseContents",
    summary: "Erase the contents of an owner",
    description:
      "Needs the scope `admin`. Destroys the owner's data keys and contents in this tracker at once, and in every other tracker within some seconds after it reaches the primary. From then on contents of transactions whose ids carry a time up to `through` are refused. The losses stay listed.",
    parameters: [
      {
        name: "owner",
        in: "query",
        required: true,
        schema: OwnerText,
        description: "Tag of the owner; `0` without authentication.",
      },
    ],
    successes: {
      200: {
        description: "They are erased here.",
        schema: ErasedContents,
        example: { owner: "0", through: "2026-11-28T12:01:00.000Z", erased: 3 },
      },
    },
    errors: [...CALLER_ERRORS, "invalid_request", "primary_unavailable"],
    examples: [
      {
        name: "erase",
        summary: "Erase what has no owner",
        given: "nothing",
        query: { owner: "0" },
        status: 200,
      },
    ],
  },
];
