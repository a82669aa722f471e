// Documents the calls about keys and limits: what operators read, and what gateways report for it.
import { ExposureLimits, ExposureLimitsReport, KeyList } from "@highwater/protocol";
import { BODY_ERRORS, CALLER_ERRORS, type Operation } from "@highwater/service";

const shared = { parameters: [], errorShape: "problem" } as const;
const LIMIT = { name: "exposureTransactions", value: 200_000, bound: 200_000, used: 412 } as const;
const REPORT = { gateway: "us-east", region: "us-east", level: "region", limits: [LIMIT], commitMs: 3.2 };

export const OPERATOR_OPERATIONS: readonly Operation[] = [
  {
    ...shared,
    tag: "operators",
    security: ["bearer"],
    method: "get",
    path: "/v1/keys",
    id: "listKeys",
    summary: "List the API keys",
    description:
      "Needs the scope `admin`. Returns the keys of all owners, as the primary's database has them now; nothing of them is secret. Only `highwater keys` creates and revokes keys. A tracker that asks for no credential answers 403 `forbidden`.",
    successes: {
      200: {
        description: "The keys.",
        schema: KeyList,
        example: {
          keys: [
            {
              id: "k7m2abcd",
              state: "active",
              name: "orders",
              owner: "shop",
              role: "app_orders",
              scopes: ["read", "write"],
              limits: { ratePerSecond: 200 },
              createdAt: "2026-11-28T12:00:00.000Z",
              expiresAt: null,
              revokedAt: null,
            },
          ],
          total: 1,
        },
      },
    },
    errors: [...CALLER_ERRORS, "primary_unavailable"],
    examples: [{ name: "ask", summary: "Ask", given: "nothing", status: 200 }],
  },
  {
    ...shared,
    tag: "operators",
    security: ["bearer"],
    method: "get",
    path: "/v1/durability/exposure/limits",
    id: "getExposureLimits",
    summary: "Get the limits of exposure of all gateways",
    description:
      "Needs the scope `admin`. Limits are settings of gateways, and each gateway reports its own to every tracker every five seconds. A gateway whose last report is older than a minute is not listed.",
    successes: {
      200: {
        description: "The limits, and what counts toward each.",
        schema: ExposureLimits,
        example: { gateways: [{ ...REPORT, ageMs: 1_250 }] },
      },
    },
    errors: CALLER_ERRORS,
    examples: [{ name: "ask", summary: "Ask", given: "nothing", status: 200 }],
  },
  {
    ...shared,
    tag: "gateways",
    security: ["service"],
    method: "post",
    path: "/internal/exposure-limits",
    id: "reportExposureLimits",
    summary: "Report a gateway's limits of exposure",
    description:
      "For operators alone: no verdict and no mark depends on it. Only gateways may call this; they authenticate with HIGHWATER_INTERNAL_SECRET. A proxy must not expose it to the public.",
    request: ExposureLimitsReport,
    successes: { 204: { description: "The report has replaced the gateway's last one.", schema: null } },
    errors: [...CALLER_ERRORS, ...BODY_ERRORS],
    examples: [{ name: "report", summary: "Report one limit", given: "service", body: REPORT, status: 204 }],
  },
];
