// No authentication: all callers are the same principal, with the rights of the service's own role.
import { type Authenticator, DEFAULT_LIMITS, NOBODY, type Principal, SCOPES } from "./principal.ts";

export const ANYBODY: Principal = Object.freeze({
  id: "anybody",
  owner: NOBODY,
  role: null,
  scopes: new Set(SCOPES),
  limits: DEFAULT_LIMITS,
  isEveryOwner: true,
});

export class AnonymousAuthenticator implements Authenticator {
  authenticate(): Promise<Principal> {
    return Promise.resolve(ANYBODY);
  }

  start(): void {
    // There are no credentials to load.
  }

  stop(): void {
    // `start` started nothing.
  }
}
