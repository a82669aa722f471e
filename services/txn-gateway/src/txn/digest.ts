// A digest of what a transaction runs: a replay under the same id must be the same transaction.
import { hash } from "node:crypto";
import { type Isolation, type Statement } from "@highwater/protocol";

/** Signed 64 bits, never 0: by accident two bodies have the same once in 2^64. It guards nobody against himself. */
export function digestOf(body: {
  readonly isolation: Isolation;
  readonly statements: readonly Statement[];
}): bigint {
  return digestText(JSON.stringify([body.isolation, body.statements]));
}

/** Of every interactive transaction: its statements are not known when its receipt is written. */
export const INTERACTIVE = digestText("interactive");

function digestText(text: string): bigint {
  const digest = hash("sha256", text, "buffer").readBigInt64BE(0);
  return digest === 0n ? 1n : digest;
}
