// What the caller and the supervisor say to each other.
import type { ErrorRecord } from "./errors.ts";
import type { SupervisorApi } from "./types.ts";

export interface CallMessage {
  kind: "call";
  callId: number;
  method: keyof SupervisorApi;
  args: unknown[];
}

export type SupervisorMessage =
  | { kind: "result"; callId: number; value: unknown }
  | { kind: "error"; callId: number; error: ErrorRecord }
  /** The postmasters that run now, for the caller to end if this process dies. */
  | { kind: "processes"; pids: Record<string, number> };
