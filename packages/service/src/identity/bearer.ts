// Accepts API keys and JSON Web Tokens side by side. The first characters of a credential show
// which of the two it is.
import { KEY_PREFIX } from "./key-text.ts";
import { type Authenticator, bearerOf, type Principal, unauthenticated } from "./principal.ts";

export interface BearerOptions {
  /** Null: this kind of credential is not accepted. */
  readonly keys: Authenticator | null;
  readonly tokens: Authenticator | null;
}

export class BearerAuthenticator implements Authenticator {
  readonly #keys: Authenticator | null;
  readonly #tokens: Authenticator | null;

  constructor({ keys, tokens }: BearerOptions) {
    this.#keys = keys;
    this.#tokens = tokens;
  }

  async authenticate(authorization: string | undefined, isKnownOnly?: boolean): Promise<Principal> {
    const isKey = bearerOf(authorization).startsWith(KEY_PREFIX);
    const authenticator = isKey ? this.#keys : this.#tokens;
    if (authenticator !== null) return authenticator.authenticate(authorization, isKnownOnly);
    throw unauthenticated(`This service accepts no ${isKey ? "API keys" : "JSON Web Tokens"}.`);
  }

  watch(onChanged: (id: string) => void): void {
    this.#keys?.watch?.(onChanged);
  }

  start(): void {
    this.#keys?.start();
    this.#tokens?.start();
  }

  stop(): void {
    this.#keys?.stop();
    this.#tokens?.stop();
  }
}
