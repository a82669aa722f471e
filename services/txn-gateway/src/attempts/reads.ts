// Reads near the user: which replica may serve a read, and whether its answer can be trusted. In
// doubt, the primary serves it.
import { type NodeReport } from "@highwater/authority";
import { HighwaterError, type Offset, type Served, type TokenContent } from "@highwater/protocol";
import { type ReplicaReading } from "@highwater/store";
import { type ResultHold } from "../answers/result-memory.ts";
import { type Config } from "../config.ts";
import { type Deps } from "../deps.ts";
import { type Metrics } from "../metrics.ts";
import { readAt } from "../outcomes/outcomes.ts";
import { mayRestOnData } from "../outcomes/refusals.ts";
import { type FlushHelp } from "../primary/flush.ts";
import { type Primary, type PrimaryEpoch } from "../primary/primary.ts";
import { type ActiveTransactions } from "./active.ts";
import { refuseTruncated, withinTime } from "./bounds.ts";
import { sessionPrincipal } from "@highwater/service";
import { RETRY_MS } from "../retry.ts";
import { type Verdicts, type TrackerVerdict } from "../trackers/verdicts.ts";
import { type Committed } from "../txn/answer.ts";
import { type Caller } from "../txn/caller.ts";
import { type Accepted, type ReadPlacement, type PresentedToken } from "../txn/request.ts";

export interface ReadContext {
  readonly config: Config;
  readonly deps: Deps;
  readonly primary: Primary;
  readonly flush: FlushHelp;
  readonly active: ActiveTransactions;
  readonly metrics: Metrics;
  readonly verdicts: Verdicts;
}

export interface ReadFrom {
  readonly caller: Caller;
  readonly hold: ResultHold;
}

export interface NearbyRead {
  readonly committed: Committed;
  readonly served: Served;
}

/** Trackers settle what an unknown epoch has left in about a round trip to another region. */
const VERDICT_WAIT_MS = 2_000;
/** Certainly not in the current history, so no read has to show it. */
export const DISCARDED: ReadonlySet<TrackerVerdict> = new Set<TrackerVerdict>([
  "lost",
  "broken",
  "retried",
  "expired",
]);

export class Reads {
  readonly #parts: ReadContext;

  constructor(parts: ReadContext) {
    this.#parts = parts;
  }

  /**
   * Null: the primary has to serve it. Errors: those of the statements, `forbidden`,
   * `epoch_changed`.
   */
  async nearby(request: Accepted, placement: ReadPlacement, from: ReadFrom): Promise<NearbyRead | null> {
    const { caller, hold } = from;
    const { primary, flush, metrics } = this.#parts;
    const { after } = placement;
    const primaryEpoch = await primary.admit();
    if (after !== null) await this.#checkAfter(after, primaryEpoch, caller);
    // A replica has no serializable snapshots.
    const isLocal = placement.mode === "local" && request.isolation !== "serializable";
    const replica = isLocal ? this.replicaNear(primaryEpoch) : null;
    if (replica === null) return null;
    const read = await this.#readOn(replica, request, after, from);
    const belief = read === null ? null : await this.#believe(read, replica, request);
    if (read === null || belief === null) {
      metrics.reads.add("primary");
      // The next one may find its proof on the replica.
      if (after?.epoch === primaryEpoch.epoch) flush.committed(primaryEpoch);
      return null;
    }
    refuseTruncated(read.results, this.#parts.config, { hold });
    metrics.reads.add("replica");
    const committed = readAt(request.id, caller.principal.owner, read);
    return { committed, served: this.#servedBy(replica, read, belief.end) };
  }

  /**
   * A primary whose epoch is no successor of the token's may lack what the token stands for. It
   * serves the read all the same once a tracker has settled that a failover has lost that: no
   * survivor may ever learn more of the token's epoch.
   */
  async #checkAfter(
    after: PresentedToken,
    primaryEpoch: PrimaryEpoch,
    { principal, signal }: Caller,
  ): Promise<void> {
    const { primary } = this.#parts;
    if (after.owner !== principal.owner && !principal.scopes.has("admin"))
      throw new HighwaterError("forbidden", { detail: "The token in `after` belongs to another owner." });
    if (after.epoch === primaryEpoch.epoch || primary.isAncestor(after.epoch, primaryEpoch.epoch)) return;
    primary.wake();
    const verdict = await this.verdictOf(after.text, signal);
    if (DISCARDED.has(verdict) || isUnprovable(after, verdict)) return;
    throw new HighwaterError("epoch_changed", {
      detail:
        "The epoch of `after` is not in this gateway's history, and trackers have not settled its verdict; retry.",
      retryAfterMs: RETRY_MS.soon,
    });
  }

  /** What trackers know of it within a short time, at the strongest level. */
  verdictOf(token: string, signal: AbortSignal | undefined): Promise<TrackerVerdict> {
    const { config, verdicts } = this.#parts;
    const level = Object.keys(config.topology.levels).at(-1) ?? "";
    return verdicts.ask({ token, level, limitMs: VERDICT_WAIT_MS, signal });
  }

  /** A replica in this region, unless the primary is in it as well. */
  replicaNear(primaryEpoch: PrimaryEpoch): NodeReport | null {
    const { config, primary } = this.#parts;
    const here = new Set(
      config.topology.nodes.filter(({ region }) => region === config.region).map(({ id }) => id),
    );
    if (here.has(primaryEpoch.node)) return null;
    const fed = primary.reports.filter(
      ({ node, role, upstream }) => here.has(node) && role === "replica" && upstream !== null,
    );
    return fed.reduce<NodeReport | null>(
      (best, report) => (best === null || report.applied > best.applied ? report : best),
      null,
    );
  }

  async #readOn(
    replica: NodeReport,
    request: Accepted,
    after: PresentedToken | null,
    { caller: { principal, signal }, hold }: ReadFrom,
  ): Promise<Extract<ReplicaReading, { kind: "read" }> | null> {
    const { deps, config, active } = this.#parts;
    const { isolation, statements, fieldDetails = false } = request;
    if (isolation === "serializable") return null;
    const bounds = withinTime(active, config.totalTimeoutMs, signal);
    try {
      const reading = await deps.store.readReplica(
        replica.node,
        {
          statements,
          isolation,
          after,
          role: principal.role,
          fieldDetails,
          maxRows: config.maxRows,
          maxBytes: config.maxResultBytes,
          meter: hold,
          statementTimeoutMs: principal.limits.statementTimeoutMs,
          principal: sessionPrincipal(principal),
        },
        bounds.signal,
      );
      return reading.kind === "read" ? reading : null;
    } catch (cause) {
      const why = bounds.reasonFor(cause);
      // The replica's own trouble, not that of the statements: the primary may do better.
      // So is a refusal that may rest on data: only of the primary it is known where its log ends.
      if (why instanceof HighwaterError && isForPrimary(why) && hold.refusal === null) return null;
      throw why;
    } finally {
      bounds.end();
    }
  }

  /**
   * A promise of durability needs more than the replica's word: the primary, asked after the
   * snapshot was taken, is still in the epoch that the snapshot names, and feeds this very replica.
   * Null: do not believe it. `end`: the newest known end of the primary's log.
   */
  async #believe(
    read: Extract<ReplicaReading, { kind: "read" }>,
    replica: NodeReport,
    { ack }: Accepted,
  ): Promise<{ readonly end: Offset | null } | null> {
    const { current: primaryEpoch } = this.#parts.primary;
    if (primaryEpoch?.epoch !== read.position.epoch) return null;
    if (ack === "commit") return { end: this.#primaryEnd() };
    const end = await this.endIfFeeding(primaryEpoch, replica.node);
    return end === null ? null : { end };
  }

  /**
   * The end of its log, if the primary, asked now, is still in the epoch and feeds this very
   * replica.
   */
  async endIfFeeding(
    { node, epoch }: Pick<PrimaryEpoch, "node" | "epoch">,
    replica: string,
  ): Promise<Offset | null> {
    const positions = await this.#parts.deps.store.positions(node).catch(() => null);
    const isFeeding = positions?.epoch === epoch && positions.replicas.some((one) => one.node === replica);
    return isFeeding ? positions.applied : null;
  }

  #servedBy(
    replica: NodeReport,
    read: Extract<ReplicaReading, { kind: "read" }>,
    end: Offset | null,
  ): Served {
    const { offset } = read.position;
    const hasAll = end !== null && end <= offset;
    const { countsBytes } = this.#parts.deps.store;
    const behindBytes = hasAll ? "0" : end === null || !countsBytes ? null : String(end - offset);
    return {
      node: replica.node,
      region: this.#regionOf(replica.node),
      role: "replica",
      behindBytes,
      // The age of its newest commit says how old its data is only while there is something that it
      // has not got.
      behindMs: hasAll ? 0 : read.ageMs,
    };
  }

  #primaryEnd(): Offset | null {
    const { primary } = this.#parts;
    return primary.reports.find(({ node }) => node === primary.current?.node)?.applied ?? null;
  }

  servedByPrimary(primaryEpoch: PrimaryEpoch): Served {
    const region = this.#regionOf(primaryEpoch.node);
    return { node: primaryEpoch.node, region, role: "primary", behindBytes: "0", behindMs: 0 };
  }

  #regionOf(node: string): string {
    return this.#parts.config.topology.nodes.find(({ id }) => id === node)?.region ?? "";
  }
}

/** A token without a receipt: the history of now does not show what it stands for. */
export function isUnprovable({ kind }: TokenContent, verdict: TrackerVerdict): boolean {
  return kind === "position" && verdict === "unknown";
}

function isForPrimary(why: HighwaterError): boolean {
  return ELSEWHERE.has(why.code) || mayRestOnData(why);
}

const ELSEWHERE: ReadonlySet<string> = new Set(["primary_unavailable", "overloaded", "epoch_changed"]);
