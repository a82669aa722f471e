// Decides which clients may open a session, and as which role: with an API key of the role, by the
// server's own password check, or as the application's role where HTTP needs no key either.
import { HighwaterError } from "@highwater/protocol";
import { type Callers, ANYBODY, isAnonymous, isLoopback, ownerTag, type Principal } from "@highwater/service";
import { type Config } from "../config.ts";
import { roleUrl } from "../identity/role-url.ts";
import { type RoleUse, type RoleVetting } from "./role-vetting.ts";
import { Tally } from "./tally.ts";
import { int32, message } from "./frames/build.ts";
import { addressOf, type BackendAddress, type Relay } from "./startup/backend.ts";
import { type Greeted } from "./startup/handshake.ts";

export interface Admitted {
  readonly address: BackendAddress;
  readonly password: string | null;
  /** The session may use only the node's configured database. */
  readonly isBoundToDatabase: boolean;
  /** The owner of the session's transactions, with its limits. */
  readonly principal: Principal;
  readonly isAdministrator: boolean;
  /** The key's own time limits: the session's defaults, which the client can change. */
  readonly settings: Readonly<Record<string, string>>;
  /** Null: the gateway answers the server's password check itself. */
  readonly relay: Relay | null;
  /** Calls back when the credential expires or is revoked, or the role may no longer be used. */
  onEnded(callback: () => void): void;
  readonly leave: () => void;
}

export interface AuthenticationContext {
  readonly config: Config;
  readonly callers: Callers;
  readonly vetting: RoleVetting;
}

const CLEARTEXT_PASSWORD = message("R", int32(3));

export class Authentication {
  readonly #config: Config;
  readonly #callers: Callers;
  readonly #vetting: RoleVetting;
  /** Sessions of each key that has a limit of its own. */
  readonly #perKey = new Tally();

  constructor({ config, callers, vetting }: AuthenticationContext) {
    this.#config = config;
    this.#callers = callers;
    this.#vetting = vetting;
  }

  /** The node's address, for connections that need no log-in. */
  nodeAddress(node: string): BackendAddress {
    const { url, appUrl } = this.#specOf(node);
    return addressOf(appUrl ?? url);
  }

  #specOf(node: string): { readonly url: string; readonly appUrl?: string | undefined } {
    const spec = this.#config.topology.nodes.find(({ id }) => id === node);
    if (spec === undefined) throw new Error(`node ${node} is not configured`);
    return spec;
  }

  /** Errors: HighwaterError, and those of the connection. */
  async admit(greeted: Greeted, user: string, node: string): Promise<Admitted> {
    if (this.#config.pgAuth === "passthrough") return this.#passThrough(greeted, user, node);
    if (isAnonymous(this.#config.identity)) return this.#asApplication(user, node);
    return this.#byKey(greeted, user, node);
  }

  #asApplication(user: string, node: string): Admitted {
    const address = this.nodeAddress(node);
    if (user !== address.user)
      throw new HighwaterError("forbidden", {
        detail: `this gateway has no authentication, and serves the role "${address.user}" only`,
      });
    return { address, password: address.password, principal: ANYBODY, ...UNWATCHED };
  }

  /**
   * The role is not vetted: the client has the server's password for it and could connect to the
   * server directly. Test runners and restores log in this way with roles that create databases.
   */
  #passThrough({ socket, inbox, address: from }: Greeted, user: string, node: string): Admitted {
    const address = { ...this.nodeAddress(node), user, password: null };
    const relay: Relay = {
      isOfThisHost: isLoopback(from),
      toClient: (frame) => socket.write(frame),
      fromClient: () => inbox.frame(),
    };
    const id = `role ${user}`;
    const principal = { ...ANYBODY, id, owner: ownerTag(id), role: user };
    return { address, password: null, principal, ...UNWATCHED, relay };
  }

  async #byKey(
    { socket, inbox, isEncrypted, address: from }: Greeted,
    user: string,
    node: string,
  ): Promise<Admitted> {
    if (!isEncrypted && !isLoopback(this.#config.host))
      throw new HighwaterError("forbidden", {
        detail:
          "the password is an API key, which must not cross the network unencrypted; use sslmode=verify-full",
      });
    socket.write(CLEARTEXT_PASSWORD);
    // What a stranger sends instead is no news of the server, and not worth a line of the log.
    const frame = await inbox.frame().catch(() => null);
    const last = frame?.indexOf(0, 5) ?? -1;
    if (frame?.[0] !== 0x70 || last < 0)
      throw new HighwaterError("unauthenticated", { detail: "expected a password" });
    const credential = `Bearer ${frame.toString("utf8", 5, last)}`;
    // The credential may end while the session still logs in.
    const ended = Promise.withResolvers<undefined>();
    const end = (): void => {
      ended.resolve(undefined);
    };
    const { principal, leave } = await this.#callers.enterConnection(credential, from, end);
    const reads = !principal.scopes.has("write");
    const use: RoleUse = { node, role: user, reads };
    let uncount = (): void => undefined;
    try {
      uncount = this.#count(principal);
      if (reads && !principal.scopes.has("read"))
        throw new HighwaterError("forbidden", {
          detail: `the credential of ${principal.id} has neither the scope read nor write`,
        });
      if (principal.role !== user)
        throw new HighwaterError("forbidden", {
          detail: `the key ${principal.id} does not belong to the role "${user}"`,
        });
      await this.#vetting.check(use);
    } catch (cause) {
      uncount();
      leave();
      throw cause;
    }
    const unwatch = this.#vetting.watch(use, end);
    const url = roleUrl(this.#specOf(node).url, user, this.#config.rolePasswords.get(user));
    const address = addressOf(url);
    return {
      address,
      password: address.password,
      // A read-only role's rights are checked in that database only.
      isBoundToDatabase: reads,
      principal,
      isAdministrator: principal.scopes.has("admin"),
      settings: settingsOf(principal),
      relay: null,
      leave: () => {
        unwatch();
        uncount();
        leave();
      },
      onEnded: (callback) => {
        void ended.promise.then(callback);
      },
    };
  }

  /**
   * A session counts as one request in flight against the key's own concurrency. Errors:
   * `concurrency_limited`. Returns a function that ends the count.
   */
  #count({ id, limits: { concurrency } }: Principal): () => void {
    if (concurrency === null) return () => undefined;
    const open = this.#perKey.of(id);
    if (open >= concurrency)
      throw new HighwaterError("concurrency_limited", {
        detail: `${id} has ${String(open)} sessions, its limit concurrency; close one`,
        limit: { name: "concurrency", value: concurrency },
      });
    return this.#perKey.add(id);
  }
}

function settingsOf({ limits }: Principal): Record<string, string> {
  const { statementTimeoutMs, lockTimeoutMs } = limits;
  return {
    ...(statementTimeoutMs !== null && { statement_timeout: String(statementTimeoutMs) }),
    ...(lockTimeoutMs !== null && { lock_timeout: String(lockTimeoutMs) }),
  };
}

const UNWATCHED = {
  settings: {},
  isBoundToDatabase: false,
  isAdministrator: false,
  relay: null,
  onEnded: () => undefined,
  leave: () => undefined,
};
