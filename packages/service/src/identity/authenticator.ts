// Chooses the authenticator by the settings.
import { type Clock } from "@highwater/runtime";
import { type KeyReader } from "@highwater/store";
import { type Log } from "../log.ts";
import { AnonymousAuthenticator } from "./anonymous.ts";
import { BearerAuthenticator } from "./bearer.ts";
import { JwtAuthenticator } from "./jwt.ts";
import { KeyRing } from "./key-ring.ts";
import { type Authenticator } from "./principal.ts";
import { type IdentitySettings } from "./settings.ts";

const CLOCK_TOLERANCE_MS = 30_000;
const JWKS_TIMEOUT_MS = 5_000;
const JWKS_COOLDOWN_MS = 30_000;
const JWKS_MAX_AGE_MS = 10 * 60_000;
const TOKENS_REMEMBERED = 10_000;

export interface AuthenticatorDeps {
  readonly clock: Clock;
  readonly log: Log;
  /** Opens the store of the API keys. Called only where keys are accepted. */
  readonly keys: () => KeyReader;
}

export function makeAuthenticator(
  settings: IdentitySettings,
  deps: AuthenticatorDeps,
  primaryEpoch: () => { readonly node: string; readonly epoch: string } | null,
): Authenticator {
  const { jwt, keyRefreshMs } = settings;
  if (!settings.keys && jwt === null) return new AnonymousAuthenticator();
  const { clock, log } = deps;
  return new BearerAuthenticator({
    keys: settings.keys
      ? new KeyRing({ reader: deps.keys(), clock, log, primaryEpoch, refreshMs: keyRefreshMs })
      : null,
    tokens:
      jwt === null
        ? null
        : new JwtAuthenticator({
            ...jwt,
            clock,
            clockToleranceMs: CLOCK_TOLERANCE_MS,
            jwksTimeoutMs: JWKS_TIMEOUT_MS,
            jwksCooldownMs: JWKS_COOLDOWN_MS,
            jwksMaxAgeMs: JWKS_MAX_AGE_MS,
            cacheSize: TOKENS_REMEMBERED,
          }),
  });
}
