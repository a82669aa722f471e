// A Fastify application with the parts that all services share: limits, problem answers and their
// explanations, 404 and 405, JSON bodies.
import Fastify, { type FastifyInstance } from "fastify";
import { isLogged, type Log } from "./log.ts";
import { installCors } from "./plugins/cors.ts";
import { installErrorReference } from "./plugins/error-reference.ts";
import { installErrorHandling, makeErrorHandler, refuseConnection } from "./plugins/error-handler.ts";
import { installJsonBody } from "./plugins/json-body.ts";
import { installOpenDoor } from "./plugins/open-door.ts";
import { type Elsewhere, installRouteTable } from "./plugins/route-table.ts";
import { installTracing } from "./plugins/trace.ts";
import { type ServerCertificate } from "./settings/tls.ts";
import { type Tracer } from "./telemetry/tracer.ts";

export interface ServerOptions {
  readonly bodyLimitBytes: number;
  readonly log: Log;
  /** Origins of the pages that may call from a browser. Default: none. */
  readonly corsOrigins?: readonly string[];
  /** Null: plain HTTP. */
  readonly certificate?: ServerCertificate | null;
  /** The host on which it listens without authentication. */
  readonly openOn?: string | undefined;
  /** Cuts open connections when the application closes. */
  readonly cutOnClose?: boolean;
  /** What another service serves; a 404 of this one says so. */
  readonly elsewhere?: Elsewhere;
  /** Absent: nothing is traced. */
  readonly tracer?: Tracer | undefined;
}

/**
 * Fastify gives up on closing after this time. It has to outlast the draining of open transactions
 * and requests.
 */
const CLOSE_LIMIT_MS = 60_000;
/** Limit for a body that arrives slowly. */
const REQUEST_TIMEOUT_MS = 60_000;
/**
 * Longer than the proxies keep their connections; otherwise they would send requests into a closing
 * one.
 */
const KEEP_ALIVE_MS = 75_000;

export function makeServer(options: ServerOptions): FastifyInstance {
  const { bodyLimitBytes, log, corsOrigins = [], cutOnClose = false, tracer, openOn } = options;
  const { certificate = null } = options;
  const app: FastifyInstance = Fastify({
    // Null is plain HTTP.
    https: certificate,
    logger: false,
    bodyLimit: bodyLimitBytes,
    requestTimeout: REQUEST_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    pluginTimeout: CLOSE_LIMIT_MS,
    // The application's builder answers instead, in the same shape as all other errors.
    return503OnClosing: false,
    forceCloseConnections: cutOnClose,
    frameworkErrors: makeErrorHandler(log),
    clientErrorHandler: refuseConnection,
  });
  // Installed first, so that refusals of the other plugins are traced, too.
  installTracing(app, tracer);
  installErrorHandling(app, log);
  installCors(app, corsOrigins);
  if (openOn !== undefined) installOpenDoor(app, { host: openOn, origins: corsOrigins });
  installRouteTable(app, options.elsewhere);
  installJsonBody(app);
  installErrorReference(app);
  if (certificate !== null) noteFailedHandshakes(app, log);
  return app;
}

/** Any connection can cause one. */
function noteFailedHandshakes(app: FastifyInstance, log: Log): void {
  let count = 0;
  app.server.on("tlsClientError", (error: Error & { code?: string }) => {
    // A port probe, or a client that refused the certificate and reports it itself.
    if (error.code === "ECONNRESET") return;
    if (!isLogged(++count)) return;
    const reason =
      error.code === "ERR_SSL_HTTP_REQUEST"
        ? "A client sent plain HTTP to this TLS port. Its URL of this service must begin with https."
        : "A TLS handshake failed.";
    log.warn("tls_handshake_failed", { reason, count, cause: error });
  });
}
