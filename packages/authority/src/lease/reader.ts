// Reads a leader key and its lease in a loop. Owns the loop, and how long a reading stays valid.
import { type Clock, sleep } from "@highwater/runtime";
import { type Candidates, candidatesOf } from "./candidates.ts";
import { type EtcdClient, type EtcdKey } from "./etcd.ts";
import { type LeaseSource, type LeaseTerm, type LeaseView } from "./view.ts";

export interface LeaseReaderOptions {
  readonly etcd: Pick<EtcdClient, "readKey" | "readTogether" | "remainingMs">;
  readonly key: string;
  readonly clock: Clock;
  readonly pollMs: number;
  /** Node ids by the names in the key. A name that is missing here is itself a node id. */
  readonly members: Readonly<Record<string, string>>;
}

/**
 * Allows for clocks that differ in speed, and for the time that a commit takes once it has begun.
 */
export const LEASE_MARGIN_MS = 250;
/** Without a primary to follow, every moment is downtime. */
const IMPATIENT_MS = 100;

export class LeaseReader implements LeaseSource {
  readonly #options: LeaseReaderOptions;
  readonly #stop = new AbortController();
  #wake = new AbortController();
  #view: LeaseView = { kind: "unread" };
  #failure: string | null = null;
  #onChange: () => void = () => undefined;

  constructor(options: LeaseReaderOptions) {
    this.#options = options;
  }

  get view(): LeaseView {
    return this.#view;
  }

  get failure(): string | null {
    return this.#failure;
  }

  start(onChange: () => void): void {
    this.#onChange = onChange;
    void this.#poll();
  }

  stop(): void {
    this.#stop.abort();
    this.#wake.abort();
  }

  wake(): void {
    // After a failure the loop already polls quickly.
    if (this.#stop.signal.aborted || this.#failure !== null) return;
    this.#wake.abort();
    this.#wake = new AbortController();
  }

  async confirm(term: LeaseTerm): Promise<boolean> {
    const { etcd, key } = this.#options;
    const held = await this.#confirmBy(term, async () => {
      const leader = await etcd.readKey(key);
      return { leader };
    });
    return held !== null;
  }

  async candidates(term: LeaseTerm): Promise<Candidates | null> {
    const { etcd, key } = this.#options;
    const scope = key.slice(0, key.lastIndexOf("/") + 1);
    const prefix = `${scope}members/`;
    const held = await this.#confirmBy(term, async () => {
      const names = [key, `${scope}sync`, `${scope}config`, prefix];
      const [[leader = null] = [], [sync] = [], [config] = [], members = []] = await etcd.readTogether(names);
      return { leader, sync, config, members };
    });
    if (held === null) return null;
    const found = candidatesOf({
      holder: held.leader?.value ?? "",
      sync: held.sync?.value ?? null,
      config: held.config?.value ?? null,
      members: new Map(held.members.map((one) => [one.key.slice(prefix.length), one.value])),
    });
    return found.kind === "known"
      ? { kind: "known", nodes: found.nodes.map((name) => this.#nodeOf(name)) }
      : found;
  }

  /**
   * What `read` returns, if the term still held at that moment; null if not, or if the read failed.
   */
  async #confirmBy<T extends { readonly leader: EtcdKey | null }>(
    term: LeaseTerm,
    read: () => Promise<T>,
  ): Promise<T | null> {
    const askedAtMs = this.#options.clock.monotonicMs();
    try {
      const found = await read();
      if (found.leader !== null && isSame(this.#termOf(found.leader), term)) return found;
      this.#see(found.leader, askedAtMs);
      this.#onChange();
    } catch {
      // The loop will meet the same failure and record its reason.
    }
    this.wake();
    return null;
  }

  async #poll(): Promise<void> {
    const { clock, pollMs } = this.#options;
    while (!this.#stop.signal.aborted) {
      // Taken before the question: a caller that wakes the loop meanwhile needs a newer answer.
      const { signal } = this.#wake;
      await this.#read();
      if (this.#stop.signal.aborted) return;
      this.#onChange();
      const isHeld = this.#view.kind === "held" && clock.monotonicMs() < this.#view.validUntilMs;
      await sleep(clock, isHeld && this.#failure === null ? pollMs : Math.min(pollMs, IMPATIENT_MS), signal);
    }
  }

  async #read(): Promise<void> {
    const { etcd, key, clock } = this.#options;
    const askedAtMs = clock.monotonicMs();
    try {
      const found = await etcd.readKey(key);
      this.#see(found, askedAtMs);
      const remainingMs = found?.lease == null ? null : await etcd.remainingMs(found.lease);
      this.#failure = null;
      // Counted from the question, because the lease was already running while the answer
      // travelled.
      if (found !== null) this.#trust(found, askedAtMs, askedAtMs + (remainingMs ?? 0) - LEASE_MARGIN_MS);
    } catch (cause) {
      // The last reading stays valid until it expires.
      this.#failure = cause instanceof Error ? cause.message : String(cause);
    }
  }

  /**
   * A key with a new holder ends the previous holder's term at once, before the new holder's time
   * is known.
   */
  #see(found: EtcdKey | null, askedAtMs: number): void {
    const view = this.#view;
    if (view.kind !== "unread" && view.askedAtMs > askedAtMs) return;
    if (found === null) this.#view = { kind: "free", askedAtMs };
    else if (view.kind !== "held" || !isSame(view.term, this.#termOf(found)))
      this.#trust(found, askedAtMs, askedAtMs);
  }

  #trust(found: EtcdKey, askedAtMs: number, validUntilMs: number): void {
    if (this.#view.kind !== "unread" && this.#view.askedAtMs > askedAtMs) return;
    this.#view = { kind: "held", term: this.#termOf(found), askedAtMs, validUntilMs };
  }

  #termOf({ value, createRevision }: EtcdKey): LeaseTerm {
    return { node: this.#nodeOf(value), revision: createRevision };
  }

  #nodeOf(member: string): string {
    const { members } = this.#options;
    return Object.hasOwn(members, member) ? (members[member] ?? member) : member;
  }
}

function isSame(one: LeaseTerm, other: LeaseTerm): boolean {
  return one.node === other.node && one.revision === other.revision;
}
