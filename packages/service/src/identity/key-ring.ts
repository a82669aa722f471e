// Keeps all API keys in memory and refreshes them from the store, so that a request costs a look-up
// and a hash, but no query. A change takes effect here within one refresh. While the store cannot
// be read, the keys last read stay valid.
import { type Clock, sleep } from "@highwater/runtime";
import { type ApiKey, type KeyReader } from "@highwater/store";
import { type Log } from "../log.ts";
import { isSecret, type KeyText, parseKeyText } from "./key-text.ts";
import {
  type Authenticator,
  authenticationUnavailable,
  bearerOf,
  ownerTag,
  type Principal,
  unauthenticated,
} from "./principal.ts";
import { tooManyRefused } from "./refused-addresses.ts";

export interface KeyRingOptions {
  /** The ring closes it when it stops. */
  readonly reader: KeyReader;
  readonly clock: Clock;
  readonly log: Log;
  /** The authoritative primary and its epoch, as the service knows them now. */
  readonly primaryEpoch: () => { readonly node: string; readonly epoch: string } | null;
  readonly refreshMs: number;
}

/**
 * Reads of changes alone would miss deleted rows, and rows that were changed without the service.
 */
const WHOLE_REFRESH_MS = 60_000;
/** The shortest time between reads that unknown keys cause, however many arrive. */
const UNKNOWN_KEY_PAUSE_MS = 250;
const UNKNOWN_KEY_WAIT_MS = 3_000;
const UNKNOWN_KEYS_WAITING_MAX = 1_000;

interface Entry {
  readonly key: ApiKey;
  readonly principal: Principal;
  readonly isRevoked: boolean;
}

/** The node from which the keys were last read, and how far. */
interface Progress {
  readonly node: string;
  readonly epoch: string | null;
  readonly after: bigint;
  readonly wholeAtMs: number;
}

export class KeyRing implements Authenticator {
  readonly #options: KeyRingOptions;
  readonly #stop = new AbortController();
  #entries = new Map<string, Entry>();
  #progress: Progress | null = null;
  #refreshing: Promise<boolean> | null = null;
  /** When the last refresh began, and whether the primary answered it. */
  #refreshedAtMs = Number.NEGATIVE_INFINITY;
  #wasCertain = false;
  /**
   * The refresh for which requests with an unknown key wait. It has yet to begin, because one that
   * is under way may miss the key.
   */
  #next: Promise<boolean> | null = null;
  #waiting = 0;
  #isFailing = false;
  #onChanged: (id: string) => void = () => undefined;

  constructor(options: KeyRingOptions) {
    this.#options = options;
  }

  start(): void {
    void this.#run();
  }

  stop(): void {
    this.#stop.abort();
    this.#options.reader.close();
  }

  /** The keys have been read at least once. */
  get isLoaded(): boolean {
    return this.#progress !== null;
  }

  get size(): number {
    return this.#entries.size;
  }

  async authenticate(authorization: string | undefined, isKnownOnly = false): Promise<Principal> {
    const text = parseKeyText(bearerOf(authorization));
    if (text === null) throw unauthenticated("The credential is not an API key.");
    const known = this.#entries.get(text.id);
    if (known === undefined && isKnownOnly) throw tooManyRefused();
    return this.#check(text, known ?? (await this.#lookAgain(text.id)));
  }

  watch(onChanged: (id: string) => void): void {
    this.#onChanged = onChanged;
  }

  #check({ secret }: KeyText, { key, principal, isRevoked }: Entry): Principal {
    // No constant time for unknown ids: an id is not secret.
    if (!isSecret(secret, key.secretHash)) throw unknownKey();
    if (isRevoked) throw unauthenticated(`The key ${key.id} was revoked.`);
    if (key.expiresAtMs !== null && this.#options.clock.wallMs() >= key.expiresAtMs)
      throw unauthenticated(`The key ${key.id} has expired.`);
    return principal;
  }

  /** Waits for a refresh, because the key may have been created just now. */
  async #lookAgain(id: string): Promise<Entry> {
    const unreadable = (): Error => authenticationUnavailable("The key store cannot be read now; retry.");
    if (this.#waiting >= UNKNOWN_KEYS_WAITING_MAX) throw unreadable();
    const enough = new AbortController();
    this.#waiting++;
    try {
      this.#next ??= this.#refreshNext();
      const { clock } = this.#options;
      const tooLate = sleep(clock, UNKNOWN_KEY_WAIT_MS, enough.signal).then(() => false);
      const isCertain = await Promise.race([this.#next, tooLate]);
      const entry = this.#entries.get(id);
      if (entry !== undefined) return entry;
      throw isCertain ? unknownKey() : unreadable();
    } finally {
      this.#waiting--;
      enough.abort();
    }
  }

  /** The result of the first refresh that begins after this call; a regular refresh will do. */
  async #refreshNext(): Promise<boolean> {
    const { clock } = this.#options;
    const askedAtMs = clock.monotonicMs();
    for (;;) {
      await this.#refreshing;
      if (this.#refreshedAtMs > askedAtMs) {
        this.#next = null;
        return this.#wasCertain;
      }
      const pauseMs = this.#refreshedAtMs + UNKNOWN_KEY_PAUSE_MS - clock.monotonicMs();
      if (pauseMs <= 0 || this.#stop.signal.aborted) break;
      await sleep(clock, pauseMs, this.#stop.signal);
    }
    this.#next = null;
    return this.#refresh();
  }

  async #run(): Promise<void> {
    const { clock, refreshMs } = this.#options;
    while (!this.#stop.signal.aborted) {
      await this.#refresh();
      await sleep(clock, refreshMs, this.#stop.signal);
    }
  }

  /**
   * Refreshes, one at a time. True when the primary answered, and a missing key therefore does not
   * exist. Never rejects.
   */
  #refresh(): Promise<boolean> {
    if (this.#stop.signal.aborted) return Promise.resolve(false);
    this.#refreshing ??= this.#read().then((isCertain) => {
      this.#refreshing = null;
      this.#wasCertain = isCertain;
      return isCertain;
    });
    return this.#refreshing;
  }

  async #read(): Promise<boolean> {
    const { clock, log, reader } = this.#options;
    const primaryEpoch = this.#options.primaryEpoch();
    this.#refreshedAtMs = clock.monotonicMs();
    let failure: unknown = null;
    for (const node of this.#inOrder(primaryEpoch?.node)) {
      const epoch = node === primaryEpoch?.node ? primaryEpoch.epoch : null;
      const before = this.#progressOn(node, epoch);
      try {
        const keys = await reader.readKeys(node, before?.after ?? null);
        this.#take(keys, { node, epoch, before });
        if (this.#isFailing) log.info("keys_readable", { node });
        this.#isFailing = false;
        return epoch !== null;
      } catch (cause) {
        failure = cause;
      }
      if (this.#stop.signal.aborted) return false;
    }
    if (!this.#isFailing) log.warn("keys_unreadable", { known: this.#entries.size, cause: failure });
    this.#isFailing = true;
    return false;
  }

  /** The primary first, then the node that answered last, then the others. */
  #inOrder(primary: string | undefined): readonly string[] {
    const others = this.#options.reader.nodes.map(({ id }) => id);
    return [...new Set([primary, this.#progress?.node, ...others])].filter((node) => node !== undefined);
  }

  /**
   * Null when all keys have to be read: on another node or in another epoch, the stamps belong to
   * another history.
   */
  #progressOn(node: string, epoch: string | null): Progress | null {
    const last = this.#progress;
    if (last === null || last.node !== node || last.epoch !== epoch) return null;
    return this.#options.clock.monotonicMs() - last.wholeAtMs < WHOLE_REFRESH_MS ? last : null;
  }

  #take(
    keys: readonly ApiKey[],
    from: { readonly node: string; readonly epoch: string | null; readonly before: Progress | null },
  ): void {
    const { node, epoch, before } = from;
    const isPrimary = epoch !== null;
    // Only the primary's answer proves that a key was deleted; a replica may lag.
    const entries = isPrimary && before === null ? new Map<string, Entry>() : this.#entries;
    const changed: string[] = [];
    for (const key of keys) {
      const known = this.#entries.get(key.id);
      if (known !== undefined && !isPrimary && key.changed < known.key.changed) continue;
      // A failover may undo a revocation in the store, but not here.
      const isRevoked = key.revokedAtMs !== null || known?.isRevoked === true;
      if (known !== undefined && known.key.changed !== key.changed) changed.push(key.id);
      entries.set(key.id, { key, principal: principalOf(key), isRevoked });
    }
    const removed = [...this.#entries.keys()].filter((id) => !entries.has(id));
    this.#entries = entries;
    const after = keys.reduce((max, { changed }) => (changed > max ? changed : max), before?.after ?? 0n);
    this.#progress = {
      node,
      epoch,
      after,
      wholeAtMs: before?.wholeAtMs ?? this.#options.clock.monotonicMs(),
    };
    for (const id of [...removed, ...changed]) this.#onChanged(id);
  }
}

function principalOf({ id, owner, role, scopes, limits, minLevel, onLost }: ApiKey): Principal {
  const principal = { id, owner: ownerTag(owner), role, scopes: new Set(scopes), limits };
  return Object.freeze({
    ...principal,
    ...(minLevel !== undefined && { minLevel }),
    ...(onLost !== undefined && { onLost }),
  });
}

function unknownKey(): Error {
  return unauthenticated("The key is unknown.");
}
