// What a session says when it ends early, and when it answers early.
import { type Report } from "../frames/build.ts";
import { type UsedOutcome } from "./attempts.ts";
import { FAILED_OVER } from "./failover.ts";

/** PostgreSQL's own words when a wait for a standby is cancelled. */
export const RELEASED: Report = {
  severity: "WARNING",
  code: "01000",
  message: "canceling wait for synchronous replication due to user request",
  detail: "The transaction has already committed locally, but might not have been replicated to the standby.",
};
export const PROMOTED: Report = { ...FAILED_OVER, detail: "The replica of this session was promoted." };
export const UNREAD: Report = { ...FAILED_OVER, detail: "The client has stopped reading." };
export const IN_THE_WAY: Report = {
  ...FAILED_OVER,
  detail: "The replica could not send the rest of an answer for too long, and its snapshot stops the replay.",
};
export const SHUTTING_DOWN: Report = { ...FAILED_OVER, detail: "The gateway is shutting down." };
export const REVOKED: Report = {
  ...FAILED_OVER,
  detail: "The key or the role of this session is no longer valid.",
};
const UNDONE = "this one was rolled back";
export const USED: Readonly<Record<UsedOutcome, Report>> = {
  committed: {
    severity: "ERROR",
    code: "23505",
    message: `an earlier transaction with this highwater.id has committed; ${UNDONE}`,
  },
  redone: {
    severity: "ERROR",
    code: "23505",
    message: `an earlier transaction with this highwater.id was lost in a failover and was brought back; ${UNDONE}`,
  },
  never: {
    severity: "ERROR",
    code: "40001",
    message: `an earlier transaction with this highwater.id was lost or undone, and the id is used up; ${UNDONE}`,
    hint: "Run the transaction again with another highwater.id.",
  },
  unknown: {
    severity: "ERROR",
    code: "40003",
    message: `it is not known yet whether an earlier transaction with this highwater.id has committed; ${UNDONE}`,
    hint: "Send it again with the same highwater.id.",
  },
};
export const IDLE: Report = {
  severity: "FATAL",
  code: "57P05",
  message: "terminating connection due to idle-session timeout",
};
