// POST /sql, the Neon serverless HTTP wire: reads the request, calls, and answers in that wire's
// own form. neon/ has the rules.
import { type ServerResponse } from "node:http";
import { type FastifyError, type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import { HighwaterError, type TransactionResponse, type TxnId } from "@highwater/protocol";
import { bodyTooLarge, type Log, noteFailure, traced } from "@highwater/service";
import { type Pace, sendHeld } from "../answers/answer-stream.ts";
import { type ResultHold } from "../answers/result-memory.ts";
import { type Deps } from "../deps.ts";
import { type Gateway } from "../gateway.ts";
import { decodedBytes, neonAnswer, type TransactionPart, transactionPart } from "../neon/answer.ts";
import { neonError, type NeonErrorResponse, rowsMissing } from "../neon/error.ts";
import { authorizationOf } from "../neon/headers.ts";
import { readRequest } from "../neon/request.ts";
import { type Caller } from "../txn/caller.ts";
import { newTxnId } from "../txn/new-id.ts";
import { type Accepted, type RequestRules } from "../txn/request.ts";

export interface NeonContext {
  readonly run: (
    request: Accepted,
    caller: Caller,
  ) => Promise<{ readonly body: TransactionResponse; readonly hold: ResultHold }>;
  readonly pace: Pace;
  /**
   * Returns the caller of a request by its credential. The caller counts as gone when the response
   * is closed.
   */
  readonly enter: (authorization: string | undefined, response: ServerResponse) => Promise<Caller>;
  readonly rules: RequestRules;
  /** Returns an id for a transaction whose client has chosen none. */
  readonly newId: () => TxnId;
  readonly log: Pick<Log, "error">;
}

export function neonContext(deps: Pick<Deps, "log">, gateway: Gateway): NeonContext {
  return {
    run: (request, caller) => gateway.transactions.run(request, caller),
    enter: (authorization, response) => gateway.callers.enter(authorization, response),
    rules: gateway.rules,
    pace: gateway.pace,
    // Uses the clock that the id will be checked against.
    newId: () => newTxnId(gateway.primary.serverNowMs()),
    log: deps.log,
  };
}

/**
 * Adds the routes in a scope of their own: Fastify gets the driver's body as text, and errors have
 * another shape than elsewhere.
 */
export function neonRoutes(app: FastifyInstance, parts: NeonContext): void {
  const callers = new WeakMap<FastifyRequest, Caller>();
  void app.register((scope, _options, done) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser("*", { parseAs: "string" }, (_request, body, parsed) => {
      parsed(null, body);
    });
    scope.setErrorHandler((cause, request, reply) => {
      const error = toHighwaterError(cause, parts.log, app.initialConfig.bodyLimit);
      noteFailure(request.trace, error);
      sendError(reply, neonError(error, null));
    });
    // Runs before the body is read, so that a stranger's is never read.
    scope.addHook("onRequest", async (request, reply) => {
      callers.set(request, traced(await parts.enter(authorizationOf(request.headers), reply.raw), request));
    });
    scope.post("/sql", (request, reply) => {
      const caller = callers.get(request);
      if (caller === undefined) throw new Error("a request without a caller");
      return answer(request, reply, { ...parts, caller });
    });
    done();
  });
}

async function answer(
  { headers, body }: FastifyRequest,
  reply: FastifyReply,
  { caller, ...parts }: NeonContext & { readonly caller: Caller },
): Promise<FastifyReply> {
  const mayWrite = caller.principal.scopes.has("write");
  const asked = readRequest({ headers, body, mayWrite }, parts);
  const { accepted } = asked;
  let held: Awaited<ReturnType<NeonContext["run"]>>;
  try {
    held = await parts.run(accepted, caller);
  } catch (cause) {
    // Adds the id, by which the client can ask for the outcome: if the service chose it, it is in
    // no other answer.
    const error = toHighwaterError(cause, parts.log);
    noteFailure(caller.trace, error);
    return sendError(reply, neonError(error, accepted.id));
  }
  const { body: response, hold } = held;
  const transaction = transactionPart(response);
  nameTransaction(reply, transaction);
  const { results } = response;
  const truncated = results?.findIndex((result) => result.truncated === true) ?? -1;
  if (results === null || truncated >= 0) {
    hold.release();
    return sendError(
      reply,
      results === null
        ? rowsMissing("replayed", transaction, null)
        : rowsMissing("truncated", transaction, truncated),
    );
  }
  // Decoded values take memory of their own.
  if (!hold.take(decodedBytes(results, asked.shape))) {
    hold.release();
    return sendError(reply, rowsMissing("truncated", transaction, 0));
  }
  const answered = neonAnswer(response, results, asked.shape);
  return sendHeld(reply.code(200).headers(asked.echo), { body: answered, hold }, parts.pace);
}

/** Sets headers, which a wrapper of the driver's fetch can read without the body. */
function nameTransaction(reply: FastifyReply, { id, state, token }: TransactionPart): void {
  void reply.headers({
    "highwater-transaction-id": id,
    "highwater-state": state,
    "highwater-token": token,
  });
}

function sendError(reply: FastifyReply, { status, body }: NeonErrorResponse): FastifyReply {
  const { retryAfterMs } = body.highwater;
  if (retryAfterMs !== null)
    void reply.header("retry-after", String(Math.max(1, Math.ceil(retryAfterMs / 1_000))));
  return reply.code(status).send(body);
}

function toHighwaterError(cause: unknown, log: Pick<Log, "error">, bodyLimit?: number): HighwaterError {
  if (cause instanceof HighwaterError && cause.code !== "internal") return cause;
  const { code, statusCode, message } = cause as Partial<FastifyError>;
  if (code === "FST_ERR_CTP_BODY_TOO_LARGE") return bodyTooLarge(bodyLimit);
  // Fastify's own errors for a malformed request. Their texts reveal nothing of the service.
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500)
    return new HighwaterError("invalid_request", { detail: message });
  log.error("request_failed", { method: "POST", route: "/sql", cause });
  return cause instanceof HighwaterError ? cause : new HighwaterError("internal");
}
