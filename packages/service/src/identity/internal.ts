// Authenticates the services of one cluster to each other by a shared secret.
import { createHmac, hash, timingSafeEqual } from "node:crypto";
import { type Authenticator, DEFAULT_LIMITS, NOBODY, type Principal, unauthenticated } from "./principal.ts";

const PREFIX = "hwi_";
const CREDENTIAL = /^bearer +(hwi_[A-Za-z0-9_-]+) *$/i;

/** A gateway, which speaks for all its callers. */
export const FELLOW_SERVICE: Principal = Object.freeze({
  id: "service",
  owner: NOBODY,
  role: null,
  scopes: new Set(["read"] as const),
  limits: DEFAULT_LIMITS,
  isEveryOwner: true,
  isService: true,
});

/**
 * The bearer credential that one service sends to another. Derived, because the secret may contain
 * any characters.
 */
export function internalCredential(secret: string): string {
  return PREFIX + createHmac("sha256", secret).update("highwater/internal/v1").digest("base64url");
}

export interface InternalOptions {
  /** All of them are accepted, so that a secret can be replaced. */
  readonly secrets: readonly string[];
  /** Decides on every other credential. */
  readonly others: Authenticator;
}

export class InternalAuthenticator implements Authenticator {
  readonly #known: readonly Buffer[];
  readonly #others: Authenticator;

  constructor({ secrets, others }: InternalOptions) {
    this.#known = secrets.map((secret) => digest(internalCredential(secret)));
    this.#others = others;
  }

  async authenticate(authorization: string | undefined, isKnownOnly?: boolean): Promise<Principal> {
    const credential = CREDENTIAL.exec(authorization ?? "")?.[1];
    if (credential === undefined) return this.#others.authenticate(authorization, isKnownOnly);
    const given = digest(credential);
    // Compares with all of them, in a time that reveals nothing about a partial match.
    const matches = this.#known.filter((known) => timingSafeEqual(known, given));
    if (matches.length > 0) return FELLOW_SERVICE;
    throw unauthenticated("The credential is not the internal secret that this cluster's services share.");
  }

  watch(onChanged: (id: string) => void): void {
    this.#others.watch?.(onChanged);
  }

  start(): void {
    this.#others.start();
  }

  stop(): void {
    this.#others.stop();
  }
}

function digest(text: string): Buffer {
  return hash("sha256", text, "buffer");
}
