// Writes one JSON object per event and line. Of an error it writes chosen fields only.
import { type Clock } from "@highwater/runtime";
import { type LogEvent } from "./log-events.ts";

/** `cause` is written as its name, code, message and stack; secrets do not belong in any field. */
export type LogFields = Readonly<Record<string, unknown>>;

export interface Log {
  info(event: LogEvent<"info">, fields?: LogFields): void;
  warn(event: LogEvent<"warn">, fields?: LogFields): void;
  error(event: LogEvent<"error">, fields?: LogFields): void;
}

/** A line before it is one. */
export interface LogEntry {
  readonly timeMs: number;
  readonly level: keyof Log;
  readonly event: string;
  readonly fields: LogFields;
}

/** `listener`: gets every line as well, for another way out of the process. */
export function jsonLog(
  service: string,
  clock: Clock,
  write: (line: string) => void,
  listener: (entry: LogEntry) => void = () => undefined,
): Log {
  const log = (level: keyof Log, event: string, given: LogFields = {}): void => {
    const { cause, ...rest } = given;
    const fields = cause === undefined ? rest : { ...rest, cause: describeCause(cause) };
    const timeMs = clock.wallMs();
    write(`${JSON.stringify({ time: new Date(timeMs).toISOString(), level, service, event, ...fields })}\n`);
    listener({ timeMs, level, event, fields });
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
