/**
 * Observers that come with the package: one writes to a log, one prints the life of every transaction.
 * @module
 */
import type { ObservedEnd, ObservedEvent, Observer } from "./observer.ts";

/** Where events go. `console` fits, and so does a logger that takes fields behind the message. */
export interface Log {
  /** As `console.debug`, with the facts of the event as fields. */
  debug(message: string, fields: Record<string, unknown>): void;
  /** As `console.info`, with the facts of the event as fields. */
  info(message: string, fields: Record<string, unknown>): void;
  /** As `console.warn`, with the facts of the event as fields. */
  warn(message: string, fields: Record<string, unknown>): void;
  /** As `console.error`, with the facts of the event as fields. */
  error(message: string, fields: Record<string, unknown>): void;
}

const METHODS: Partial<Record<ObservedEvent["type"], keyof Log>> = {
  ...{ lost: "error", broken: "error", retry: "info", timeout: "warn", polling: "warn", stalled: "warn" },
};

/** Whether it is one that ends: it is reported then, with how it ended. */
function isCall({ type }: ObservedEvent): boolean {
  return type === "begin" || type === "statements" || type === "commit";
}

/** What an event says, without what it does not have, and without headers, which may carry secrets. */
function factsOf(event: ObservedEvent, end?: ObservedEnd): Record<string, unknown> {
  const { error } = end ?? event;
  const { name, code, outcome, sqlstate } = (error ?? {}) as Record<string, unknown>;
  const facts = {
    ...{ event: event.type, id: event.id, level: event.level, statements: event.statements, url: event.url },
    ...{ attempt: event.attempt, state: end?.state, waitedMs: event.waitedMs, rule: event.verdict?.rule },
    ...{ error: error === undefined ? undefined : (name ?? typeof error), code, outcome, sqlstate },
  };
  return Object.fromEntries(Object.entries(facts).filter(([, fact]) => fact !== undefined));
}

/** The id stands second in every line, so that the lives of transactions can be told apart by eye. */
function lineOf({ event, ...facts }: Record<string, unknown>): string {
  const rest = Object.entries(facts).map(([name, fact]) => `${name}=${String(fact)}`);
  return [String(event).padEnd(13), ...rest].join(" ").trimEnd();
}

/**
 * An observer that logs every event, as a line and as fields.
 * Level: `debug`, but `info` for a retry, `warn` for a timeout, polling and a stall, `error` for a loss and a broken promise.
 * A call is logged when it ends, without values and text of its statements.
 *
 * @param log Default: `console`.
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
 * The debug mode: an observer that prints the life of every transaction, one line an event. A line begins with the milliseconds
 * since the observer was made; a call is printed when it ends, with its own time.
 *
 * @param write Gets each line, without its end. Default: `console.error`.
 * @example
 * ```ts
 * const printed = new Highwater({ url: "https://highwater.example", observe: printEvents() });
 * await printed.transaction(sql`SELECT 1`); // highwater       3.1 ms  commit        id=… level=region statements=1 state=committed in 2.9 ms
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
 * Several observers as one. Each gets every event, in this order.
 *
 * @param list Any number; one that throws keeps the event from those behind it.
 */
export function observers(...list: readonly Observer[]): Observer {
  return (event) => {
    const ends = list.map((observe) => observe(event));
    return (end) => {
      for (const each of ends) each?.(end);
    };
  };
}
