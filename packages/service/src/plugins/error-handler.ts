// Sends every error of the service, as problem+json with a code of the catalogue.
import { type Socket } from "node:net";
import { type FastifyError, type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import { type ErrorCode, HighwaterError, type Problem } from "@highwater/protocol";
import { type Log } from "../log.ts";
import { noteFailure, traceFields } from "../telemetry/tracer.ts";

const RETRY_MS_DEFAULT = 1_000;

const BY_FASTIFY_CODE: Readonly<Record<string, ErrorCode>> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: "unsupported_media_type",
  FST_ERR_CTP_BODY_TOO_LARGE: "body_too_large",
};

export function makeErrorHandler(log: Log) {
  return (error: unknown, request: FastifyRequest, reply: FastifyReply): void => {
    const problem = toHighwaterError(error, { log, request });
    noteFailure(request.trace, problem);
    sendProblem(reply, problem);
  };
}

export function installErrorHandling(app: FastifyInstance, log: Log): void {
  app.setErrorHandler(makeErrorHandler(log));
  app.setNotFoundHandler((_request, reply) => {
    sendProblem(reply, new HighwaterError("not_found"));
  });
}

function toHighwaterError(error: unknown, context: { log: Log; request: FastifyRequest }): HighwaterError {
  const { log, request } = context;
  if (error instanceof HighwaterError) {
    if (error.code === "internal") logFault(log, request, error);
    return error;
  }
  const { code = "", statusCode, message } = error as Partial<FastifyError>;
  const known = BY_FASTIFY_CODE[code];
  if (known === "body_too_large") return bodyTooLarge(request.server.initialConfig.bodyLimit);
  if (known !== undefined) return new HighwaterError(known);
  // Fastify's own refusals of a malformed request. Their texts contain no internals.
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500)
    return new HighwaterError("invalid_request", { detail: message });
  logFault(log, request, error);
  return new HighwaterError("internal");
}

export function bodyTooLarge(limitBytes = 0): HighwaterError {
  return new HighwaterError("body_too_large", {
    detail: `The request body exceeds bodyLimitBytes (${String(limitBytes)}).`,
    limit: { name: "bodyLimitBytes", value: limitBytes },
  });
}

function logFault(log: Log, request: FastifyRequest, cause: unknown): void {
  const { method, routeOptions, trace } = request;
  log.error("request_failed", { method, route: routeOptions.url, ...traceFields(trace), cause });
}

/** The body of an error. A retryable error has a time to retry after. */
export function problemOf(error: HighwaterError): Problem {
  const problem = error.toProblem();
  return problem.retry === "wait"
    ? { ...problem, retryAfterMs: problem.retryAfterMs ?? RETRY_MS_DEFAULT }
    : problem;
}

export function sendProblem(reply: FastifyReply, error: HighwaterError): void {
  const problem = problemOf(error);
  const { retryAfterMs } = problem;
  if (retryAfterMs !== undefined)
    void reply.header("retry-after", String(Math.max(1, Math.ceil(retryAfterMs / 1_000))));
  // RFC 6750, section 3: asks for a credential.
  if (problem.status === 401) void reply.header("www-authenticate", "Bearer");
  // As text, because the JSON serializer would set its own content type.
  void reply
    .code(problem.status)
    .header("content-type", "application/problem+json")
    .send(JSON.stringify(problem));
}

const TOO_LATE = "ERR_HTTP_REQUEST_TIMEOUT";

/** Node's errors for requests that it could not read. All others mean that it is not HTTP. */
const UNREADABLE: Readonly<Record<string, string>> = {
  HPE_HEADER_OVERFLOW: "The request's headers exceed the limit of 16 KiB.",
  [TOO_LATE]: "The request did not arrive in time.",
};

/** Refuses bytes that are not a request, on the socket itself, because no route can answer them. */
export function refuseConnection(error: Error & { code?: string }, socket: Socket): void {
  // The client keeps this connection in reserve and would take the refusal for the answer to its
  // next request.
  const isUnused = error.code === TOO_LATE && socket.bytesRead === 0;
  if (error.code === "ECONNRESET" || isUnused || !socket.writable) {
    socket.destroy();
    return;
  }
  const detail = UNREADABLE[error.code ?? ""] ?? "Not an HTTP request.";
  const body = JSON.stringify(new HighwaterError("invalid_request", { detail }).toProblem());
  const head = [
    "HTTP/1.1 400 Bad Request",
    "content-type: application/problem+json",
    `content-length: ${String(Buffer.byteLength(body))}`,
    "connection: close",
  ];
  socket.end(`${head.join("\r\n")}\r\n\r\n${body}`);
}
