// The messages between the caller and the supervisor.
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
  /** The running postmasters, which the caller ends if this process dies. */
  | { kind: "processes"; pids: Record<string, number> };
