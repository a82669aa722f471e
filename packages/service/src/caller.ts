// The caller of a request, the request's trace, and a signal that the client has disconnected.
import { type Principal } from "./identity/principal.ts";
import { type RequestTrace } from "./telemetry/tracer.ts";

export interface Caller {
  readonly principal: Principal;
  /** Aborts when the client disconnects. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Watches the credential beyond the request. `onRevoked`: called once it is revoked or has other
   * rights, and not when it only expires. Returns the function that ends the watch. Absent: without
   * a request of HTTP.
   */
  readonly watch?: ((onRevoked: () => void) => () => void) | undefined;
  /** Absent when the request is not traced. */
  readonly trace?: RequestTrace | undefined;
}
