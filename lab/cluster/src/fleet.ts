// All nodes of one cluster: which is the primary, which node follows which, and every call that
// concerns several servers. Runs in the supervisor process.

import { rename, rm } from "node:fs/promises";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { coldCopy, hotCopy } from "./clone.ts";
import { DevClusterError } from "./errors.ts";
import { launchNodes } from "./launch.ts";
import { planNodes } from "./layout.ts";
import { Network } from "./network.ts";
import type { PostgresNode } from "./postgres-node.ts";
import {
  commandAuthority,
  promoteNode,
  readEpochs,
  readNode,
  readReceived,
  type Reading,
  repointNode,
} from "./replication.ts";
import { descendants, signal } from "./processes.ts";
import { querySql } from "./sql.ts";
import type {
  AuthorizeOptions,
  ClusterOptions,
  NodeInfo,
  NodeStatus,
  PromoteOptions,
  RestoreOptions,
  StopMode,
} from "./types.ts";
import { chooseIdentity, type Identity } from "./unprivileged.ts";

const readyLimitMsDefault = 120_000;
/**
 * Limit for one question to one server. A paused server is not asked; others answer even on a busy
 * machine.
 */
const askLimitMs = 10_000;
const streamingPollMs = 20;

export class Fleet {
  readonly network: Network;
  readonly #dir: string;
  readonly #options: ClusterOptions;
  readonly #onProcessChange: () => void;
  readonly #nodes = new Map<string, PostgresNode>();
  readonly #closing = new AbortController();
  #launching: Promise<unknown> = Promise.resolve();
  #identity: Identity | undefined;
  /** The node that the operator made primary last. */
  #primaryId = "";
  #snapshotCount = 0;

  constructor(dir: string, options: ClusterOptions, onProcessChange: () => void) {
    this.#dir = dir;
    this.#options = options;
    this.#onProcessChange = onProcessChange;
    this.network = new Network(options.roundTripMs);
  }

  get nodes(): PostgresNode[] {
    return [...this.#nodes.values()];
  }

  async launch(): Promise<NodeInfo[]> {
    const planned = planNodes(this.#options);
    this.#primaryId = planned[0]?.id ?? "";
    this.#identity = await chooseIdentity(this.#options.runAs);
    const launching = launchNodes({
      dir: this.#dir,
      options: this.#options,
      planned,
      network: this.network,
      onProcessChange: this.#onProcessChange,
      onNode: (node) => this.#nodes.set(node.id, node),
      signal: this.#closing.signal,
    });
    this.#launching = launching.catch(() => undefined);
    await launching;
    await this.waitForStreaming(undefined, this.#options.readyTimeoutMs ?? readyLimitMsDefault);
    return this.nodes.map(({ id, region, zone, port, dataDir }) => ({ id, region, zone, port, dataDir }));
  }

  node(id: string): PostgresNode {
    const node = this.#nodes.get(id);
    if (node) return node;
    const known = [...this.#nodes.keys()].join(", ");
    throw new DevClusterError("UNKNOWN_NODE", `no node "${id}": there are ${known}`);
  }

  async start(id: string): Promise<void> {
    const node = this.node(id);
    await node.exclusively(() => node.start());
  }

  async startAsPrimary(id: string): Promise<void> {
    const node = this.node(id);
    await node.exclusively(async () => {
      this.#requireStopped(node);
      await node.configure(undefined);
      await node.start();
    });
  }

  async stop(id: string, mode: StopMode): Promise<void> {
    const node = this.node(id);
    await node.exclusively(() => node.stop(mode));
  }

  async restart(id: string): Promise<void> {
    const node = this.node(id);
    await node.exclusively(() => node.restart());
  }

  async crashBackend(id: string): Promise<void> {
    const node = this.node(id);
    await node.exclusively(() => node.crashBackend());
  }

  async promote(id: string, options: PromoteOptions): Promise<void> {
    const node = this.#requireReady(id);
    await promoteNode(node);
    node.upstreamId = undefined;
    this.#primaryId = id;
    if (options.command ?? true) await this.#command(node, options.reason ?? "promoted", []);
    if (options.repoint ?? true) {
      const others = this.nodes.filter((other) => other !== node && other.isReady && other.upstreamId);
      // A replica that cannot be reached keeps its upstream, and the promotion is still valid.
      await Promise.allSettled(others.map((other) => this.#repoint(other, node)));
    }
  }

  async authorize(id: string, options: AuthorizeOptions): Promise<void> {
    const node = this.#requireReady(id);
    if (!(await this.#command(node, options.reason ?? "authorized", options.overrules ?? [])))
      throw new DevClusterError("BAD_STATE", `node ${id} has no table highwater.authority_command`);
    this.#primaryId = id;
  }

  /** Asks all nodes first which epochs there are to overrule, as an operator does. */
  async #command(node: PostgresNode, reason: string, known: readonly string[]): Promise<boolean> {
    const ready = this.nodes.filter((other) => other.isReady);
    const answers = await Promise.allSettled(ready.map((other) => readEpochs(other, askLimitMs)));
    const answered = answers.flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
    return commandAuthority(node, { reason, overrules: [...new Set([...known, ...answered])] });
  }

  async follow(id: string, upstreamId: string): Promise<void> {
    const upstream = this.node(upstreamId);
    if (id === upstreamId) throw new DevClusterError("BAD_STATE", `node ${id} cannot follow itself`);
    await this.#repoint(this.#requireReady(id), upstream);
  }

  async mostAdvancedReplica(candidates: readonly string[] | undefined): Promise<string> {
    const nodes = candidates?.map((id) => this.node(id)) ?? this.nodes;
    const answers = await Promise.allSettled(
      nodes
        .filter((node) => node.isReady)
        .map(async (node) => {
          const { isReplica } = await readNode(node, askLimitMs);
          return isReplica ? { id: node.id, offset: await readReceived(node, askLimitMs) } : undefined;
        }),
    );
    let best: { id: string; offset: bigint } | undefined;
    for (const answer of answers) {
      if (answer.status !== "fulfilled" || answer.value === undefined) continue;
      if (best === undefined || answer.value.offset > best.offset) best = answer.value;
    }
    if (best) return best.id;
    throw new DevClusterError("BAD_STATE", "no replica is running");
  }

  async rejoin(id: string, upstreamId: string | undefined): Promise<void> {
    const node = this.node(id);
    const upstream = await this.#upstreamFor(node, upstreamId);
    await node.exclusively(async () => {
      if (node.isRunning) await node.kill();
      const fresh = `${node.dataDir}.new`;
      await rm(fresh, { recursive: true, force: true });
      await hotCopy(upstream, fresh, this.#identity, "none");
      await this.#replaceData(node, fresh);
      await node.configure(await this.#upstreamSeenBy(node, upstream));
      await node.start();
    });
  }

  async snapshot(id: string): Promise<string> {
    const node = this.node(id);
    return node.exclusively(async () => {
      const target = path.join(this.#dir, "snapshots", `${id}-${++this.#snapshotCount}`);
      if (node.isRunning) await hotCopy(this.#requireReady(id), target, this.#identity, "needed");
      else await coldCopy(node.dataDir, target);
      return target;
    });
  }

  async restore(id: string, snapshotPath: string, options: RestoreOptions): Promise<void> {
    const node = this.node(id);
    await node.exclusively(async () => {
      this.#requireStopped(node);
      const fresh = `${node.dataDir}.new`;
      await rm(fresh, { recursive: true, force: true });
      await coldCopy(snapshotPath, fresh);
      await this.#replaceData(node, fresh);
      const isReplica = options.as ? options.as === "replica" : await node.isReplicaOnDisk();
      if (!isReplica) return node.configure(undefined);
      const upstream =
        options.upstream === undefined ? this.node(this.#primaryId) : this.node(options.upstream);
      if (upstream === node)
        throw new DevClusterError("BAD_STATE", `name an upstream for ${id}, which was the primary itself`);
      return node.configure(await this.#upstreamSeenBy(node, upstream));
    });
  }

  async status(): Promise<NodeStatus[]> {
    return Promise.all(this.nodes.map((node) => this.#statusOf(node)));
  }

  /** Waits until the named replicas (default: all) stream from a running primary. */
  async waitForStreaming(ids: readonly string[] | undefined, limitMs: number): Promise<void> {
    const deadline = performance.now() + limitMs;
    const wanted = ids?.map((id) => this.node(id)) ?? this.nodes.filter((node) => node.upstreamId);
    for (;;) {
      const missing = (
        await Promise.all(wanted.map(async (node) => ((await this.#streams(node)) ? [] : [node.id])))
      )
        .flat()
        .join(", ");
      if (missing === "") return;
      if (performance.now() > deadline)
        throw new DevClusterError("TIMEOUT", `not streaming after ${limitMs} ms: ${missing}`);
      await sleep(streamingPollMs);
    }
  }

  /** Ends every server and relay, even during a launch. */
  async destroy(): Promise<void> {
    this.#closing.abort();
    await Promise.all([this.network.close(), ...this.nodes.map((node) => node.destroy())]);
    // Only initdb or a server in single-user mode can be left.
    for (const pid of await descendants(process.pid)) signal(pid, "SIGKILL");
    await this.#launching;
    await Promise.all(this.nodes.map((node) => node.destroy()));
  }

  /**
   * Both ends must report it, because the replica's connection may already be dead at its upstream.
   * They must be on one timeline, because a replica ahead of a promoted node streams without ever
   * following.
   */
  async #streams(node: PostgresNode): Promise<boolean> {
    const upstream = node.upstreamId === undefined ? undefined : this.node(node.upstreamId);
    if (upstream === undefined || !node.isReady || !upstream.isReady) return false;
    try {
      const [reading, upstreamReading, senders] = await Promise.all([
        readNode(node, askLimitMs),
        readNode(upstream, askLimitMs),
        querySql(
          upstream,
          "SELECT FROM pg_stat_replication WHERE application_name = $1 AND state = 'streaming'",
          [node.id],
          { limitMs: askLimitMs },
        ),
      ]);
      const isSameHistory = reading.timeline === upstreamReading.timeline;
      return reading.isReplica && reading.isStreaming && isSameHistory && senders.length > 0;
    } catch {
      return false;
    }
  }

  async #statusOf(node: PostgresNode): Promise<NodeStatus> {
    const { id, region, zone, port } = node;
    const base = {
      id,
      region,
      zone,
      port,
      streaming: false,
      ...(node.upstreamId !== undefined && { upstream: node.upstreamId }),
    };
    if (!node.isRunning) return { ...base, state: "stopped" };
    if (node.isPaused) return { ...base, state: "paused" };
    let reading: Reading;
    try {
      reading = await readNode(node, askLimitMs);
    } catch {
      return { ...base, state: node.isReady ? "unreachable" : "starting" };
    }
    return {
      ...base,
      state: reading.isReplica ? "replica" : "primary",
      timeline: reading.timeline,
      streaming: reading.isStreaming,
      ...(reading.insertLsn !== null && { insertLsn: reading.insertLsn }),
      ...(reading.replayLsn !== null && { replayLsn: reading.replayLsn }),
    };
  }

  async #upstreamFor(node: PostgresNode, upstreamId: string | undefined): Promise<PostgresNode> {
    if (upstreamId !== undefined) return this.#requireReady(upstreamId);
    const last = this.node(this.#primaryId);
    const candidates = [last, ...this.nodes.filter((other) => other !== last)];
    for (const candidate of candidates) {
      if (candidate === node || !candidate.isReady) continue;
      const reading = await readNode(candidate, askLimitMs).catch(() => undefined);
      if (reading?.isReplica === false) return candidate;
    }
    throw new DevClusterError("BAD_STATE", `node ${node.id} cannot follow: no other primary is running`);
  }

  async #repoint(node: PostgresNode, upstream: PostgresNode): Promise<void> {
    const { port } = await this.#upstreamSeenBy(node, upstream);
    await repointNode(node, port);
    node.upstreamId = upstream.id;
  }

  async #upstreamSeenBy(node: PostgresNode, upstream: PostgresNode): Promise<{ id: string; port: number }> {
    return { id: upstream.id, port: await this.network.portFor(upstream, node.region) };
  }

  /** The old directory is kept until the new one is complete. */
  async #replaceData(node: PostgresNode, fresh: string): Promise<void> {
    const old = `${node.dataDir}.old`;
    await rename(node.dataDir, old);
    await rename(fresh, node.dataDir);
    await rm(old, { recursive: true, force: true });
  }

  #requireReady(id: string): PostgresNode {
    const node = this.node(id);
    if (node.isReady) return node;
    throw new DevClusterError("BAD_STATE", `node ${id} is ${node.isPaused ? "paused" : "not running"}`);
  }

  #requireStopped(node: PostgresNode): void {
    if (node.isRunning) throw new DevClusterError("BAD_STATE", `node ${node.id} is running: stop it first`);
  }
}
