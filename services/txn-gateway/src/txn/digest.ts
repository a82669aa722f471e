// A digest of what a transaction runs: a replay under the same id must be the same transaction.
import { hash } from "node:crypto";
import { type Isolation, type Statement } from "@highwater/protocol";

/** 64 bits. */
const DIGITS = 16;

/**
 * Signed 64 bits, never 0: by accident two bodies have the same once in 2^64. It does not protect a
 * client from its own mistakes.
 */
export function digestOf(body: {
  readonly isolation: Isolation;
  readonly statements: readonly Statement[];
}): bigint {
  return digestText(JSON.stringify([body.isolation, body.statements]));
}

/** Of every interactive transaction: its statements are not known when its receipt is written. */
export const INTERACTIVE = digestText("interactive");

function digestText(text: string): bigint {
  const digest = BigInt.asIntN(64, BigInt(`0x${hash("sha256", text).slice(0, DIGITS)}`));
  return digest === 0n ? 1n : digest;
}
