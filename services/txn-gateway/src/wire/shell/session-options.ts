// What a session of the wire is made of.
import { type Socket } from "node:net";
import { type Principal, type Tracer } from "@highwater/service";
import { type PrimaryEpoch } from "../../primary/primary.ts";
import { type OwnMessages } from "../model/own.ts";
import { type Keeping } from "../model/state.ts";
import { type Positions } from "../positions.ts";
import { type Reader } from "./after-wait.ts";
import { type WireAttempts } from "./attempts.ts";
import { type Outbox } from "./outbox.ts";
import { type SessionEnd } from "./server-end.ts";
import { type WireMetrics } from "./session-metrics.ts";

export interface SessionOptions {
  readonly client: Socket;
  readonly server: Socket;
  readonly outbox: Outbox;
  readonly primaryEpoch: PrimaryEpoch;
  /** Null: the session came to the main port. */
  readonly reader: Reader | null;
  readonly positions: Positions;
  readonly attempts: WireAttempts;
  readonly own: OwnMessages;
  readonly principal: Principal;
  readonly isRelayed: boolean;
  /** How its transactions are kept; null: they cannot be. */
  readonly keeping: Keeping | null;
  /** The key's minimum level; null: none. */
  readonly least: string | null;
  readonly metrics: WireMetrics;
  /** Undefined: commits are not traced. */
  readonly tracer: Tracer | undefined;
  readonly levels: () => readonly string[];
  readonly defaultLevel: () => string;
  readonly nowMs: () => number;
  readonly after: (ms: number, callback: () => void) => () => void;
  readonly onClosed: (how: SessionEnd) => void;
}
