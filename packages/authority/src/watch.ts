// Asks every node for its report in a loop and keeps the answer to "which node is the primary?" up
// to date. Owns the loop and the collected reports. The rules are in ancestry.ts, operator.ts and
// lease/decide.ts; each service acts on the answer itself.
import { EpochGraph, type EpochId, type EpochRecord } from "@highwater/protocol";
import { type Clock, sleep } from "@highwater/runtime";
import { type Authority, decideAuthority } from "./ancestry.ts";
import { decideByOperator } from "./operator.ts";
import { type Candidates } from "./lease/candidates.ts";
import { decideByLease } from "./lease/decide.ts";
import { type LeaseSource, type LeaseTerm } from "./lease/view.ts";
import { type NodeReport, type NodeSource } from "./nodes.ts";

/** The rule that names the primary. Every process of a system has to use the same one. */
export type AuthorityRule =
  | { readonly kind: "ancestry" }
  | { readonly kind: "operator" }
  | { readonly kind: "lease"; readonly lease: LeaseSource };

export interface WatcherOptions {
  readonly store: NodeSource;
  readonly clock: Clock;
  readonly intervalMs: number;
  /**
   * The interval in calm times: every node answers and the primary has not changed for a while.
   * Default: intervalMs.
   */
  readonly calmIntervalMs?: number;
  /** Default: ancestry. */
  readonly rule?: AuthorityRule;
  /**
   * The epoch that was current when this process last ran. A history without it is not followed.
   */
  readonly known: EpochId | null;
  /**
   * Called for every report, before the authority that follows from it. `askedAtMs`: when the
   * question was sent.
   */
  readonly onReport?: (report: NodeReport, askedAtMs: number) => void;
  readonly onUnreachable?: (node: string, cause: unknown) => void;
  /**
   * Called whenever the answer changes, and again for `mint` and `prepare` until a service has
   * acted.
   */
  readonly onAuthority: (authority: Authority) => void;
}

/** A busy server may miss one probe. After a second miss in a row its report is dropped. */
const MISSES_TO_FORGET = 2;
const CALM_AFTER_MS = 5_000;
/** Short, because a node that comes back must be seen quickly. */
const RETRY_MS = 50;

export class AuthorityWatcher {
  readonly graph = new EpochGraph();
  readonly #options: WatcherOptions;
  readonly #reports = new Map<string, NodeReport>();
  readonly #misses = new Map<string, number>();
  readonly #stop = new AbortController();
  #wake = new AbortController();
  /** When the last event happened that may be followed by a failover. */
  #stirredMs: number;
  #known: EpochId | null;
  #authority: Authority = { kind: "none", reason: "no node has answered yet" };
  #asked = new Set<string>();
  readonly #lease: LeaseSource | null;
  #cancelExpiry: () => void = () => undefined;

  constructor(options: WatcherOptions) {
    this.#options = options;
    this.#stirredMs = options.clock.monotonicMs();
    this.#known = options.known;
    this.#lease = options.rule?.kind === "lease" ? options.rule.lease : null;
  }

  /** The answer holds until this time, whatever events arrive. */
  get validUntilMs(): number {
    if (this.#lease === null) return Number.POSITIVE_INFINITY;
    const { view } = this.#lease;
    return view.kind === "held" ? view.validUntilMs : Number.NEGATIVE_INFINITY;
  }

  /**
   * The authority now. If the process was held up, its lease may have expired before any timer
   * fired.
   */
  authorityNow(): Authority {
    if (this.#authority.kind === "primary" && this.#options.clock.monotonicMs() >= this.validUntilMs)
      this.#decide();
    return this.#authority;
  }

  /**
   * The current term of the lease. Take it before you ask for positions, and count them only if
   * `confirm` returns true afterwards. Null: no lease is followed and positions need no
   * confirmation, or no node holds the lease.
   */
  get term(): LeaseTerm | null {
    return this.#lease?.view.kind === "held" ? this.#lease.view.term : null;
  }

  /**
   * True when the node's answer was given before another node could take over. Under a lease this
   * asks the lease: a primary that was cut off goes on collecting positions that its successor
   * never learned.
   */
  async confirm(node: string, term: LeaseTerm | null): Promise<boolean> {
    if (this.#lease === null) return true;
    return term?.node === node && (await this.#lease.confirm(term));
  }

  /**
   * Like `confirm`, and returns the nodes that may be promoted in place of the node; null where
   * `confirm` returns false.
   */
  async candidates(node: string, term: LeaseTerm | null): Promise<Candidates | null> {
    if (this.#lease === null) return { kind: "unknown", reason: "no HA manager's lease is followed" };
    return term?.node === node ? this.#lease.candidates(term) : null;
  }

  get authority(): Authority {
    return this.#authority;
  }

  /** The last epoch that this process took for current. */
  get known(): EpochId | null {
    return this.#known;
  }

  /** The newest report of every node that answers. */
  get reports(): ReadonlyMap<string, NodeReport> {
    return this.#reports;
  }

  start(): void {
    this.#lease?.start(() => {
      this.#decide();
    });
    for (const node of this.#options.store.nodes) void this.#follow(node.id);
  }

  stop(): void {
    this.#stop.abort();
    this.#wake.abort();
    this.#lease?.stop();
    this.#cancelExpiry();
  }

  /** Asks all nodes at once. For use after a failure. */
  wake(): void {
    this.#stir();
    this.#wakeAll();
    this.#lease?.wake();
  }

  /**
   * Takes in epoch records from another service. `current`: the epoch that it takes for current.
   */
  learn(records: readonly EpochRecord[], current: EpochId | null): void {
    this.graph.add(records);
    // Under a lease only the lease itself makes an epoch current.
    if (current === null || current === this.#known || this.#lease !== null) return;
    // Only a successor moves `known`; a service with an older view must not.
    const ancestors = this.graph.ancestry(current).map((record) => record.id);
    const chain = this.graph.ancestry(current);
    const overrules = chain.some((record) => this.#known !== null && record.supersedes.includes(this.#known));
    if (this.#known === null || ancestors.includes(this.#known) || overrules) {
      this.#known = current;
      this.#decide();
    }
  }

  /** Ends the long pause of a calm time. */
  #stir(): void {
    const wasCalm = this.#isCalm();
    this.#stirredMs = this.#options.clock.monotonicMs();
    if (wasCalm) this.#wakeAll();
  }

  #wakeAll(): void {
    this.#wake.abort();
    this.#wake = new AbortController();
  }

  #isCalm(): boolean {
    const calmForMs = this.#options.clock.monotonicMs() - this.#stirredMs;
    return this.#authority.kind === "primary" && calmForMs >= CALM_AFTER_MS;
  }

  async #follow(node: string): Promise<void> {
    const { store, clock, intervalMs, calmIntervalMs = intervalMs, onReport, onUnreachable } = this.#options;
    while (!this.#stop.signal.aborted) {
      let pauseMs = this.#isCalm() ? calmIntervalMs : intervalMs;
      try {
        const askedAtMs = clock.monotonicMs();
        const report = await store.probe(node);
        this.#misses.set(node, 0);
        this.#reports.set(node, report);
        this.graph.add(report.epochs);
        onReport?.(report, askedAtMs);
      } catch (cause) {
        this.#stir();
        pauseMs = Math.max(RETRY_MS, intervalMs);
        const misses = (this.#misses.get(node) ?? 0) + 1;
        this.#misses.set(node, misses);
        if (misses >= MISSES_TO_FORGET || isRefusal(cause)) {
          this.#reports.delete(node);
          onUnreachable?.(node, cause);
        }
      }
      if (this.#stop.signal.aborted) return;
      this.#asked.add(node);
      this.#decide();
      await sleep(clock, pauseMs, this.#wake.signal);
    }
  }

  #decide(): void {
    // The first answer alone could be a zombie's, so every node is asked once, whether it answers
    // or not.
    if (this.#asked.size < this.#options.store.nodes.length) return;
    if (this.#stop.signal.aborted) return;
    const next = this.#apply([...this.#reports.values()]);
    this.#armExpiry();
    const acted = next.kind === "mint" || next.kind === "prepare";
    const same = JSON.stringify(next) === JSON.stringify(this.#authority);
    this.#authority = next;
    if (next.kind === "primary") this.#known = next.epoch;
    if (!same) this.#stir();
    if (!same || acted) this.#options.onAuthority(next);
  }

  #apply(reports: readonly NodeReport[]): Authority {
    const { rule = { kind: "ancestry" }, clock } = this.#options;
    switch (rule.kind) {
      case "ancestry":
        return decideAuthority(reports, this.#known, this.graph);
      case "operator":
        return decideByOperator(reports, this.#known, this.graph);
      case "lease": {
        const { view, failure } = rule.lease;
        const evidence = { view, failure, nowMs: clock.monotonicMs() };
        return decideByLease(evidence, reports, this.#known, this.graph);
      }
    }
  }

  /** No event announces an expiry, so a timer does. */
  #armExpiry(): void {
    this.#cancelExpiry();
    const leftMs = this.validUntilMs - this.#options.clock.monotonicMs();
    if (!Number.isFinite(leftMs) || leftMs <= 0) return;
    this.#cancelExpiry = this.#options.clock.after(leftMs, () => {
      this.#decide();
    });
  }
}

function isRefusal(cause: unknown): boolean {
  const code = (cause as { code?: unknown }).code;
  return code === "ECONNREFUSED" || code === "57P03" || code === "57P01";
}
