// A real multi-region PostgreSQL cluster on one machine. This file is the public interface: the
// types, and Cluster, whose methods call the supervisor process.

import { namedBinDir } from "./binaries.ts";
import { SupervisorClient } from "./client.ts";
import { Clocks } from "./clocks.ts";
import { DevClusterError } from "./errors.ts";
import { planNodes } from "./layout.ts";
import type {
  ClusterOptions,
  ConnectionOptions,
  LinkControl,
  NodeInfo,
  NodeStatus,
  PromoteOptions,
  RelayHandle,
  RelayTarget,
  RestoreOptions,
  Row,
  StopMode,
} from "./types.ts";
import { chooseIdentity, makeClusterDir } from "./unprivileged.ts";

export { findBinaries, namedBinDir } from "./binaries.ts";
export { CLOCK_NOTICED_MS, Clocks, findFaketime } from "./clocks.ts";
export { DevClusterError, type DevClusterErrorCode } from "./errors.ts";
export { Etcd, type HeldKey } from "./etcd.ts";
export { PatroniCluster, type PatroniOptions } from "./patroni.ts";
export { demandPasswords } from "./passwords.ts";
export { PATRONI_SETTINGS, type PatroniSettings } from "./patroni-settings.ts";
export { type CutDirection, type CutMode, defaultRoundTripMs } from "./link.ts";
export {
  type ClusterOptions,
  type ConnectionOptions,
  type CutOptions,
  type LinkControl,
  type NodeInfo,
  type NodeOptions,
  type NodeStatus,
  type PromoteOptions,
  type RelayHandle,
  type RelayTarget,
  type RestoreOptions,
  type Row,
  type StopMode,
} from "./types.ts";

const streamingLimitMsDefault = 60_000;

/** A running cluster. Every method rejects with a DevClusterError. */
export interface Cluster extends AsyncDisposable {
  /** The cluster's folder: `nodes/ID` (data), `logs/ID.log`, `snapshots/`. */
  readonly dir: string;
  readonly nodes: readonly NodeInfo[];
  /** A `postgresql://` URL; through a relay if `from` is set and is not the node's region. */
  connectionString(nodeId: string, options?: ConnectionOptions): Promise<string>;
  /** A relay for another server, delayed and cut with the link between `from` and `to`. */
  relay(target: RelayTarget): Promise<RelayHandle>;
  /**
   * A port for a server beside the cluster, which may stop and start again. While this cluster
   * lives, no other cluster of the machine takes the port, even while nothing listens there.
   */
  reservePort(): Promise<number>;
  link(from: string, to: string): LinkControl;
  /**
   * Cuts the region from every other location except those in `except`, including locations that
   * are named later.
   */
  isolate(region: string, options?: { except?: readonly string[] }): Promise<void>;
  healAll(): Promise<void>;
  start(nodeId: string): Promise<void>;
  /** Default: `fast`, a clean shutdown that ends sessions. */
  stop(nodeId: string, mode?: StopMode): Promise<void>;
  /** Kills the server and all its processes at once, like a failure of the host. */
  kill(nodeId: string): Promise<void>;
  /** Kills one backend, so that the server recovers: same timeline, same start time. */
  crashBackend(nodeId: string): Promise<void>;
  restart(nodeId: string): Promise<void>;
  /** Stops the server's processes with SIGSTOP; connections stay open and hang. */
  pause(nodeId: string): Promise<void>;
  resume(nodeId: string): Promise<void>;
  /**
   * Resolves when the node is writable and the other replicas have the command, before they stream.
   */
  promote(nodeId: string, options?: PromoteOptions): Promise<void>;
  /**
   * Writes an operator's command that makes the node the primary, into
   * `highwater.authority_command`. It overrules the epochs of all nodes that answer now, and those
   * in `overrules`.
   */
  authorize(nodeId: string, reason?: string, options?: { overrules?: readonly string[] }): Promise<void>;
  /** Resolves when the running replica has the command, before it streams: see waitForStreaming. */
  follow(nodeId: string, upstreamId: string): Promise<void>;
  mostAdvancedReplica(candidates?: readonly string[]): Promise<string>;
  /**
   * Replaces the node's data by a fresh copy of the upstream's and starts it as a replica; kills it
   * first if it runs. As after pg_basebackup it has no older log, so a replica further behind than
   * the copy cannot follow it.
   */
  rejoin(nodeId: string, options?: { upstream?: string }): Promise<void>;
  /** Copies the data directory, hot if the node runs. The copy can start alone. Returns a path. */
  snapshot(nodeId: string): Promise<string>;
  /** Replaces a stopped node's data by a snapshot, without starting it. */
  restore(nodeId: string, snapshotPath: string, options?: RestoreOptions): Promise<void>;
  /** Starts a stopped node as a primary, whatever it was before. */
  startAsPrimary(nodeId: string): Promise<void>;
  /** Runs SQL as superuser on database `app`, directly on the node without relays. */
  query(nodeId: string, sql: string, params?: readonly unknown[]): Promise<Row[]>;
  /**
   * Waits until the named replicas (default: all) stream from their last upstream, on its timeline.
   * Default limit: 60 s. A replica ahead of a promoted upstream never does: rejoin it.
   */
  waitForStreaming(nodeIds?: readonly string[], options?: { timeoutMs?: number }): Promise<void>;
  status(): Promise<NodeStatus[]>;
  /** Ends everything and removes the folder. Idempotent. */
  close(): Promise<void>;
  /**
   * With `wallClocks`: the clocks of the nodes and of other processes that are started with their
   * environment.
   */
  readonly clocks: Clocks | null;
}

/**
 * Starts a cluster. Resolves when the first node is writable and all others stream from it. A
 * started cluster does not keep the program alive, and ends with it. Errors: BAD_OPTION,
 * PG_BINARIES_MISSING, PG_TOO_OLD, PORT_IN_USE, START_FAILED, TIMEOUT, SUPERVISOR_DIED.
 */
export async function startCluster(options: ClusterOptions = {}): Promise<Cluster> {
  planNodes(options);
  const runAs = options.runAs ?? process.env["HIGHWATER_PG_USER"];
  const pgBinDir = options.pgBinDir ?? namedBinDir();
  const templateDir = options.templateDir ?? process.env["HIGHWATER_PG_TEMPLATES"];
  const dir = await makeClusterDir(await chooseIdentity(runAs));
  const supervisor = await SupervisorClient.start(dir, options.keepDir ?? false);
  try {
    const nodes = await supervisor.call("launch", {
      ...options,
      ...(runAs && { runAs }),
      ...(pgBinDir && { pgBinDir }),
      ...(templateDir && { templateDir }),
    });
    return new RemoteCluster(
      supervisor,
      dir,
      nodes,
      options.wallClocks === undefined ? null : Clocks.in(dir),
    );
  } catch (error) {
    await supervisor.close();
    throw error;
  }
}

class RemoteCluster implements Cluster {
  readonly dir: string;
  readonly nodes: readonly NodeInfo[];
  readonly clocks: Clocks | null;
  readonly #supervisor: SupervisorClient;

  constructor(supervisor: SupervisorClient, dir: string, nodes: readonly NodeInfo[], clocks: Clocks | null) {
    this.#supervisor = supervisor;
    this.clocks = clocks;
    this.dir = dir;
    this.nodes = nodes;
  }

  async connectionString(nodeId: string, options: ConnectionOptions = {}): Promise<string> {
    const port = await this.#supervisor.call("connectionPort", nodeId, options.from);
    const user = encodeURIComponent(options.user ?? "postgres");
    return `postgresql://${user}@127.0.0.1:${port}/${encodeURIComponent(options.database ?? "app")}`;
  }

  async relay(target: RelayTarget): Promise<RelayHandle> {
    const { relayId, port } = await this.#supervisor.call("openRelay", target);
    return { port, close: () => this.#supervisor.call("closeRelay", relayId) };
  }

  reservePort(): Promise<number> {
    return this.#supervisor.call("reservePort");
  }

  link(from: string, to: string): LinkControl {
    if (from === to)
      throw new DevClusterError("BAD_OPTION", `a link joins two locations, not "${from}" alone`);
    return {
      setRoundTripMs: (ms) => this.#supervisor.call("setRoundTripMs", from, to, ms),
      cut: (options = {}) => this.#supervisor.call("cut", from, to, options),
      heal: () => this.#supervisor.call("heal", from, to),
      isCut: () => this.#supervisor.call("isCut", from, to),
    };
  }

  isolate(region: string, options: { except?: readonly string[] } = {}): Promise<void> {
    return this.#supervisor.call("isolate", region, options.except ?? []);
  }

  healAll(): Promise<void> {
    return this.#supervisor.call("healAll");
  }

  start(nodeId: string): Promise<void> {
    return this.#supervisor.call("start", nodeId);
  }

  stop(nodeId: string, mode: StopMode = "fast"): Promise<void> {
    return this.#supervisor.call("stop", nodeId, mode);
  }

  kill(nodeId: string): Promise<void> {
    return this.#supervisor.call("kill", nodeId);
  }

  crashBackend(nodeId: string): Promise<void> {
    return this.#supervisor.call("crashBackend", nodeId);
  }

  restart(nodeId: string): Promise<void> {
    return this.#supervisor.call("restart", nodeId);
  }

  pause(nodeId: string): Promise<void> {
    return this.#supervisor.call("pause", nodeId);
  }

  resume(nodeId: string): Promise<void> {
    return this.#supervisor.call("resume", nodeId);
  }

  promote(nodeId: string, options: PromoteOptions = {}): Promise<void> {
    return this.#supervisor.call("promote", nodeId, options);
  }

  authorize(nodeId: string, reason?: string, options: { overrules?: readonly string[] } = {}): Promise<void> {
    return this.#supervisor.call("authorize", nodeId, {
      ...(reason !== undefined && { reason }),
      ...options,
    });
  }

  follow(nodeId: string, upstreamId: string): Promise<void> {
    return this.#supervisor.call("follow", nodeId, upstreamId);
  }

  mostAdvancedReplica(candidates?: readonly string[]): Promise<string> {
    return this.#supervisor.call("mostAdvancedReplica", candidates);
  }

  rejoin(nodeId: string, options: { upstream?: string } = {}): Promise<void> {
    return this.#supervisor.call("rejoin", nodeId, options.upstream);
  }

  snapshot(nodeId: string): Promise<string> {
    return this.#supervisor.call("snapshot", nodeId);
  }

  restore(nodeId: string, snapshotPath: string, options: RestoreOptions = {}): Promise<void> {
    return this.#supervisor.call("restore", nodeId, snapshotPath, options);
  }

  startAsPrimary(nodeId: string): Promise<void> {
    return this.#supervisor.call("startAsPrimary", nodeId);
  }

  query(nodeId: string, sql: string, params?: readonly unknown[]): Promise<Row[]> {
    return this.#supervisor.call("query", nodeId, sql, params);
  }

  waitForStreaming(nodeIds?: readonly string[], options: { timeoutMs?: number } = {}): Promise<void> {
    return this.#supervisor.call("waitForStreaming", nodeIds, options.timeoutMs ?? streamingLimitMsDefault);
  }

  status(): Promise<NodeStatus[]> {
    return this.#supervisor.call("status");
  }

  close(): Promise<void> {
    return this.#supervisor.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
