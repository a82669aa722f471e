// The package's public types, and the calls that the supervisor process answers.

import type { CutDirection, CutMode } from "./link.ts";

export interface NodeOptions {
  id: string;
  region: string;
  /** Default: `${region}-a`. */
  zone?: string;
  /** Default: any free port. */
  port?: number;
}

export interface ClusterOptions {
  /**
   * The first is the initial primary. Default: one node in each of us-east, us-west and eu-west.
   */
  nodes?: readonly NodeOptions[];
  /**
   * Round trips by pair, as "us-east/us-west" in either order; overrides the defaults. Unknown
   * pairs are 0.
   */
  roundTripMs?: Readonly<Record<string, number>>;
  /** Extra postgresql.conf settings for every node. */
  settings?: Readonly<Record<string, string>>;
  /**
   * The file of findFaketime(): the servers' wall clocks can then be set, by the ids of their
   * nodes.
   */
  wallClocks?: string;
  /** Leaves the folder behind, for debugging. */
  keepDir?: boolean;
  /** How long until the primary is writable and every replica streams. Default 120 s. */
  readyTimeoutMs?: number;
  /**
   * When root starts the cluster: the user of the servers, as a name, `uid` or `uid:gid`. Default
   * `nobody`.
   */
  runAs?: string;
  /** The bin folder of another PostgreSQL installation, 15 or newer. Default: the embedded one. */
  pgBinDir?: string;
  /**
   * A folder for what clusters can share. Those that name the same one run initdb once and copy its
   * result, each with its own system identifier. They also share the copy of programs that the
   * servers' user could not reach. Default: nothing is shared.
   */
  templateDir?: string;
}

export interface NodeInfo {
  readonly id: string;
  readonly region: string;
  readonly zone: string;
  readonly port: number;
  readonly dataDir: string;
}

export interface NodeStatus {
  id: string;
  region: string;
  zone: string;
  port: number;
  state: "primary" | "replica" | "stopped" | "starting" | "paused" | "unreachable";
  /** Absent unless the node answered. */
  timeline?: number;
  /** Of a primary. */
  insertLsn?: string;
  /** Of a replica. */
  replayLsn?: string;
  /** The node that a replica follows by the last command. */
  upstream?: string;
  /** A replica whose WAL receiver is connected. After a cut it takes PostgreSQL 5 s to notice. */
  streaming: boolean;
}

export interface ConnectionOptions {
  /**
   * Where the client is: a region or any other name. Elsewhere than the node's region means through
   * a relay.
   */
  from?: string;
  /** Default `postgres`, the superuser. No user has a password. */
  user?: string;
  /** Default `app`. */
  database?: string;
}

export interface CutOptions {
  /** Which packets stop, seen from the first location of the link. Default both. */
  direction?: CutDirection;
  /**
   * `blackhole` (default): packets silently stop. `reset`: connections are reset and new ones
   * refused.
   */
  mode?: CutMode;
}

export interface LinkControl {
  setRoundTripMs(ms: number): Promise<void>;
  cut(options?: CutOptions): Promise<void>;
  /** Stalled bytes continue, as after TCP's retransmission. */
  heal(): Promise<void>;
}

export interface RelayTarget {
  from: string;
  to: string;
  port: number;
  /** Default 127.0.0.1. */
  host?: string;
  /** Default: any free port. */
  listenPort?: number;
}

export interface RelayHandle {
  readonly port: number;
  close(): Promise<void>;
}

export interface PromoteOptions {
  reason?: string;
  /** Makes every other running replica follow the new primary. Default true. */
  repoint?: boolean;
  /**
   * Writes the operator's command into `highwater.authority_command`, if that table exists. Default
   * true.
   */
  command?: boolean;
}

export interface AuthorizeOptions {
  reason?: string;
  /** Epochs to overrule besides those that nodes report now. */
  overrules?: readonly string[];
}

export type StopMode = "fast" | "smart" | "immediate";
export type Row = Record<string, unknown>;

export interface RestoreOptions {
  /** Default: what the snapshot's node was. */
  as?: "primary" | "replica";
  /** For a replica. Default: the current primary. */
  upstream?: string;
}

/**
 * What the supervisor process does for its caller, by name. Arguments and results are plain data.
 */
export interface SupervisorApi {
  launch(options: ClusterOptions): Promise<NodeInfo[]>;
  connectionPort(nodeId: string, from: string | undefined): Promise<number>;
  openRelay(target: RelayTarget): Promise<{ relayId: number; port: number }>;
  closeRelay(relayId: number): Promise<void>;
  reservePort(): Promise<number>;
  setRoundTripMs(a: string, b: string, ms: number): Promise<void>;
  cut(from: string, to: string, options: CutOptions): Promise<void>;
  heal(a: string, b: string): Promise<void>;
  isolate(location: string, except: readonly string[]): Promise<void>;
  healAll(): Promise<void>;
  start(nodeId: string): Promise<void>;
  stop(nodeId: string, mode: StopMode): Promise<void>;
  kill(nodeId: string): Promise<void>;
  crashBackend(nodeId: string): Promise<void>;
  restart(nodeId: string): Promise<void>;
  pause(nodeId: string): Promise<void>;
  resume(nodeId: string): Promise<void>;
  promote(nodeId: string, options: PromoteOptions): Promise<void>;
  authorize(nodeId: string, options: AuthorizeOptions): Promise<void>;
  follow(nodeId: string, upstreamId: string): Promise<void>;
  mostAdvancedReplica(candidates: readonly string[] | undefined): Promise<string>;
  rejoin(nodeId: string, upstreamId: string | undefined): Promise<void>;
  snapshot(nodeId: string): Promise<string>;
  restore(nodeId: string, snapshotPath: string, options: RestoreOptions): Promise<void>;
  startAsPrimary(nodeId: string): Promise<void>;
  query(nodeId: string, sql: string, params: readonly unknown[] | undefined): Promise<Row[]>;
  waitForStreaming(nodeIds: readonly string[] | undefined, limitMs: number): Promise<void>;
  status(): Promise<NodeStatus[]>;
  /** Stops every server and relay; the process ends after its answer. */
  shutdown(): Promise<void>;
}
