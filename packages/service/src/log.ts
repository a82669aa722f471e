// Writes each event as a JSON object on one line. Of an error it writes only chosen fields.
import { type Clock } from "@highwater/runtime";
import { type LogEvent } from "./log-events.ts";

/** `cause` is written as its name, code, message and stack. No field may contain a secret. */
export type LogFields = Readonly<Record<string, unknown>>;

export interface Log {
  info(event: LogEvent<"info">, fields?: LogFields): void;
  warn(event: LogEvent<"warn">, fields?: LogFields): void;
  error(event: LogEvent<"error">, fields?: LogFields): void;
}

/** An entry before it becomes a line. */
export interface LogEntry {
  readonly timeMs: number;
  readonly level: keyof Log;
  readonly event: string;
  readonly fields: LogFields;
}

/** `listener`: also receives every entry, to export it another way. */
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

/** Only chosen fields: an error object may have a connection string among its properties. */
function describeCause(cause: unknown): unknown {
  if (!(cause instanceof Error)) return String(cause);
  const { name, message, stack } = cause;
  const { code } = cause as { code?: unknown };
  const inner = cause.cause === undefined ? undefined : describeCause(cause.cause);
  return { name, code, message, stack, cause: inner };
}

/** Whether an event that has happened so often is logged: the first one, and then ever fewer. */
export function isLogged(count: number): boolean {
  return (count & (count - 1)) === 0;
}

const NAMED_MAX = 20;

/** As the store reports it for a part of the sequences. */
interface ReservedSequences {
  readonly advanced: number;
  readonly problems: Readonly<Record<string, string>>;
  readonly unnamed: number;
}

/** What became of the sequences before an epoch began. */
export function logReserved(
  log: Log,
  node: string,
  { advanced, problems, unnamed }: ReservedSequences,
): void {
  log.info("sequences_reserved", { node, advanced });
  const named = Object.entries(problems);
  if (named.length > 0)
    log.warn("sequences_not_reserved", {
      node,
      count: named.length + unnamed,
      problems: Object.fromEntries(named.slice(0, NAMED_MAX)),
    });
}
