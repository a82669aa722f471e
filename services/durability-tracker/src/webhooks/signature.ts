// Secrets and signatures of Standard Webhooks 1.0: HMAC-SHA256 over `{id}.{timestamp}.{body}`.
import { createHmac, randomBytes } from "node:crypto";
import { WEBHOOK_LIMITS } from "@highwater/protocol";

const PREFIX = "whsec_";

export interface Secrets {
  readonly current: string;
  /** Signs as well until it expires. */
  readonly previous: { readonly secret: string; readonly untilMs: number } | null;
}

export function makeSecret(): string {
  return PREFIX + randomBytes(WEBHOOK_LIMITS.secretBytes).toString("base64");
}

interface Signed {
  readonly id: string;
  readonly timestampSeconds: number;
  readonly body: string;
}

function sign(secret: string, { id, timestampSeconds, body }: Signed): string {
  const key = Buffer.from(secret.slice(PREFIX.length), "base64");
  return `v1,${createHmac("sha256", key)
    .update(`${id}.${String(timestampSeconds)}.${body}`)
    .digest("base64")}`;
}

/** The three headers. The previous secret also signs while it is valid. */
export function signatureHeaders(
  secrets: Secrets,
  message: { readonly id: string; readonly body: string },
  nowMs: number,
): Readonly<Record<"webhook-id" | "webhook-timestamp" | "webhook-signature", string>> {
  const timestampSeconds = Math.floor(nowMs / 1_000);
  const { current, previous } = secrets;
  const valid = previous !== null && nowMs < previous.untilMs ? [current, previous.secret] : [current];
  return {
    "webhook-id": message.id,
    "webhook-timestamp": String(timestampSeconds),
    "webhook-signature": valid.map((secret) => sign(secret, { ...message, timestampSeconds })).join(" "),
  };
}
