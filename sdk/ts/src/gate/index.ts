/**
 * Output gates: a response leaves when everything that its request has committed or read is
 * durable. The handler's transactions stay fast; there is one wait at the end.
 * @module
 */
// This entry is for servers, and the only one that needs it.
// oxlint-disable-next-line no-restricted-imports
import { AsyncLocalStorage } from "node:async_hooks";
import { type Highwater, sql } from "../index.ts";
import { type Ungated, watchClient } from "./client.ts";
import { type NodeRequest, type NodeResponse, holdResponse } from "./node.ts";
import { type Holdable, type Refusal, Scope } from "./scope.ts";
import { holdRoute } from "./web.ts";

export { type NodeRequest, type NodeResponse } from "./node.ts";
export { type Holdable } from "./scope.ts";

/** Options of an output gate. */
export interface GateOptions {
  /** Level that the response waits for. Default: the client's. */
  readonly level?: string;
  /**
   * Longest wait of a response, and of each chunk of a stream, in milliseconds. Default: 10,000.
   */
  readonly timeoutMs?: number;
  /**
   * Headers of the answers that the gate gives itself, such as those of CORS. They must not depend
   * on the request's data.
   */
  readonly headers?: Readonly<Record<string, string>>;
}

/** Body of an answer that the gate gives itself. */
export interface GateState {
  /**
   * `pending`: not durable yet, and not lost. `lost`: a failure has discarded something that the
   * request committed or read. `unknown`: the gate does not know. `durable`: nothing can discard
   * it; only as the state of a receipt.
   */
  readonly state: "pending" | "lost" | "unknown" | "durable";
  /** Names everything that the request committed or read, for `OutputGate.status`. */
  readonly receipt: string;
  /**
   * With `lost`: who does it again. `service`: a transaction has the policy `onLost`, so the
   * request must not be sent again. `caller`: none has. Absent: not known yet.
   */
  readonly redo?: "service" | "caller";
}

/** What `OutputGate.status` answers. */
export interface GateStatus {
  /** HTTP status for it: 200 durable, 202 pending, 409 lost, 404 unknown. */
  readonly status: 200 | 202 | 404 | 409;
  /** The state, and nothing else. */
  readonly body: GateState;
}

/** The parts of a Fastify instance that the gate uses. */
export interface FastifyApp {
  /** Adds a hook to each request. */
  addHook: (...args: never[]) => unknown;
}

const TIMEOUT_MS = 10_000;
const RETRY_AFTER_S = "1";

/**
 * Holds the responses of requests until everything that they committed or read by this client is
 * durable. Create one per client. Code that runs in a request uses the client as before.
 *
 * The gate rolls back interactive transactions that a handler leaves open before it waits. When the
 * time is over it answers 202, and when something was lost 409, with the body of a `GateState` in
 * place of the response. Once the head of a stream has left, it cuts the connection instead.
 * Errors: throws if the client has a gate already.
 *
 * @example
 * ```ts
 * const gate = new OutputGate(hw, { timeoutMs: 5_000 });
 * app.use(gate.express);
 * app.post("/orders", async (_request, response) => {
 *   const { id } = await hw.transaction(sql`INSERT INTO orders VALUES (1)`);
 *   response.status(201).json({ id }); // leaves when the order is durable
 * });
 * app.get("/receipts/:receipt", async (request, response) => {
 *   const { status, body } = await gate.status(request.params.receipt);
 *   response.status(status).json(body);
 * });
 * ```
 */
export class OutputGate {
  readonly #hw: Highwater;
  readonly #options: GateOptions;
  readonly #scopes = new AsyncLocalStorage<Scope>();
  readonly #ungated: Ungated;

  constructor(hw: Highwater, options: GateOptions = {}) {
    this.#hw = hw;
    this.#options = options;
    this.#ungated = watchClient(hw, () => this.#scopes.getStore());
  }

  /** Middleware of Express and Connect: `app.use(gate.express)`, before the routes. */
  readonly express = (
    request: NodeRequest,
    response: NodeResponse,
    next: (error?: unknown) => void,
  ): void => {
    this.#scopes.run(this.#hold(request, response), () => {
      next();
    });
  };

  /**
   * Plugin of Fastify: `await app.register(gate.fastify)`. It holds the routes of the instance that
   * it is registered with.
   */
  readonly fastify = Object.assign(
    (app: FastifyApp, _options: unknown, done: () => void): void => {
      const scopes = new WeakMap<object, Scope>();
      type Hook = (
        request: { readonly raw: NodeRequest },
        reply: { readonly raw: NodeResponse },
        next: () => void,
      ) => void;
      const add = app.addHook.bind(app) as unknown as (name: string, hook: Hook) => unknown;
      add("onRequest", (request, reply, next) => {
        const scope = this.#hold(request.raw, reply.raw);
        scopes.set(request, scope);
        this.#scopes.run(scope, next);
      });
      // The body is read on the connection's own behalf; here the request goes on.
      add("preValidation", (request, _reply, next) => {
        this.#scopes.run(scopes.get(request) as Scope, next);
      });
      done();
    },
    { [Symbol.for("skip-override")]: true, [Symbol.for("fastify.display-name")]: "highwater-gate" },
  );

  /**
   * Wraps a handler that takes a `Request` and returns a `Response`, such as a route handler of
   * Next.js: `export const GET = gate.route(async (request) => …)`. An error or redirect that the
   * handler throws is held, too.
   *
   * @param handler Handler of one method of the route.
   */
  readonly route = <A extends readonly unknown[]>(
    handler: (...args: A) => Response | Promise<Response>,
  ): ((...args: A) => Promise<Response>) => {
    return (...args) => {
      const scope = this.#scope();
      return holdRoute(() => handler(...args), {
        isBypassed: () => scope.isBypassed,
        run: (work) => this.#scopes.run(scope, work),
        settle: (signal) => this.#settle(scope, signal),
        answer: (refusal) => this.#answer(refusal),
      });
    };
  };

  /** Lets the response of this request leave at once. Call it before the response begins. */
  bypass(): void {
    const scope = this.#scopes.getStore();
    if (scope) scope.isBypassed = true;
  }

  /**
   * Adds a transaction to what the response of this request waits for: one of another service, by
   * its token, or one on a connection of your own. The promise of one counts, too.
   *
   * @param held Token or transaction, or a promise of one.
   */
  hold(held: Holdable | PromiseLike<Holdable>): void {
    const scope = this.#scopes.getStore();
    if (typeof held === "object" && "then" in held) scope?.addLater(held);
    else scope?.add(held);
  }

  /**
   * Returns the state of a receipt from a 202. A receipt is no credential and contains no data.
   * Errors: those of `Highwater.verdicts`.
   *
   * @param receipt Receipt from the body of the 202.
   * @param options `waitMs`: time that the tracker may hold its answer while something is pending;
   * at most 60,000. Default: 0.
   */
  async status(receipt: string, options: { readonly waitMs?: number } = {}): Promise<GateStatus> {
    const { level } = this.#options;
    const verdicts = await this.#hw
      .session()
      .resume(receipt, { ...options, ...(level !== undefined && { level }) });
    const states = new Set<string>(verdicts.map(({ verdict }) => verdict));
    if (states.has("lost") || states.has("broken")) {
      const isServed = verdicts.some((each) => "redo" in each);
      const redo = isServed ? "service" : states.has("pending") ? undefined : "caller";
      return { status: 409, body: { state: "lost", receipt, ...(redo && { redo }) } };
    }
    if (states.has("unknown") || states.has("expired"))
      return { status: 404, body: { state: "unknown", receipt } };
    if (states.has("pending")) return { status: 202, body: { state: "pending", receipt } };
    return { status: 200, body: { state: "durable", receipt } };
  }

  #scope(): Scope {
    const floor = (timeoutMs: number): Promise<Awaited<ReturnType<Ungated>>> =>
      this.#ungated(sql`SELECT`, { readOnly: true, timeoutMs });
    return new Scope(this.#hw, this.#hw.session(), floor as never);
  }

  #hold(request: NodeRequest, response: NodeResponse): Scope {
    const scope = this.#scope();
    // The connection reads the body: its listeners would run in the context of the connection.
    const emit = request.emit.bind(request);
    request.emit = (...args) => this.#scopes.run(scope, () => emit(...args));
    holdResponse(response, {
      isBypassed: () => scope.isBypassed,
      settle: (signal) => this.#settle(scope, signal),
      answer: (refusal) => this.#answer(refusal),
    });
    return scope;
  }

  #settle(scope: Scope, signal: AbortSignal): Promise<Refusal | undefined> {
    const { level, timeoutMs = TIMEOUT_MS } = this.#options;
    return scope.settle({ ...(level !== undefined && { level }), timeoutMs, signal });
  }

  #answer(refusal: Refusal): { status: number; headers: Record<string, string>; body: string } {
    const isLost = refusal.state === "lost";
    return {
      status: isLost ? 409 : 202,
      headers: {
        ...this.#options.headers,
        "content-type": "application/json",
        "cache-control": "no-store",
        ...(!isLost && { "retry-after": RETRY_AFTER_S }),
      },
      body: JSON.stringify(refusal satisfies GateState),
    };
  }
}
