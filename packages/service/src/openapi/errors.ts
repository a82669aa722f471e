// Documents the calls that explain errors. Every service has them; they need no credential.
import Type from "typebox";
import {
  classOf,
  describeError,
  type ErrorCode,
  ErrorDescription,
  ErrorList,
  ERRORS,
} from "@highwater/protocol";
import { type Operation } from "./operation.ts";

const CODES = Object.keys(ERRORS) as ErrorCode[];
const shared = {
  method: "get",
  tag: "errors",
  security: [],
  errorShape: "problem",
  examples: [{ name: "ask", summary: "Ask", given: "nothing", status: 200 }],
} as const;

export const ERROR_OPERATIONS: readonly Operation[] = [
  {
    ...shared,
    path: "/errors",
    id: "listErrors",
    summary: "List all error codes",
    parameters: [],
    description: "Needs no credential.",
    successes: {
      200: { description: "The codes.", schema: ErrorList, example: { errors: [classOf("overloaded")] } },
    },
    errors: [],
  },
  {
    ...shared,
    path: "/errors/{code}",
    id: "getError",
    summary: "Explain an error code",
    description: "The `type` of a Problem is this path. Needs no credential.",
    parameters: [
      {
        name: "code",
        in: "path",
        required: true,
        description: "The code.",
        schema: Type.String({ enum: CODES }),
      },
    ],
    successes: {
      200: {
        description: "The cause of the error, the next step, and an example of a response.",
        schema: ErrorDescription,
        example: describeError("overloaded"),
      },
    },
    // 400: a malformed path, or one of more than 100 characters.
    errors: ["not_found", "invalid_request"],
  },
];
