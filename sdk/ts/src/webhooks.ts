/**
 * Verifies webhooks of Highwater with Web Crypto alone. They follow Standard Webhooks 1.0 and are
 * signed with HMAC-SHA256.
 * @module
 */

/** Content of a webhook. `data` depends on `type`: the webhook reference lists them. */
export interface WebhookEvent<T = Record<string, unknown>> {
  /**
   * Type of the event: `transaction.lost`, `transaction.durable`, `durability.stalled`, ... A newer
   * service may send more types.
   */
  readonly type: string;
  /** Time of the event, as in RFC 3339. */
  readonly timestamp: string;
  /** Details of the event; they depend on `type`. */
  readonly data: T;
}

/** A webhook whose signature and time are verified. */
export interface VerifiedWebhook<T = Record<string, unknown>> {
  /** Id of the event, the same for every delivery. Skip an id that you have already handled. */
  readonly id: string;
  /** The parsed body. */
  readonly event: WebhookEvent<T>;
}

/** Input of `verifyWebhook`. */
export interface WebhookRequest {
  /** The body as received, byte for byte: never parsed and serialized again. */
  readonly body: string | Uint8Array;
  /** Request headers, names in any case: `webhook-id`, `webhook-timestamp`, `webhook-signature`. */
  readonly headers: Headers | Readonly<Record<string, string | readonly string[] | undefined>>;
  /** Signing secret, `whsec_…`; pass both while a new one replaces an old one. */
  readonly secret: string | readonly string[];
  /**
   * Largest accepted difference between the webhook's time and now, in milliseconds. Default:
   * 300,000. An older webhook may be a replay.
   */
  readonly toleranceMs?: number;
  /** Clock in milliseconds since 1970, for tests. Default: `Date.now`. */
  readonly now?: () => number;
}

/** The webhook could not be verified and must not be trusted. */
export class WebhookVerificationError extends Error {
  override name = "WebhookVerificationError";
  /**
   * Reason: `missing_headers`, `stale_timestamp`, `no_matching_signature`, `invalid_secret` or
   * `invalid_body`.
   */
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/**
 * Verifies a webhook and returns its event. It must be signed with one of the secrets, and its time
 * must be within the tolerance.
 * Errors: `WebhookVerificationError`. Respond with status 400, and do nothing that the webhook
 * says.
 *
 * @param request Body, headers and secret.
 * @example
 * ```ts
 * export async function receive(request: Request): Promise<Response> {
 *   try {
 *     const secret = ["whsec_bmV3", "whsec_b2xk"]; // two while one replaces the other
 *     const { headers } = request;
 *     const { id, event } = await verifyWebhook({ body: await request.text(), headers, secret });
 *     console.log(id, event.type, event.data);
 *     return new Response(null, { status: 204 });
 *   } catch {
 *     return new Response(null, { status: 400 });
 *   }
 * }
 * ```
 */
export async function verifyWebhook<T = Record<string, unknown>>(
  request: WebhookRequest,
): Promise<VerifiedWebhook<T>> {
  const { body, toleranceMs = 300_000, now = Date.now } = request;
  const [id, time, signatures] = ["id", "timestamp", "signature"].map((name) =>
    header(request.headers, `webhook-${name}`),
  );
  if (!id || !time || !signatures || !/^\d{1,15}$/.test(time))
    throw new WebhookVerificationError("missing_headers", "a webhook header is missing or malformed");
  if (Math.abs(now() - Number(time) * 1_000) > toleranceMs)
    throw new WebhookVerificationError("stale_timestamp", "the webhook is too old or in the future");
  const encoder = new TextEncoder();
  const bytes = typeof body === "string" ? encoder.encode(body) : body;
  const head = encoder.encode(`${id}.${time}.`);
  const signed = new Uint8Array(head.length + bytes.length);
  signed.set(head);
  signed.set(bytes, head.length);
  const secrets = typeof request.secret === "string" ? [request.secret] : request.secret;
  if (!(await isSigned(signed, signatures, secrets)))
    throw new WebhookVerificationError("no_matching_signature", "the webhook is not signed with this secret");
  try {
    return { id, event: JSON.parse(new TextDecoder().decode(bytes)) as WebhookEvent<T> };
  } catch {
    throw new WebhookVerificationError("invalid_body", "the webhook body is not JSON");
  }
}

async function isSigned(
  signed: Uint8Array<ArrayBuffer>,
  signatures: string,
  secrets: readonly string[],
): Promise<boolean> {
  const candidates = signatures
    .split(" ")
    .filter((each) => each.startsWith("v1,"))
    .map((each) => fromBase64(each.slice(3)));
  for (const secret of secrets) {
    const raw = fromBase64(secret.replace(/^whsec_/, ""));
    if (raw === undefined || raw.length === 0)
      throw new WebhookVerificationError("invalid_secret", "not a webhook secret");
    const algorithm = { name: "HMAC", hash: "SHA-256" };
    const key = await crypto.subtle.importKey("raw", raw, algorithm, false, ["verify"]);
    for (const candidate of candidates) {
      // Web Crypto compares in constant time.
      if (candidate !== undefined && (await crypto.subtle.verify("HMAC", key, candidate, signed)))
        return true;
    }
  }
  return false;
}

function header(headers: WebhookRequest["headers"], name: string): string | undefined {
  if (headers instanceof Headers) return headers.get(name) ?? undefined;
  const key = Object.keys(headers).find((each) => each.toLowerCase() === name);
  const value = key === undefined ? undefined : headers[key];
  return typeof value === "string" ? value : value?.[0];
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  } catch {
    return undefined;
  }
}
