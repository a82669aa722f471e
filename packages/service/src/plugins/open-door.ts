// Protects a service without authentication from web pages. A browser on this machine connects to
// loopback for any page, and a page whose host name resolves to this address counts as same-origin.
// So pages have to be allowed by name, and requests have to name this machine. The service's own
// page may call it where the browser reached it by an address, or as localhost: no other page can
// have that origin.
import { isIP } from "node:net";
import { type FastifyInstance, type FastifyRequest } from "fastify";
import { HighwaterError } from "@highwater/protocol";
import { isLoopback } from "../settings/readers.ts";

export interface OpenDoor {
  /** The host on which the service listens. */
  readonly host: string;
  /** Origins of the pages that may call. */
  readonly origins: readonly string[];
}

const FOR_CALLERS = /^\/(?:v1|internal)\/|^\/sql$/;
/** A browser sends one of these, or nothing, with a request that no other page caused. */
const OWN_SITES: ReadonlySet<unknown> = new Set([undefined, "none", "same-origin"]);

export function installOpenDoor(app: FastifyInstance, door: OpenDoor): void {
  app.addHook("onRequest", (request, _reply, done) => {
    // A preflight changes nothing and is answered elsewhere.
    const isWork = isForCallers(request) && request.method !== "OPTIONS";
    done(isWork ? refusalOf(request, door) : undefined);
  });
}

/**
 * Judged by the route, because the request's own path can have other spellings, such as /%73ql.
 */
export function isForCallers({ routeOptions: { url = "" } }: FastifyRequest): boolean {
  return FOR_CALLERS.test(url);
}

function refusalOf({ headers, protocol }: FastifyRequest, door: OpenDoor): HighwaterError | undefined {
  const { origin, host = "" } = headers;
  const isOfPage = origin !== undefined || !OWN_SITES.has(headers["sec-fetch-site"]);
  if (isOfPage && !door.origins.includes(origin ?? "") && !isOwnPage(origin, protocol, host))
    return new HighwaterError("forbidden", {
      detail: `This service has no authentication, so it accepts pages of configured CORS origins only, not of ${origin ?? "another site"}.`,
    });
  if (isLoopback(door.host) && !isLoopback(nameOf(host)))
    return new HighwaterError("forbidden", {
      detail: `This service has no authentication and listens on loopback, so it accepts requests for localhost, 127.0.0.1 or [::1] only, not for ${host}.`,
    });
  return undefined;
}

function isOwnPage(origin: string | undefined, protocol: string, host: string): boolean {
  const name = nameOf(host);
  return (isLoopback(name) || isIP(name) !== 0) && origin === `${protocol}://${host.toLowerCase()}`;
}

function nameOf(host: string): string {
  return host.replace(/:[0-9]*$/, "").replace(/^\[|\]$/g, "");
}
