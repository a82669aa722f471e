/**
 * One promise and one session over several stores. A store is a database with its own gateways and
 * trackers; each has a client of its own.
 * @module
 * @example
 * ```ts
 * import { Highwater, sql } from "@highwater/sdk";
 * import { Stores } from "@highwater/sdk/stores";
 *
 * await using orders = new Highwater({ url: "https://highwater.example" });
 * await using billing = new Highwater({ url: "https://billing.example" });
 * const stores = new Stores({ orders, billing });
 *
 * const order = await orders.transaction(sql`INSERT INTO note VALUES (${"an order"})`);
 * const invoice = await billing.transaction(sql`INSERT INTO note VALUES (${"its invoice"})`);
 * for (const { store, state } of await stores.all([order, invoice]).durable({ timeoutMs: 10_000 }))
 *   console.log(store, state); // "durable"
 * ```
 */
import type { Highwater } from "./edge.ts";
import { isLoss, refusedUse } from "./entry-errors.ts";
import type { StorePart } from "./errors.ts";
import {
  AbortError,
  type DurabilityPromise,
  type DurableOptions,
  DurabilityTimeoutError,
  HighwaterError,
  type InvalidRequestError,
  type RefusedToken,
  type ResumeOptions,
  type SessionOptions,
  TokenRefusedError,
  type TokenVerdict,
} from "./index.ts";

export type { StorePart } from "./errors.ts";

/** Longest token of a session, in characters: it has to fit into a header. */
const TOKEN_MAX = 8_000;
const TOKEN_PREFIX = "hwm1";
const SESSION_PREFIX = "hws1";
const NAME = /^[a-z][\w-]{0,31}$/i;

/** Clients by the names of their stores. */
export type StoreClients = Readonly<Record<string, Highwater>>;

/** Options of a wait in several stores. */
export interface StoresDurableOptions extends DurableOptions {
  /**
   * What ends a wait while a part is still pending: `error` (the default) rejects with a
   * `DurabilityTimeoutError`, `pending` resolves, and `state` of that part is `pending`.
   */
  readonly onTimeout?: "error" | "pending";
}

/** Something to wait for in one store. */
interface Awaited {
  readonly store: string;
  readonly transactionId?: string;
  readonly durable: (options: DurableOptions) => Promise<unknown>;
}

/** How the wait for a part ended. `failure` is any error, also a timeout. */
interface Ended extends StorePart {
  readonly failure: unknown;
}

/**
 * Stores of one application by name. Creates promises and sessions that span them. Holds nothing
 * that needs closing: close the clients.
 *
 * Errors: `invalid_options` if there is no store, a name does not match
 * `[A-Za-z][A-Za-z0-9_-]{0,31}`, or two names have the same client.
 *
 * @example
 * ```ts
 * const stores = new Stores({ notes: hw });
 * const tx = await hw.transaction(sql`INSERT INTO note VALUES (${"hello"})`);
 * try {
 *   await stores.all([tx]).durable({ level: "region", timeoutMs: 5_000 });
 * } catch (error) {
 *   if (!(error instanceof TransactionLostError)) throw error;
 *   console.log("lost in", error.store);
 *   for (const { store, state } of error.parts ?? []) console.log(store, state);
 * }
 * ```
 */
export class Stores<S extends StoreClients = StoreClients> {
  readonly #clients: S;

  /** @param clients Clients by the names of their stores. */
  constructor(clients: S) {
    const names = Object.keys(clients);
    const wrong = names.find((name) => !NAME.test(name));
    if (wrong !== undefined)
      throw refusedUse("invalid_options", `${wrong} is no name of a store: 1 to 32 letters, digits, _ or -`);
    if (names.length === 0) throw refusedUse("invalid_options", "name at least one store");
    if (new Set(Object.values(clients)).size < names.length)
      throw refusedUse("invalid_options", `two of ${names.join(", ")} have the same client`);
    this.#clients = { ...clients };
  }

  /**
   * Joins promises of these stores into one: it is durable when all of them are, and lost when one
   * of them is. Sends nothing.
   * Errors: `unknown_store` if a promise is of another client.
   *
   * @param promises Committed transactions, or promises of tokens, in any order. Several may be of
   * the same store.
   */
  all(promises: readonly DurabilityPromise[]): StoresPromise {
    return new StoresPromise(
      promises.map((promise) => ({
        store: this.#storeOf(promise),
        transactionId: promise.id,
        durable: (options) => promise.durable(options),
      })),
    );
  }

  /**
   * Creates a session over all stores: a session of each, with one wait and one token for all of
   * them. Sends nothing.
   *
   * @param options Options of the session in each store.
   */
  session(options: SessionOptions = {}): StoresSession<S> {
    return new StoresSession(this.#clients, options);
  }

  #storeOf({ watcher, id }: DurabilityPromise): string {
    const found = Object.entries(this.#clients).find(([, { core }]) => core.watcher === watcher);
    if (found === undefined)
      throw unknownStore(`the client of transaction ${id}`, Object.keys(this.#clients));
    return found[0];
  }
}

/** One promise for transactions of several stores. `Stores.all` returns one. */
export class StoresPromise {
  readonly #parts: readonly Awaited[];

  /** @internal */
  constructor(parts: readonly Awaited[]) {
    this.#parts = parts;
  }

  /**
   * Waits until every transaction is durable, and resolves with a part for each, in their order.
   * The trackers of all stores are asked at the same time. Resolves at once if there is nothing to
   * wait for. Ending a wait changes nothing: you can wait again.
   *
   * A loss ends the wait at once. Any other failure of one store waits for the others, because it
   * must not hide a loss.
   * Errors: those of `DurabilityPromise.durable`, each with `store` and `parts`.
   * `TransactionLostError` or `PromiseBrokenError` if one is lost or broken;
   * `DurabilityTimeoutError`, which is not a loss.
   *
   * @param options `level`: level to wait for in all stores. Default: each transaction's own.
   */
  durable(options: StoresDurableOptions = {}): Promise<StorePart[]> {
    return whenAll(this.#parts, options);
  }

  /**
   * Waits until every transaction is durable, then calls the function and resolves with its result.
   * If one does not become durable, the function is never called.
   * Errors: those of `durable()` and of the function.
   *
   * @param run Function that receives the parts. Called at most once.
   */
  async afterDurable<T>(
    run: (parts: readonly StorePart[]) => T | Promise<T>,
    options: DurableOptions = {},
  ): Promise<T> {
    return run(await whenAll(this.#parts, { ...options, onTimeout: "error" }));
  }
}

/**
 * A session of each store, with one wait and one token for all of them. `Stores.session` creates
 * one. It needs no closing.
 *
 * @example
 * ```ts
 * const stores = new Stores({ notes: hw });
 * const session = stores.session({ causal: true });
 * await session.of("notes").transaction(sql`INSERT INTO note VALUES (${"hello"})`);
 * const header = session.token; // for another process, which has the same names of stores
 *
 * const next = stores.session({ causal: true });
 * await next.resume(header);
 * const read = await next.of("notes").transaction(sql`SELECT * FROM note`, { readOnly: true });
 * console.log(read.rows.length > 0); // sees the insert, on any node
 * await next.durable({ timeoutMs: 30_000 });
 * ```
 */
export class StoresSession<S extends StoreClients = StoreClients> {
  readonly #clients: S;
  readonly #sessions: ReadonlyMap<string, ReturnType<Highwater["session"]>>;

  /** @internal */
  constructor(clients: S, options: SessionOptions) {
    this.#clients = clients;
    this.#sessions = new Map(
      Object.entries(clients).map(([name, client]) => [name, client.session(options)] as const),
    );
  }

  /**
   * Returns the session of one store. It runs transactions there.
   * Errors: `unknown_store`.
   *
   * @param store Name of the store.
   */
  of<N extends keyof S & string>(store: N): ReturnType<S[N]["session"]> {
    const session = this.#sessions.get(store);
    if (session === undefined) throw unknownStore(store, [...this.#sessions.keys()]);
    return session as ReturnType<S[N]["session"]>;
  }

  /**
   * Waits until everything that the session has committed or read so far, in any store, is durable.
   * Resolves with a part for each store.
   * Errors: those of `StoresPromise.durable`. The session then forgets the transactions that
   * `parts` report as lost or broken, so the next call waits for the others.
   *
   * @param options `level`: level to wait for in all stores. Default: each client's own.
   */
  durable(options: StoresDurableOptions = {}): Promise<StorePart[]> {
    const parts = [...this.#sessions].map(([store, session]): Awaited => ({
      store,
      durable: (own) => session.durable(own),
    }));
    return whenAll(parts, options);
  }

  /**
   * What the session remembers in all stores, as text of at most 8,000 characters: letters, digits
   * and `_-.~`, so that it can be the value of a header or a cookie. `Session.token` says which
   * transactions each store has in it.
   * Errors: `token_too_long` if more than about 60 transactions are pending. Wait with `durable()`,
   * or pass on `of(name).token` of each store.
   */
  get token(): string {
    const stores = [...this.#sessions].flatMap(([name, { token }]) =>
      token === SESSION_PREFIX ? [] : [name + token.slice(SESSION_PREFIX.length)],
    );
    return checkLength([TOKEN_PREFIX, ...stores].join("~"), "wait with durable() first");
  }

  /**
   * Takes over the session of a stored token. Asks the trackers of its stores at the same time, and
   * resolves with the verdicts of each store, as `Session.resume` does. A store that is not in the
   * token has none.
   * Errors: `invalid_token` if the text is not a token of such a session, `token_too_long`,
   * `unknown_store`: nothing was asked then. Those of `hw.verdicts`, with `store`: the other stores
   * were taken over, and you can call again.
   *
   * @param token Value of `StoresSession.token`.
   */
  async resume(
    token: string,
    options: ResumeOptions = {},
  ): Promise<{ [N in keyof S]: (TokenVerdict | RefusedToken)[] }> {
    const stored = parseToken(token, this.#clients);
    const found = await Promise.allSettled(
      [...this.#sessions].map(async ([name, session]) => {
        const text = stored.get(name);
        return [name, text === undefined ? [] : await session.resume(text, options)] as const;
      }),
    );
    const names = [...this.#sessions.keys()];
    const verdicts = found.map((each, at) => {
      if (each.status === "rejected") throw inStore(each.reason, names[at] ?? "");
      return each.value;
    });
    return Object.fromEntries(verdicts) as { [N in keyof S]: (TokenVerdict | RefusedToken)[] };
  }
}

/** Session tokens by store. Every token in them is checked here, before any tracker is asked. */
function parseToken(text: string, clients: StoreClients): ReadonlyMap<string, string> {
  checkLength(text, "it is not a token that a session made");
  const [prefix, ...stores] = text.split("~");
  const stored = new Map<string, string>();
  for (const each of stores) {
    const [name = "", ...tokens] = each.split(".");
    if (!NAME.test(name) || tokens.length === 0 || stored.has(name)) throw malformed();
    stored.set(name, [SESSION_PREFIX, ...tokens].join("."));
  }
  if (prefix !== TOKEN_PREFIX) throw malformed();
  for (const name of stored.keys())
    if (!Object.hasOwn(clients, name)) throw unknownStore(name, Object.keys(clients));
  for (const [name, session] of stored)
    for (const token of session.split(".").slice(1)) clients[name]?.promise(token);
  return stored;
}

function checkLength(text: string, fix: string): string {
  if (text.length <= TOKEN_MAX) return text;
  const length = String(text.length);
  throw refusedUse(
    "token_too_long",
    `the session's token has ${length} characters, at most ${String(TOKEN_MAX)}: ${fix}`,
  );
}

/** Whether the wait ended without an answer about its part. */
const isOpen = (error: unknown): boolean =>
  error instanceof DurabilityTimeoutError || error instanceof AbortError;

async function whenAll(
  awaited: readonly Awaited[],
  { onTimeout = "error", signal, ...options }: StoresDurableOptions,
): Promise<StorePart[]> {
  if (signal?.aborted) throw aborted(signal.reason);
  const stop = new AbortController();
  const onAbort = (): void => {
    stop.abort(signal?.reason);
  };
  signal?.addEventListener("abort", onAbort);
  const ended = await Promise.all(
    awaited.map(async ({ store, transactionId, durable }): Promise<Ended> => {
      try {
        await durable({ ...options, signal: stop.signal });
        return { store, transactionId, state: "durable", failure: undefined };
      } catch (failure) {
        if (isLoss(failure)) stop.abort();
        return endOf(store, transactionId, failure);
      }
    }),
  ).finally(() => signal?.removeEventListener("abort", onAbort));
  const parts = ended.map(({ failure: _, ...part }) => part);
  const first = (is: (failure: unknown) => boolean): Ended | undefined =>
    ended.find(({ failure }) => failure !== undefined && is(failure));
  const worst =
    first(isLoss) ??
    first((failure) => failure instanceof AbortError) ??
    first((failure) => !isOpen(failure)) ??
    first(isOpen);
  const isLate = worst?.failure instanceof DurabilityTimeoutError;
  if (worst === undefined || (isLate && onTimeout === "pending")) return parts;
  throw inStore(worst.failure, worst.store, parts);
}

function endOf(store: string, transactionId: string | undefined, failure: unknown): Ended {
  if (isOpen(failure)) return { store, transactionId, state: "pending", failure };
  // Anything else is a fault of this package, which no caller can treat as a verdict.
  if (!(failure instanceof HighwaterError)) throw failure;
  const missing = failure instanceof TokenRefusedError ? "unknown" : "pending";
  return {
    store,
    transactionId: transactionId ?? failure.transactionId,
    state: failure.verdict?.verdict ?? missing,
    error: failure,
    failure,
  };
}

/** The same error, of the same class, that names the store. */
function inStore(error: unknown, store: string, parts?: readonly StorePart[]): unknown {
  if (!(error instanceof HighwaterError)) return error;
  const Class = error.constructor as typeof HighwaterError;
  return new Class(`store ${store}: ${error.message}`, {
    ...error,
    store,
    parts,
    cause: error.cause ?? error,
  });
}

function aborted(cause: unknown): AbortError {
  const message = "the signal ended the call; outcome: applied";
  return new AbortError(message, { code: "call_aborted", outcome: "applied", retry: "never", cause });
}

function malformed(): InvalidRequestError {
  return refusedUse("invalid_token", "not a token of a session over several stores: pass its `token`");
}

function unknownStore(what: string, names: readonly string[]): InvalidRequestError {
  return refusedUse("unknown_store", `${what} is not one of the stores: ${names.join(", ")}`);
}
