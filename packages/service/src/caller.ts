// Who asks, and until when the answer is wanted.
import { type Principal } from "./identity/principal.ts";

export interface Caller {
  readonly principal: Principal;
  /** Aborts when the client has gone away. */
  readonly signal?: AbortSignal | undefined;
}
