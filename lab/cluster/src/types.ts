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
  /** The first one is the primary. Default: one node in each of us-east, us-west and eu-west. */
  nodes?: readonly NodeOptions[];
  /**
   * Round trips by pair, such as "us-east/us-west" in either order; they override the defaults.
   * Unknown pairs have 0.
   */
  roundTripMs?: Readonly<Record<string, number>>;
  /** Extra postgresql.conf settings for every node. */
  settings?: Readonly<Record<string, string>>;
  /**
   * The file from findFaketime(). The wall clock of each server can then be set, by the id of its
   * node.
   */
  wallClocks?: string;
  /** Keeps the folder at the end, for debugging. */
  keepDir?: boolean;
  /** Limit until the primary is writable and every replica streams. Default: 120 s. */
  readyTimeoutMs?: number;
  /**
   * The user of the servers when root starts the cluster: a name, `uid` or `uid:gid`. Default:
   * `nobody`.
   */
  runAs?: string;
  /** The bin folder of another PostgreSQL installation, 15 or newer. Default: the embedded one. */
  pgBinDir?: string;
  /**
   * A folder that clusters share. Those with the same folder run initdb once and copy its result,
   * each with its own system identifier. They also share the copy of programs that the servers'
   * user cannot reach. Default: nothing is shared.
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
  /** Absent if the node did not answer. */
  timeline?: number;
  /** Set for a primary. */
  insertLsn?: string;
  /** Set for a replica. */
  replayLsn?: string;
  /** The node that a replica last had to follow. */
  upstream?: string;
  /** True for a replica whose WAL receiver is connected. PostgreSQL notices a cut after 5 s. */
  streaming: boolean;
}

export interface ConnectionOptions {
  /**
   * The client's location: a region or any other name. Outside the node's region, the connection
   * uses a relay.
   */
  from?: string;
  /** Default: `postgres`, the superuser. Users have no passwords. */
  user?: string;
  /** Default `app`. */
  database?: string;
}

export interface CutOptions {
  /** Which packets stop, seen from the link's first location. Default: both. */
  direction?: CutDirection;
  /**
   * `blackhole` (default): packets are dropped silently. `reset`: connections are reset and new
   * ones refused.
   */
  mode?: CutMode;
}

export interface LinkControl {
  setRoundTripMs(ms: number): Promise<void>;
  cut(options?: CutOptions): Promise<void>;
  /** Stalled bytes go on, as after a retransmission by TCP. */
  heal(): Promise<void>;
  /** True if something that one end sends does not reach the other. */
  isCut(): Promise<boolean>;
}

export interface RelayTarget {
  from: string;
  to: string;
  port: number;
  /** Default 127.0.0.1. */
  host?: string;
  /** Default: any free port. */
  listenPort?: number;
  /** The address from which it connects to the target. Default: the system's choice. */
  localAddress?: string;
}

export interface RelayHandle {
  readonly port: number;
  close(): Promise<void>;
}

export interface PromoteOptions {
  reason?: string;
  /** Makes every other running replica follow the new primary. Default: true. */
  repoint?: boolean;
  /**
   * Writes the operator's command into `highwater.authority_command`, if that table exists.
   * Default: true.
   */
  command?: boolean;
}

export interface AuthorizeOptions {
  reason?: string;
  /** Epochs to overrule in addition to those that nodes report now. */
  overrules?: readonly string[];
}

export type StopMode = "fast" | "smart" | "immediate";
export type Row = Record<string, unknown>;

export interface RestoreOptions {
  /** Default: the role of the snapshot's node. */
  as?: "primary" | "replica";
  /** For a replica. Default: the current primary. */
  upstream?: string;
}

/** The calls of the supervisor process, by name. Arguments and results are plain data. */
export interface SupervisorApi {
  launch(options: ClusterOptions): Promise<NodeInfo[]>;
  connectionPort(nodeId: string, from: string | undefined): Promise<number>;
  openRelay(target: RelayTarget): Promise<{ relayId: number; port: number }>;
  closeRelay(relayId: number): Promise<void>;
  reservePort(): Promise<number>;
  setRoundTripMs(a: string, b: string, ms: number): Promise<void>;
  cut(from: string, to: string, options: CutOptions): Promise<void>;
  heal(a: string, b: string): Promise<void>;
  isCut(a: string, b: string): Promise<boolean>;
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
  /** Stops every server and relay. The process ends after its answer. */
  shutdown(): Promise<void>;
}
