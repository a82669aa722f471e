// The calls between gateways.
import { CancelRequest, CancelResponse } from "@highwater/protocol";
import { BODY_ERRORS, CALLER_ERRORS, type Operation } from "@highwater/service";

export const PEER_OPERATIONS: readonly Operation[] = [
  {
    method: "post",
    path: "/internal/cancels",
    id: "cancel",
    tag: "gateways",
    security: ["service"],
    parameters: [],
    errorShape: "problem",
    summary: "Cancel for a PostgreSQL client",
    description:
      "A cancel that has reached another gateway than its session. If the session is here, its wait ends, or else its server gets the cancel. For gateways only, which prove themselves by HIGHWATER_INTERNAL_SECRET; a proxy must not show it to the public.",
    request: CancelRequest,
    successes: { 200: { description: "Whether the session is here.", schema: CancelResponse } },
    errors: [...CALLER_ERRORS, ...BODY_ERRORS],
    examples: [
      {
        name: "elsewhere",
        summary: "The session is not here",
        given: "nothing",
        body: { key: "0000162e5b0d9c41" },
        status: 200,
      },
    ],
  },
];
