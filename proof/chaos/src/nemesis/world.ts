// The nemesis's knowledge of the system, and its actions as an operator: elections, promotions,
// commands, repairs. Whether a promotion kept a promise follows from the positions that it read,
// never from the scenario's intent.
import { rm } from "node:fs/promises";
import { type Cluster, type NodeInfo } from "@highwater/lab-cluster";
import { eventually } from "@highwater/lab-tools/process";
import { type ServiceProcess, type System, type TrackerView, trackerViews } from "@highwater/lab-system";
import { nowMs, reasonOf } from "../clock.ts";
import { type EpochSummary, type FaultLog } from "../parts.ts";
import { FINAL_QUERIES } from "../workload/schema.ts";
import { type Candidate, keptLevels, type LevelRule } from "./kept.ts";

const STREAMS_END_LIMIT_MS = 30_000;
/**
 * The old primary's streams end after `wal_receiver_timeout`. But a stream that is just being
 * opened over a cut link waits for ever, so the promotion ends it.
 */
const DETACH_AFTER_MS = 7_000;
const START_ATTEMPTS = 3;
const STREAMING_LIMIT_MS = 30_000;
const FOLLOWED_LIMIT_MS = 60_000;
/**
 * If the services do not follow a command within this time, the operator reads again which epochs
 * to overrule.
 */
const REPLAY_LIMIT_MS = 30_000;
const COMMAND_PATIENCE_MS = 5_000;

const RECEIVED = `SELECT pg_is_in_recovery() AS replica,
  (greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) - '0/0')::text AS position,
  EXISTS (SELECT FROM pg_stat_wal_receiver WHERE status = 'streaming') AS fed`;

export interface PromotionOptions {
  /** The kind of the failure's record, such as `promotion`. */
  readonly kind: string;
  /** The node certainly has everything that the old primary ever had. */
  readonly isComplete?: boolean;
  /** Without an operator's command, the services find the primary by ancestry. */
  readonly command?: boolean;
}

export class World {
  readonly system: System;
  readonly cluster: Cluster;
  readonly rules: Readonly<Record<string, LevelRule>>;
  readonly say: (line: string) => void;
  /** Lost transactions are brought back. */
  readonly replays: boolean;
  /** The node whose history counts. */
  primary: string;
  /**
   * Nodes that may lack log that they once had, or have another history. Elections ignore them, and
   * they get a fresh copy.
   */
  readonly suspects = new Set<string>();
  readonly #log: FaultLog;
  readonly #apiKey: string | undefined;

  constructor(options: {
    readonly system: System;
    readonly rules: Readonly<Record<string, LevelRule>>;
    readonly primary: string;
    readonly log: FaultLog;
    readonly say: (line: string) => void;
    /** The API key that trackers require. */
    readonly apiKey: string | undefined;
    readonly replays: boolean;
  }) {
    this.system = options.system;
    this.cluster = options.system.cluster;
    this.rules = options.rules;
    this.primary = options.primary;
    this.say = options.say;
    this.replays = options.replays;
    this.#log = options.log;
    this.#apiKey = options.apiKey;
  }

  node(id: string): NodeInfo {
    const found = this.cluster.nodes.find((node) => node.id === id);
    if (found === undefined) throw new Error(`there is no node ${id}`);
    return found;
  }

  get replicas(): string[] {
    return this.cluster.nodes.map(({ id }) => id).filter((id) => id !== this.primary);
  }

  regionOf(id: string): string {
    return this.node(id).region;
  }

  clockWas(clock: Parameters<FaultLog["clock"]>[0]): void {
    this.#log.clock(clock);
  }

  /** The node's history continues: everything on its disk is still there. */
  wentOnInPlace(kind: string): void {
    this.#log.failure({ atMs: nowMs(), kind, node: this.primary, kept: Object.keys(this.rules) });
  }

  /**
   * Two histories continued side by side, and the primary's was chosen. The other one reached only
   * its own node.
   */
  async settled(loser: string): Promise<void> {
    // Its gateway may have served clients while the region's tracker was down. Then nothing else
    // records which epoch its own epoch continues.
    const [row] = await this.cluster.query(loser, FINAL_QUERIES.epochs).catch(() => []);
    const data = row === undefined ? "[]" : String(row["data"]);
    for (const epoch of JSON.parse(data) as EpochSummary[]) this.#log.epoch(epoch);
    const { id, region, zone } = this.node(loser);
    const kept = keptLevels(this.rules, {
      primary: { node: id, region, zone },
      others: this.cluster.nodes.flatMap((node) =>
        node.id === id ? [] : [{ node: node.id, region: node.region, zone: node.zone, position: 0n }],
      ),
      promoted: this.primary,
      isComplete: false,
    });
    this.#log.failure({ atMs: nowMs(), kind: "settled", node: this.primary, kept });
  }

  /** Like brokeEverything(), but on all nodes at once: the replicas follow. */
  brokeInPlace(kind: string): void {
    this.#log.failure({ atMs: nowMs(), kind, node: this.primary, kept: [] });
  }

  /** A change of history that no level covers. */
  brokeEverything(kind: string, node: string): void {
    this.#log.failure({ atMs: nowMs(), kind, node, kept: [] });
    this.primary = node;
    this.suspects.delete(node);
    for (const other of this.replicas) this.suspects.add(other);
  }

  /**
   * Reads each replica's position once no node feeds it: bytes from a dead primary's socket could
   * otherwise arrive after the election. The primary must be down or cut off.
   */
  async observe(candidates = this.replicas): Promise<Candidate[]> {
    const observed = new Map<string, bigint>();
    const detachAtMs = nowMs() + DETACH_AFTER_MS;
    await eventually(
      "no replica is fed by the old primary",
      async () => {
        observed.clear();
        const status = await this.cluster.status();
        const up = candidates.filter((id) =>
          status.some((node) => node.id === id && node.state === "replica"),
        );
        const rows = await Promise.all(up.map(async (id) => ({ id, row: await this.#received(id) })));
        for (const { id, row } of rows)
          if (row.replica && !this.suspects.has(id)) observed.set(id, row.position);
        const fed = rows.filter(({ row }) => row.fed);
        if (nowMs() > detachAtMs) for (const { id } of fed) await this.#detach(id);
        return fed.length === 0;
      },
      STREAMS_END_LIMIT_MS,
    );
    return this.replicas.map((id) => {
      const { region, zone } = this.node(id);
      return { node: id, region, zone, position: observed.get(id) ?? null };
    });
  }

  async #detach(id: string): Promise<void> {
    this.say(`ends the stream of ${id}`);
    await this.cluster.query(id, "ALTER SYSTEM SET primary_conninfo TO ''");
    await this.cluster.query(id, "SELECT pg_reload_conf()");
  }

  async #received(id: string): Promise<{ replica: boolean; position: bigint; fed: boolean }> {
    const [row] = await this.cluster.query(id, RECEIVED);
    const { replica, position, fed } = row as { replica: boolean; position: string | null; fed: boolean };
    return { replica, position: BigInt(position ?? 0), fed };
  }

  /**
   * Promotes the node and records which levels that kept. Nodes that were not read, or are ahead of
   * it, cannot follow.
   */
  async promote(node: string, observed: readonly Candidate[], options: PromotionOptions): Promise<string[]> {
    const old = this.node(this.primary);
    const kept = keptLevels(this.rules, {
      primary: { node: old.id, region: old.region, zone: old.zone },
      others: observed,
      promoted: node,
      isComplete: options.isComplete ?? false,
    });
    const position = observed.find((candidate) => candidate.node === node)?.position ?? 0n;
    this.say(`promotes ${node}, which keeps ${kept.join(", ") || "nothing"}`);
    this.#log.failure({ atMs: nowMs(), kind: options.kind, node, kept });
    this.primary = node;
    this.suspects.add(old.id);
    for (const candidate of observed)
      if (candidate.node !== node && (candidate.position === null || candidate.position > position))
        this.suspects.add(candidate.node);
    await this.cluster.promote(node, { reason: options.kind, command: options.command ?? true });
    return kept;
  }

  /**
   * Waits until a tracker of these regions follows the primary. If none does, the operator repeats
   * the command with every epoch that the trackers know.
   */
  async followed(regions = this.system.regions): Promise<void> {
    await this.#followed(regions, (answers) => answers.some(({ node }) => node === this.primary));
  }

  /**
   * Waits for all trackers. One that was alone with a zombie may know an epoch that no other
   * tracker knows.
   */
  async followedByAll(): Promise<void> {
    await this.#followed(this.system.regions, (answers) =>
      answers.every(({ node }) => node === this.primary),
    );
  }

  async #followed(
    regions: readonly string[],
    isEnough: (answers: readonly TrackerView[]) => boolean,
  ): Promise<void> {
    let commandAtMs = nowMs() + COMMAND_PATIENCE_MS;
    await eventually(
      `${this.primary} is followed`,
      async () => {
        const answers = await this.#views(regions);
        if (isEnough(answers)) return true;
        // If no tracker answers yet, there is no reason to repeat the command.
        if (!answers.some((each) => each.answers)) commandAtMs = nowMs() + COMMAND_PATIENCE_MS;
        if (nowMs() > commandAtMs) {
          commandAtMs = nowMs() + COMMAND_PATIENCE_MS;
          await this.authorize("no tracker follows it");
        }
        return false;
      },
      FOLLOWED_LIMIT_MS,
    );
  }

  #views(regions: readonly string[]): Promise<TrackerView[]> {
    return trackerViews(this.system, regions, this.#apiKey);
  }

  async authorize(reason: string): Promise<void> {
    const answers = await this.#views(this.system.regions);
    const overrules = [...new Set(answers.flatMap(({ epochs }) => epochs))];
    this.say(`authorizes ${this.primary}: ${reason}`);
    await this.cluster.authorize(this.primary, reason, { overrules });
  }

  /** Has the region's gateways bring back what was lost, whatever comes of it. */
  async replay(region: string): Promise<void> {
    await Promise.all(
      this.system.gateways(region).map((gateway) =>
        fetch(`${gateway.url}/v1/lost/replay`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({ dryRun: false, independent: "all" }),
          signal: AbortSignal.timeout(REPLAY_LIMIT_MS),
        }).then(
          (response) => response.text(),
          () => undefined,
        ),
      ),
    );
  }

  /**
   * Waits until every node runs and every replica has everything that the primary has. Nodes that
   * cannot follow get a fresh copy.
   */
  async mend(): Promise<void> {
    const status = await this.cluster.status();
    if (status.find(({ id }) => id === this.primary)?.state === "stopped")
      await this.cluster.start(this.primary);
    await Promise.all(
      this.replicas.map(async (id) => {
        const found = status.find((node) => node.id === id);
        if (found === undefined) return;
        try {
          if (found.state === "paused") await this.cluster.resume(id);
          if (this.suspects.has(id) || found.state === "primary") return await this.copyAnew(id);
          if (found.state === "stopped") await this.cluster.start(id);
          if (found.upstream !== this.primary) await this.cluster.follow(id, this.primary);
          await this.caughtUp(id);
        } catch (cause) {
          this.say(`${id} cannot follow (${reasonOf(cause)}) and is copied anew`);
          await this.copyAnew(id);
        }
      }),
    );
  }

  async copyAnew(id: string): Promise<void> {
    this.suspects.add(id);
    await this.cluster.rejoin(id, { upstream: this.primary });
    await this.caughtUp(id);
    this.suspects.delete(id);
  }

  /**
   * The replica streams, and has on disk everything that the primary had on disk a moment ago, thus
   * everything acknowledged.
   */
  async caughtUp(id: string): Promise<void> {
    await this.cluster.waitForStreaming([id], { timeoutMs: STREAMING_LIMIT_MS });
    const [row] = await this.cluster.query(
      this.primary,
      "SELECT (pg_current_wal_flush_lsn() - '0/0')::text AS position",
    );
    const target = BigInt(String(row?.["position"]));
    await eventually(
      `${id} has caught up`,
      async () => {
        return (await this.#received(id)).position >= target;
      },
      STREAMING_LIMIT_MS,
    );
  }

  /** The tracker first, because the gateways announce to it. */
  async reviveServices(region: string): Promise<void> {
    await this.revive(this.system.tracker(region));
    await Promise.all(this.system.gateways(region).map((gateway) => this.revive(gateway)));
  }

  /** On a busy machine a service may exceed the time limit for its start. */
  async revive(service: ServiceProcess): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        await this.system.restart(service);
        return;
      } catch (cause) {
        if (attempt === START_ATTEMPTS) throw cause;
        this.say(`${reasonOf(cause)}; it is started again`);
      }
    }
  }

  async discard(copy: string): Promise<void> {
    await rm(copy, { recursive: true, force: true });
  }

  /** Like `caughtUp`, for a copy that has replaced a node's data. */
  async isWhole(id: string): Promise<void> {
    await this.caughtUp(id);
    this.suspects.delete(id);
  }
}

/** Nodes whose positions were read, furthest first. */
export function byPosition(observed: readonly Candidate[]): string[] {
  return observed
    .flatMap(({ node, position }) => (position === null ? [] : [{ node, position }]))
    .sort((a, b) => (a.position < b.position ? 1 : a.position > b.position ? -1 : 0))
    .map(({ node }) => node);
}
