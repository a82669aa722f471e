// Passes a replay on to a gateway: the console's page may call no other origin than its tracker's.
// The tracker checks the caller; the gateway checks the same credential again, and acts with it.
import { type IncomingMessage, request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import { text } from "node:stream/consumers";
import { type FastifyInstance } from "fastify";
import { HighwaterError, ReplayRequest, validate } from "@highwater/protocol";
import { callerOf, explainTls, requireScope } from "@highwater/service";

/** What of the gateway's answer goes to the caller. */
const HEADERS = ["content-type", "retry-after"] as const;

/** A gateway that accepts no connection is down; one that has accepted it may be replaying. */
const CONNECT_LIMIT_MS = 5_000;
const ANSWER_LIMIT_MS = 300_000;

interface Gateways {
  /** Base URLs, nearest first. */
  readonly gateways: readonly string[];
  /** The authorities that sign their certificates, in PEM; null: those that Node knows. */
  readonly tlsAuthority: string | null;
}

/** To be registered in a scope that knows its callers. */
export function replayRoutes(scope: FastifyInstance, to: Gateways): void {
  scope.post("/v1/lost/replay", async (request, reply) => {
    requireScope(callerOf(request).principal, "contents:replay");
    const checked = validate(ReplayRequest, request.body ?? {});
    if (!checked.ok)
      throw new HighwaterError("invalid_request", {
        detail: checked.faults.join("; "),
        fields: checked.faults,
      });
    const { authorization } = request.headers;
    const answer = await firstAnswer(to, JSON.stringify(checked.value), authorization);
    for (const name of HEADERS) {
      const value = answer.headers[name];
      if (value !== undefined) void reply.header(name, value);
    }
    return reply
      .code(answer.statusCode ?? 0)
      .header("cache-control", "no-store")
      .send(await text(answer));
  });
}

/** The next gateway is asked where one does not answer. A replay takes effect once all the same. */
async function firstAnswer(
  { gateways, tlsAuthority }: Gateways,
  body: string,
  authorization: string | undefined,
): Promise<IncomingMessage> {
  if (gateways.length === 0)
    throw new HighwaterError("keep_unavailable", {
      detail: "This tracker has no TRACKER_GATEWAYS. Send the call to a gateway.",
    });
  const faults: unknown[] = [];
  for (const gateway of gateways) {
    try {
      return await ask(`${gateway}/v1/lost/replay`, { body, authorization, tlsAuthority });
    } catch (cause) {
      faults.push(cause);
    }
  }
  throw new HighwaterError(
    "primary_unavailable",
    { detail: "No gateway of TRACKER_GATEWAYS answers.", retryAfterMs: 1_000 },
    { cause: new AggregateError(faults) },
  );
}

interface Question {
  readonly body: string;
  readonly authorization: string | undefined;
  readonly tlsAuthority: string | null;
}

/** Not by `fetch`, which takes no authority. No redirect is followed. */
function ask(url: string, { body, authorization, tlsAuthority }: Question): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const request = (url.startsWith("https:") ? httpsRequest : httpRequest)(url, {
      method: "POST",
      agent: false,
      headers: {
        "content-type": "application/json",
        "content-length": Buffer.byteLength(body),
        ...(authorization !== undefined && { authorization }),
      },
      timeout: CONNECT_LIMIT_MS,
      ...(tlsAuthority !== null && { ca: tlsAuthority }),
    });
    request.on("socket", (socket) => {
      socket.once("connect", () => socket.setTimeout(ANSWER_LIMIT_MS));
    });
    request.on("timeout", () => request.destroy(new Error("the gateway did not answer in time")));
    request.on("response", resolve);
    request.on("error", (cause) => {
      reject(explainTls(url, cause));
    });
    request.end(body);
  });
}
