// Clusters of CockroachDB as tests use them: one serves a virtual cluster, the others are its
// standbys by physical cluster replication.
import type { Row } from "../types.ts";

export interface CockroachNode {
  readonly id: string;
  readonly region: string;
  readonly zone: string;
  readonly url: string;
}

/** More than two only on the stand-in. */
export interface CockroachPair {
  /** Says STAND-IN or SERVER. */
  readonly name: string;
  /** The first one served when the tests began. */
  readonly nodes: readonly CockroachNode[];
  /** Past the adapter; for the stand-in, also past what its relay lets through. */
  query(node: string, sql: string): Promise<Row[]>;
  /** Until the standby has everything that is committed now. */
  catchUp(standby: string, serving: string): Promise<void>;
  /** Ends the service of a node's virtual cluster, as an operator fences it. */
  stopServing(node: string): Promise<void>;
  /** The standby serves, with what it had at its latest replicated time. */
  cutOver(node: string): Promise<unknown>;
  /** What served before becomes a standby of the source. */
  follow(node: string, source: string): Promise<void>;
  close(): Promise<void>;
}
