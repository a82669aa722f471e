// Accepts JSON Web Tokens as bearer credentials, signed by one issuer whose public keys are in its
// key set (JWKS). Decides what a token has to contain and what its claims mean; a library checks
// signatures and reads key sets.
import {
  createRemoteJWKSet,
  customFetch,
  errors,
  type JWTHeaderParameters,
  type JWTPayload,
  jwtVerify,
  type JWTVerifyGetKey,
} from "jose";
import { HighwaterError } from "@highwater/protocol";
import { type Clock } from "@highwater/runtime";
import { TokenCache } from "./token-cache.ts";
import { jwtPrincipal, type TokenClaims } from "./jwt-claims.ts";
import {
  type Authenticator,
  authenticationUnavailable,
  bearerOf,
  type Principal,
  unauthenticated,
} from "./principal.ts";
import { tooManyRefused } from "./refused-addresses.ts";

export interface JwtOptions extends TokenClaims {
  readonly jwksUrl: string;
  /** A token's `aud` must contain one of them. */
  readonly audiences: readonly string[];
  readonly clockToleranceMs: number;
  readonly jwksTimeoutMs: number;
  /** After reading the key set, the time before an unknown key makes the service read it again. */
  readonly jwksCooldownMs: number;
  /**
   * A key that the issuer has withdrawn is trusted for at most this long, and a token verified with
   * it for as long again.
   */
  readonly jwksMaxAgeMs: number;
  /** How many verified tokens are remembered. */
  readonly cacheSize: number;
  readonly clock: Clock;
}

/**
 * Asymmetric ones only. With a shared secret every gateway could make tokens; where both kinds are
 * allowed, an attacker can use the public key as the secret.
 */
const ALGORITHMS = [
  ...["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"],
  ...["ES256", "ES384", "ES512", "EdDSA", "Ed25519"],
];
/** After a failed read of the key set, the time before the next, however many tokens arrive. */
const FAILED_PAUSE_MS = 1_000;
/** Checks use the process's thread pool, which also resolves host names and reads files. */
const VERIFYING_MAX = 64;
/**
 * RFC 9068, section 2.1, and what issuers write that do not follow it. Other kinds of tokens have
 * other types.
 */
const ACCESS_TOKEN = /^(?:application\/)?(?:at\+jwt|jwt)$/i;

export class JwtAuthenticator implements Authenticator {
  readonly #options: JwtOptions;
  readonly #cache: TokenCache;
  readonly #verifying = new Map<string, Promise<Principal>>();
  readonly #key: JWTVerifyGetKey;
  #failedAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: JwtOptions) {
    this.#options = options;
    this.#cache = new TokenCache(options.cacheSize);
    this.#key = this.#keySet();
  }

  start(): void {
    // The first token makes the service read the key set.
  }

  stop(): void {
    // Nothing runs in the background.
  }

  /** Verified tokens that are remembered now. */
  get cached(): number {
    return this.#cache.size;
  }

  async authenticate(authorization: string | undefined, isKnownOnly = false): Promise<Principal> {
    const token = bearerOf(authorization);
    const key = TokenCache.keyOf(token);
    const known = this.#cache.get(key, this.#options.clock.wallMs());
    if (known !== null) return known;
    // Concurrent requests with the same new token share one verification.
    let verifying = this.#verifying.get(key);
    if (verifying === undefined) {
      if (isKnownOnly) throw tooManyRefused();
      if (this.#verifying.size >= VERIFYING_MAX)
        throw authenticationUnavailable("Too many tokens are being checked at once.");
      verifying = this.#verify(token, key).finally(() => {
        this.#verifying.delete(key);
      });
      this.#verifying.set(key, verifying);
    }
    return verifying;
  }

  async #verify(token: string, cacheKey: string): Promise<Principal> {
    const { issuer, audiences, clockToleranceMs, jwksMaxAgeMs, clock } = this.#options;
    const nowMs = clock.wallMs();
    let payload: JWTPayload;
    let header: JWTHeaderParameters;
    try {
      ({ payload, protectedHeader: header } = await jwtVerify(token, this.#key, {
        issuer,
        audience: [...audiences],
        algorithms: ALGORITHMS,
        clockTolerance: clockToleranceMs / 1_000,
        currentDate: new Date(nowMs),
        requiredClaims: ["exp", "sub"],
      }));
    } catch (cause) {
      throw cause instanceof HighwaterError ? cause : unauthenticated(refusal(cause), cause);
    }
    if (!isAccessToken(header.typ)) throw unauthenticated("The token's typ is not that of an access token.");
    const principal = jwtPrincipal(payload, this.#options);
    const expiresAtMs = (payload.exp ?? 0) * 1_000 + clockToleranceMs;
    this.#cache.put(cacheKey, principal, Math.min(expiresAtMs, nowMs + jwksMaxAgeMs));
    return principal;
  }

  /**
   * If the key set cannot be read, the error asks the caller to retry, not to discard the token.
   */
  #keySet(): JWTVerifyGetKey {
    const { jwksUrl, jwksTimeoutMs, jwksCooldownMs, jwksMaxAgeMs, clock } = this.#options;
    const keySet = createRemoteJWKSet(new URL(jwksUrl), {
      timeoutDuration: jwksTimeoutMs,
      cooldownDuration: jwksCooldownMs,
      cacheMaxAge: jwksMaxAgeMs,
      [customFetch]: async (url, options) => {
        if (clock.monotonicMs() - this.#failedAtMs < FAILED_PAUSE_MS)
          throw new Error("the last attempt to read the key set failed");
        return fetch(url, options);
      },
    });
    return async (header, token) => {
      try {
        return await keySet(header, token);
      } catch (cause) {
        if (isAboutToken(cause)) throw cause;
        if (clock.monotonicMs() - this.#failedAtMs >= FAILED_PAUSE_MS) this.#failedAtMs = clock.monotonicMs();
        throw authenticationUnavailable("The issuer's key set (JWKS) cannot be read now; retry.", cause);
      }
    };
  }
}

function isAccessToken(typ: string | undefined): boolean {
  return typ === undefined || ACCESS_TOKEN.test(typ);
}

/** The key set was read, and no single key in it fits the token. */
function isAboutToken(cause: unknown): boolean {
  return cause instanceof errors.JWKSNoMatchingKey || cause instanceof errors.JWKSMultipleMatchingKeys;
}

/** Enough for a legitimate holder. The library's messages may quote the token. */
function refusal(cause: unknown): string {
  if (cause instanceof errors.JWTExpired) return "The token has expired.";
  if (cause instanceof errors.JWTClaimValidationFailed)
    return `The token's claim ${cause.claim} is missing or not what this service accepts.`;
  if (cause instanceof errors.JOSEAlgNotAllowed) return "The token's signature algorithm is not accepted.";
  if (isAboutToken(cause)) return "The token's key is not in the issuer's key set.";
  return "The token is malformed, or its signature is wrong.";
}
