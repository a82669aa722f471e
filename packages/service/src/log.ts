// One JSON object per event and line. A cause is written by chosen fields only.
import { type Clock } from "@highwater/store";

/** `cause` is written as its name, code, message and stack; secrets do not belong in any field. */
export type LogFields = Readonly<Record<string, unknown>>;

export interface Log {
  info(event: string, fields?: LogFields): void;
  warn(event: string, fields?: LogFields): void;
  error(event: string, fields?: LogFields): void;
}

export function jsonLog(service: string, clock: Clock, write: (line: string) => void): Log {
  const log = (level: string, event: string, fields: LogFields = {}): void => {
    const { cause, ...rest } = fields;
    const line = { time: new Date(clock.wallMs()).toISOString(), level, service, event, ...rest };
    write(`${JSON.stringify(cause === undefined ? line : { ...line, cause: describeCause(cause) })}\n`);
  };
  return {
    info: (event, fields) => {
      log("info", event, fields);
    },
    warn: (event, fields) => {
      log("warn", event, fields);
    },
    error: (event, fields) => {
      log("error", event, fields);
    },
  };
}

/** Chosen fields only: an error object may carry a connection string among its properties. */
function describeCause(cause: unknown): unknown {
  if (!(cause instanceof Error)) return String(cause);
  const { name, message, stack } = cause;
  const { code } = cause as { code?: unknown };
  const inner = cause.cause === undefined ? undefined : describeCause(cause.cause);
  return { name, code, message, stack, cause: inner };
}
