// The caller of a request, and the time limit for the answer.
import { type Principal } from "./identity/principal.ts";
import { type RequestTrace } from "./telemetry/tracer.ts";

export interface Caller {
  readonly principal: Principal;
  /** Aborts when the client has gone away. */
  readonly signal?: AbortSignal | undefined;
  /** Where the request is traced. */
  readonly trace?: RequestTrace | undefined;
}
