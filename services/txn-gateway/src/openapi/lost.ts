// The call that brings lost transactions back.
import { ReplayReport, ReplayRequest } from "@highwater/protocol";
import { BODY_ERRORS, CALLER_ERRORS, type Operation } from "@highwater/service";
import { SAMPLE } from "./sample.ts";

export const REPLAY_OPERATION: Operation = {
  method: "post",
  path: "/v1/lost/replay",
  id: "replayLost",
  tag: "lost",
  summary: "Bring lost transactions back",
  description:
    "Needs the scope `contents:replay`, and works on lost transactions of the caller's owner. Only a credential with `contents:read`, too, gets both sides of a conflict (`lost`, `redone`) and the database's message (`error`). Asks all trackers what was lost, and runs each transaction again whose effects would be the same. Each one is a new transaction, under the rights of the original login role, and takes effect once, however often you make the call. A dry run, the default, rolls everything back. The audit log has an entry for each transaction before it runs. Send the call to a gateway near the primary. In a gateway one replay runs at a time, and each owner has one that runs or waits.",
  security: ["bearer"],
  parameters: [],
  request: ReplayRequest,
  successes: {
    200: {
      description: "The end of each transaction; of a dry run, the end that it would have.",
      schema: ReplayReport,
      example: {
        dryRun: false,
        lostWrites: 1,
        replayed: 1,
        conflicts: 0,
        unrecoverable: 0,
        trackers: { asked: 3, answered: 2 },
        transactions: [
          {
            id: SAMPLE.id,
            attempt: "0197a1b2-0000-7000-8000-000000000001",
            answered: "yes",
            outcome: "replayed",
            replayedBy: SAMPLE.otherId,
          },
        ],
      },
    },
  },
  errorShape: "problem",
  errors: [
    ...CALLER_ERRORS,
    ...BODY_ERRORS,
    "keep_unavailable",
    "not_found",
    "marks_unavailable",
    "primary_unavailable",
    "epoch_changed",
    "exposure_limit",
    "commit_unconfirmed",
    "serialization_failure",
    "statement_timeout",
    "cancelled",
  ],
  examples: [
    {
      name: "dry",
      summary: "Look what could be brought back, where nothing is kept",
      given: "nothing",
      body: {},
      status: 400,
    },
  ],
};
