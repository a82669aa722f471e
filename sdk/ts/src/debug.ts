/**
 * Ready-made observers: `logEvents` writes to a log, and `printEvents` prints the life of every
 * transaction.
 * @module
 */
import type { ObservedEnd, ObservedEvent, Observer } from "./observer.ts";

/** Destination of events: `console`, or any logger that takes fields after the message. */
export interface Log {
  /** Like `console.debug`, with the event's data as fields. */
  debug(message: string, fields: Record<string, unknown>): void;
  /** Like `console.info`, with the event's data as fields. */
  info(message: string, fields: Record<string, unknown>): void;
  /** Like `console.warn`, with the event's data as fields. */
  warn(message: string, fields: Record<string, unknown>): void;
  /** Like `console.error`, with the event's data as fields. */
  error(message: string, fields: Record<string, unknown>): void;
}

const METHODS: Partial<Record<ObservedEvent["type"], keyof Log>> = {
  lost: "error",
  broken: "error",
  retry: "info",
  timeout: "warn",
  polling: "warn",
  stalled: "warn",
};

/** Whether the event is a call. A call is reported when it ends, with its result. */
function isCall({ type }: ObservedEvent): boolean {
  return type === "begin" || type === "statements" || type === "commit";
}

/** The data of an event, without absent fields, and without headers, which may carry secrets. */
function factsOf(event: ObservedEvent, end?: ObservedEnd): Record<string, unknown> {
  const { error } = end ?? event;
  const { name, code, outcome, sqlstate } = (error ?? {}) as Record<string, unknown>;
  const facts = {
    event: event.type,
    id: event.id,
    level: event.level,
    statements: event.statements,
    url: event.url,
    attempt: event.attempt,
    state: end?.state,
    waitedMs: event.waitedMs,
    rule: event.verdict?.rule,
    error: error === undefined ? undefined : (name ?? typeof error),
    code,
    outcome,
    sqlstate,
  };
  return Object.fromEntries(Object.entries(facts).filter(([, fact]) => fact !== undefined));
}

/** One line of text. The id is always second, so that transactions can be told apart by eye. */
function lineOf({ event, ...facts }: Record<string, unknown>): string {
  const rest = Object.entries(facts).map(([name, fact]) => `${name}=${String(fact)}`);
  return [String(event).padEnd(13), ...rest].join(" ").trimEnd();
}

/**
 * Creates an observer that logs every event, as a line and as fields. A call is logged when it
 * ends. Neither values nor statement text are logged.
 * Level: `debug`, except `info` for a retry, `warn` for a timeout, polling and a stall, and `error`
 * for a loss and a broken promise.
 *
 * @param log Destination of the events. Default: `console`.
 * @example
 * ```ts
 * const logged = new Highwater({ url: "https://highwater.example", observe: logEvents(console) });
 * await logged.transaction(sql`SELECT 1`);
 * await logged.close();
 * ```
 */
export function logEvents(log: Log = console): Observer {
  const write = (event: ObservedEvent, end?: ObservedEnd): void => {
    const facts = factsOf(event, end);
    log[METHODS[event.type] ?? "debug"](lineOf(facts), facts);
  };
  return (event) => {
    if (isCall(event))
      return (end) => {
        write(event, end);
      };
    write(event);
    return undefined;
  };
}

/**
 * Creates an observer for debugging: it prints the life of every transaction, one line per event.
 * Each line begins with the milliseconds since the observer was created. A call is printed when it
 * ends, with its duration.
 *
 * @param write Function that receives each line, without a line end. Default: `console.error`.
 * @example
 * ```ts
 * const printed = new Highwater({ url: "https://highwater.example", observe: printEvents() });
 * // highwater       3.1 ms  commit        id=… level=region statements=1 state=committed in 2.9 ms
 * await printed.transaction(sql`SELECT 1`);
 * await printed.close();
 * ```
 */
export function printEvents(
  write: (line: string) => void = (line) => {
    console.error(line);
  },
): Observer {
  const nowMs = (): number => performance.now();
  const startedMs = nowMs();
  const print = (facts: Record<string, unknown>, took = ""): void => {
    write(`highwater ${(nowMs() - startedMs).toFixed(1).padStart(9)} ms  ${lineOf(facts)}${took}`);
  };
  return (event) => {
    const beganMs = nowMs();
    if (isCall(event))
      return (end) => {
        print(factsOf(event, end), ` in ${(nowMs() - beganMs).toFixed(1)} ms`);
      };
    print(factsOf(event));
    return undefined;
  };
}

/**
 * Combines several observers into one. Each receives every event, in this order.
 *
 * @param list Observers, any number. If one throws, those after it do not receive the event.
 */
export function observers(...list: readonly Observer[]): Observer {
  return (event) => {
    const ends = list.map((observe) => observe(event));
    return (end) => {
      for (const each of ends) each?.(end);
    };
  };
}
