// The conformance driver of the TypeScript SDK: a request per line on standard input, an answer per
// line on standard output, as README.md says. It only translates: it never retries, waits or
// compares, because then the test would cover the driver and not the SDK.
import { createInterface } from "node:readline";
import {
  AbortError,
  type DurabilityPromise,
  type DurableOptions,
  Highwater,
  type HighwaterOptions,
  HighwaterError,
  type InteractiveTransaction,
  type Session,
  type StatementInput,
  type Transaction,
  type TokenVerdict,
} from "@highwater/sdk";
import { followOutbox } from "@highwater/sdk/outbox";
import { type StorePart, Stores, StoresSession } from "@highwater/sdk/stores";
import { verifyWebhook, WebhookVerificationError } from "@highwater/sdk/webhooks";
import { inAllAdapters } from "./adapters.ts";

type Json = Readonly<Record<string, unknown>>;
interface Request {
  readonly call: number;
  readonly scope: string;
  readonly do: string;
  readonly with: Json;
}

class RaisedByBody extends Error {
  override name = "RaisedByBody";
}

class RaisedByListener extends Error {}

/** Delays that a scenario need not wait for. */
const QUICK = { backoffBaseMs: 2, backoffMaxMs: 20, attemptMinMs: 150, streamIdleMs: 20, verdictWaitMs: 50 };

class Listener {
  readonly received: string[] = [];
  /** What each verdict said of its transaction. */
  readonly about: Json[] = [];
  readonly error = new RaisedByListener();
  off: () => void = () => undefined;
  #changed = Promise.withResolvers<void>();

  record(what: string): void {
    this.received.push(what);
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }

  async atLeast(count: number, signal: AbortSignal): Promise<void> {
    const aborted = new Promise((resolve) => {
      signal.addEventListener("abort", resolve);
    });
    while (this.received.length < count && !signal.aborted)
      await Promise.race([this.#changed.promise, aborted]);
  }
}

/** The objects that the steps of one run of a scenario made, by name. */
class Scope {
  readonly clients = new Map<string, Highwater>();
  readonly sessions = new Map<string, Session | StoresSession>();
  readonly stores = new Map<string, Stores>();
  readonly promises = new Map<string, DurabilityPromise>();
  readonly open = new Map<string, InteractiveTransaction>();
  readonly listeners = new Map<string, Listener>();
  /** The events that each client's observer received. */
  readonly observed = new Map<string, string[]>();

  async end(): Promise<void> {
    await Promise.all([...this.clients.values()].map((client) => client.close()));
  }
}

function get<T>(map: ReadonlyMap<string, T>, name: unknown): T {
  const found = map.get(String(name));
  if (found === undefined) throw new Error(`nothing is called ${String(name)}`);
  return found;
}

/** Only what is given: an option that is undefined is not the same as an absent one. */
function pick(from: Json, names: Readonly<Record<string, string>>): Record<string, unknown> {
  const pairs = Object.entries(names).map(([name, option]) => [option, from[name]] as const);
  return Object.fromEntries(pairs.filter(([, value]) => value !== undefined));
}

const WAIT = { level: "level", timeoutMs: "timeoutMs" } as const;
const ACK = {
  ack: "ack",
  maxWaitMs: "maxWaitMs",
  onTimeout: "onTimeout",
  maxDelayMs: "maxDelayMs",
  ...WAIT,
} as const;
const RUNS = { maxAttempts: "maxAttempts" } as const;
const EXECUTION = {
  isolation: "isolation",
  readOnly: "readOnly",
  metadata: "metadata",
  atRisk: "atRisk",
} as const;

function statements(list: unknown): StatementInput[] {
  return (list as (string | StatementInput)[]).map((each) =>
    typeof each === "string" ? { sql: each } : each,
  );
}

/** A value as every driver shows it. */
function show(value: unknown): unknown {
  if (typeof value === "bigint")
    return value >= Number.MIN_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER
      ? Number(value)
      : String(value);
  if (typeof value === "number") return Number.isFinite(value) ? value : String(value);
  if (value instanceof Date) return { instant: value.toISOString() };
  if (value instanceof Uint8Array) return { bytes: Buffer.from(value).toString("hex") };
  if (Array.isArray(value)) return value.map(show);
  if (typeof value === "object" && value !== null)
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, show(each)]));
  return value;
}

const showVerdict = ({ verdict, level, position, retriedIn, id }: TokenVerdict): Json => ({
  verdict,
  level,
  epoch: position.epoch,
  offset: position.offset,
  retriedIn,
  id,
});

const showPart = ({ store, state, error }: StorePart): Json => ({ store, state, code: error?.code });

function showTransaction(tx: Transaction): Json {
  return {
    id: tx.id,
    state: tx.state,
    replayed: tx.replayed,
    announced: tx.announced,
    achieved: tx.achieved,
    level: tx.level,
    token: tx.token,
    results: tx.results?.length ?? null,
    served: tx.served?.role ?? null,
    rows: tx.results === null ? null : show(tx.rows),
    truncated: tx.results?.at(-1)?.truncated === true,
  };
}

type Run = (scope: Scope, given: Json, signal: AbortSignal) => unknown;

const client = (scope: Scope, given: Json): Highwater => get(scope.clients, given["client"] ?? "hw");
function executor(scope: Scope, given: Json): Highwater | Session {
  if (given["session"] === undefined) return client(scope, given);
  const session = get(scope.sessions, given["session"]);
  return session instanceof StoresSession ? (session.of(String(given["store"])) as Session) : session;
}

const COMMANDS: Readonly<Record<string, Run>> = {
  client: (scope, given) => {
    const { as = "hw", endpoints, quick, raw, tuning = {} } = given;
    const observed: string[] = [];
    const names = ["level", "apiKey", "requestTimeoutMs", "totalTimeoutMs", "shareRequests"];
    const options = pick(given, Object.fromEntries(names.map((name) => [name, name])));
    const hw = new Highwater({
      ...options,
      ...(raw === true ? { types: "raw" } : {}),
      observe: ({ type }) => {
        observed.push(type);
        return ({ state, error }) =>
          observed.push(`${type}: ${error instanceof HighwaterError ? error.code : (state ?? "ok")}`);
      },
      endpoints: endpoints as HighwaterOptions["endpoints"] & object,
      tuning: { ...(quick === true ? QUICK : {}), ...(tuning as object) },
    });
    scope.clients.set(as as string, hw);
    scope.observed.set(as as string, observed);
  },
  transaction: async (scope, given, signal) => {
    const options = {
      ...pick(given, {
        ...EXECUTION,
        ...ACK,
        id: "id",
        after: "after",
        mode: "mode",
        reads: "reads",
        ...RUNS,
      }),
      // With a signal it shares no request.
      ...(given["cancellable"] === true && { signal }),
    };
    const tx = await executor(scope, given).transaction(statements(given["statements"]), options);
    scope.promises.set(String(given["as"]), tx);
    return showTransaction(tx);
  },
  begin: async (scope, given, signal) => {
    const tx = await executor(scope, given).begin({ ...pick(given, { ...EXECUTION, ...WAIT }), signal });
    scope.open.set(String(given["as"]), tx);
    return { id: tx.id };
  },
  execute: async (scope, given, signal) => {
    const tx = get(scope.open, given["tx"]);
    const results = await tx.execute(statements(given["statements"]), { ...pick(given, WAIT), signal });
    return { rows: show(results.at(-1)?.rows), results: results.length };
  },
  commit: async (scope, given, signal) => {
    const { tx: name, statements: last } = given;
    const options = { ...pick(given, ACK), ...(last === undefined ? {} : { statements: statements(last) }) };
    const tx = await get(scope.open, name).commit({ ...options, signal });
    scope.promises.set(String(name), tx);
    return showTransaction(tx);
  },
  rollback: async (scope, given, signal) => {
    const tx = get(scope.open, given["tx"]);
    await tx.rollback({ signal });
    return { open: tx.isOpen };
  },
  transact: async (scope, given, signal) => {
    const { body, as, via } = given;
    const ids = new Set<string>();
    let runs = 0;
    const options = { ...pick(given, { ...EXECUTION, ...ACK, ...RUNS }), signal };
    let last: InteractiveTransaction | undefined;
    const work = async (tx: InteractiveTransaction): Promise<void> => {
      last = tx;
      runs += 1;
      ids.add(tx.id);
      for (const each of body as (string | Json)[]) {
        if (typeof each === "object" && "raise" in each) {
          if (each["onRun"] === undefined || each["onRun"] === runs)
            throw new RaisedByBody(String(each["raise"]));
        } else await tx.query(statements([each])[0] as StatementInput);
      }
    };
    try {
      const origin = executor(scope, given);
      await (via === "transaction" ? origin.transaction(work, options) : origin.transact(work, options));
    } catch (error) {
      if (error instanceof Error) Object.assign(error, { runs });
      throw error;
    }
    if (last?.committed !== undefined) scope.promises.set(as as string, last.committed);
    return { runs, ids: ids.size, state: last?.committed?.state };
  },
  adapters: async (scope, given) => ({
    ends: await inAllAdapters({
      hw: client(scope, given),
      statement: String(given["statement"]),
      options: pick(given, ACK),
      ...(pick(given, { database: "database" }) as { database?: string }),
    }),
  }),
  durable: async (scope, given, signal) =>
    showVerdict(await get(scope.promises, given["of"]).durable({ ...pick(given, WAIT), signal })),
  durableAll: async (scope, given, signal) => {
    const hw = client(scope, given);
    const options = { ...pick(given, WAIT), signal } as DurableOptions;
    const ends = await Promise.allSettled(
      (given["tokens"] as string[]).map((token) => hw.promise(token).durable(options)),
    );
    const counts: Record<string, number> = {};
    for (const end of ends) {
      const what =
        end.status === "fulfilled" ? end.value.verdict : (end.reason as Error).constructor.name || "Error";
      counts[what] = (counts[what] ?? 0) + 1;
    }
    return counts;
  },
  afterDurable: async (scope, given, signal) => {
    let called = 0;
    const run = (): void => {
      called += 1;
    };
    await get(scope.promises, given["of"]).afterDurable(run, { ...pick(given, WAIT), signal });
    return { called };
  },
  listen: (scope, given) => {
    const { to, of, as, throws } = given;
    const listener = new Listener();
    const record = ({ verdict, metadata, readOnly }: TokenVerdict): void => {
      listener.about.push({ metadata, readOnly });
      listener.record(verdict);
      if (throws === true) throw listener.error;
    };
    const on = of === undefined ? client(scope, given) : get(scope.promises, of);
    const options = pick(given, { level: "level" });
    if (to === "broken") listener.off = (on as Highwater).onBroken(record);
    else if (to === "lost")
      listener.off = on instanceof Highwater ? on.onLost(record) : on.onLost(record, options);
    else listener.off = on instanceof Highwater ? on.onDurable(record) : on.onDurable(record, options);
    scope.listeners.set(as as string, listener);
  },
  subscribe: (scope, given) => {
    const listener = new Listener();
    listener.off = client(scope, given).subscribe(({ marks }) => {
      listener.record(marks?.levels["region"] ?? "");
    });
    scope.listeners.set(given["as"] as string, listener);
  },
  unlisten: (scope, given) => {
    get(scope.listeners, given["as"]).off();
  },
  received: async (scope, given, signal) => {
    const listener = get(scope.listeners, given["as"]);
    await listener.atLeast(Number(given["atLeast"] ?? 0), signal);
    return {
      count: listener.received.length,
      verdicts: listener.received,
      about: listener.about,
      reports: reports(listener),
    };
  },
  observed: (scope, given) => {
    const only = given["only"] as string[];
    const events = get(scope.observed, given["client"] ?? "hw");
    return events.filter((each) => only.includes(each.split(":")[0] ?? ""));
  },
  promise: (scope, given) => {
    const promise = client(scope, given).promise(String(given["token"]), pick(given, { level: "level" }));
    scope.promises.set(String(given["as"]), promise);
    return { id: promise.id, verdict: promise.verdict()?.verdict ?? null };
  },
  token: (scope, given) => ({ token: get(scope.promises, given["of"]).token }),
  session: (scope, given) => {
    const maker = given["stores"] === undefined ? client(scope, given) : get(scope.stores, given["stores"]);
    scope.sessions.set(String(given["as"]), maker.session(pick(given, { causal: "causal" })));
  },
  sessionDurable: async (scope, given, signal) => {
    const options = { ...pick(given, { ...WAIT, onTimeout: "onTimeout" }), signal };
    const parts = await get(scope.sessions, given["of"]).durable(options);
    return parts && { parts: parts.map(showPart) };
  },
  stores: (scope, given) => {
    const clients = Object.entries(given["clients"] as Record<string, string>);
    const named = clients.map(([store, name]) => [store, get(scope.clients, name)] as const);
    scope.stores.set(String(given["as"]), new Stores(Object.fromEntries(named)));
  },
  all: async (scope, given, signal) => {
    const promises = (given["of"] as string[]).map((name) => get(scope.promises, name));
    const all = get(scope.stores, given["stores"]).all(promises);
    const options = { ...pick(given, { ...WAIT, onTimeout: "onTimeout" }), signal };
    const parts =
      given["afterDurable"] === true
        ? await all.afterDurable((found) => found, options)
        : await all.durable(options);
    return { parts: parts.map(showPart) };
  },
  saveSession: (scope, given) => ({ text: get(scope.sessions, given["of"]).token }),
  saveId: (scope, given) => ({ text: get(scope.promises, given["of"]).id }),
  resume: async (scope, given, signal) => {
    const options = { ...pick(given, { level: "level", waitMs: "waitMs" }), signal };
    const verdicts = await get(scope.sessions, given["session"]).resume(String(given["token"]), options);
    const words = (list: readonly { verdict: string }[]): string[] => list.map(({ verdict }) => verdict);
    if (Array.isArray(verdicts)) return { verdicts: words(verdicts) };
    const byStore = Object.entries(verdicts).map(([store, list]) => [store, words(list)] as const);
    return { verdicts: Object.fromEntries(byStore) };
  },
  status: async (scope, given, signal) => {
    const { of, id = (scope.promises.get(of as string) ?? get(scope.open, of)).id } = given;
    const options = { ...pick(given, { level: "level", waitMs: "waitMs" }), signal };
    const { state, level, achieved, token } = await client(scope, given).status(String(id), options);
    return { state, level, achieved, token };
  },
  verdicts: async (scope, given, signal) => {
    const options = { ...pick(given, { level: "level", waitMs: "waitMs" }), signal };
    const verdicts = await client(scope, given).verdicts(given["tokens"] as string[], options);
    return verdicts.map((each) => ("error" in each ? { refused: each.error.code } : showVerdict(each)));
  },
  exposure: (scope, given) => ({ count: client(scope, given).exposure.count }),
  marks: (scope, given) => client(scope, given).marks,
  close: (scope, given) => client(scope, given).close(),
  followOutbox: async (scope, given, signal) => {
    const stop = new AbortController();
    const handled: Json[] = [];
    const options = {
      ...pick(given, { level: "level", maxAttempts: "maxAttempts" }),
      pollMs: 50,
      retryMs: 50,
      signal: AbortSignal.any([signal, stop.signal]),
    };
    const follow = followOutbox(
      client(scope, given),
      String(given["topic"]),
      async ({ key, payload, attempt }) => {
        if (given["failOn"] === payload) throw new Error("no");
        handled.push({ key, payload, attempt });
        if (handled.length === given["count"]) stop.abort();
      },
      options,
    );
    await follow;
    return handled;
  },
  verifyWebhook: async (_scope, given) => {
    const { id, event } = await verifyWebhook({
      body: String(given["body"]),
      headers: given["headers"] as Record<string, string>,
      secret: given["secrets"] as string[],
      now: () => Number(given["nowSeconds"]) * 1_000,
    });
    return { id, type: event.type, data: event.data };
  },
};

/** An error as every driver shows it. */
function showError(error: unknown): Json {
  if (error instanceof AbortError) return { class: "Cancelled" };
  if (error instanceof HighwaterError) {
    const { name, code, outcome, retry, status, sqlstate, constraint, statement, limit, exposure } = error;
    const { transactionId, open, retryAfterMs, message, level, metadata, position, successor } = error;
    const verdict = (error as HighwaterError & { verdict?: TokenVerdict }).verdict;
    const { token, state } = error as HighwaterError & { token?: string; state?: string };
    return {
      class: name,
      code,
      outcome,
      retry,
      status,
      sqlstate,
      constraint,
      statement,
      limit,
      exposure,
      transactionId,
      open,
      retryAfterMs,
      token,
      state,
      message,
      level,
      metadata,
      position,
      successor,
      runs: (error as HighwaterError & { runs?: number }).runs,
      verdict: verdict && showVerdict(verdict),
      store: error.store,
      parts: error.parts?.map(showPart),
    };
  }
  if (error instanceof WebhookVerificationError) return { class: error.name, code: error.code };
  if (error instanceof RaisedByBody)
    return { class: "RaisedByBody", message: error.message, runs: (error as { runs?: number }).runs };
  return { class: "DriverError", message: error instanceof Error ? (error.stack ?? "") : String(error) };
}

/** The errors of listeners that the SDK has printed. */
const printed: unknown[] = [];
const print = console.error;
console.error = (...parts: unknown[]) => {
  const raised = parts.filter((each) => each instanceof RaisedByListener);
  if (raised.length === 0) print(...parts);
  printed.push(...raised);
};
const reports = ({ error }: Listener): number => printed.filter((each) => each === error).length;

const scopes = new Map<string, Scope>();
const calls = new Map<number, AbortController>();

async function obey(request: Request): Promise<void> {
  const { call, scope: name, with: given } = request;
  const say = (answer: Json): void => {
    process.stdout.write(`${JSON.stringify({ call, ...answer })}\n`);
  };
  if (request.do === "cancel") {
    calls.get(Number(given["call"]))?.abort();
    say({ ok: null });
    return;
  }
  const scope = scopes.get(name) ?? new Scope();
  scopes.set(name, scope);
  const abort = new AbortController();
  calls.set(call, abort);
  try {
    if (request.do === "end") {
      scopes.delete(name);
      say({ ok: await scope.end() });
      return;
    }
    const run = Object.hasOwn(COMMANDS, request.do) ? COMMANDS[request.do] : undefined;
    if (run === undefined) throw new Error(`there is no command ${request.do}`);
    say({ ok: (await run(scope, given, abort.signal)) ?? null });
  } catch (error) {
    say({ error: showError(error) });
  } finally {
    calls.delete(call);
  }
}

for await (const line of createInterface({ input: process.stdin })) void obey(JSON.parse(line) as Request);
process.exit(0);
