// The interface through which the suite controls an adapter's cluster.
import { it as test } from "node:test";
import { type EpochId, type Statement, type TxnId } from "@highwater/protocol";
import { type Store } from "../port.ts";

/**
 * A fresh cluster of a primary and two replicas, without the service's tables, and everything that
 * can happen to it.
 */
export interface ConformanceHarness {
  readonly store: Store;
  /** Another process's store on the same cluster. */
  readonly otherStore: Store;
  readonly primary: string;
  readonly replicas: readonly [string, string];
  /** Both stores were made with it. */
  readonly retentionMs: number;
  readonly statements: {
    /** Inserts or replaces. */
    readonly put: (key: string, value: string) => Statement;
    /** Answers one row of one column, the value; or none. */
    readonly get: (key: string) => Statement;
    /** Violates a constraint. */
    readonly failing: Statement;
    /** Runs until its transaction is terminated. */
    readonly slow: Statement;
  };
  /** A fresh id, made `ageMs` before now by the servers' clock. */
  newId(ageMs?: number): TxnId;
  /** Until so many slow statements run on the node; one when it is left out. */
  untilSlowRuns(node: string, count?: number): Promise<void>;
  /**
   * Until the replica has everything that is on its upstream's disk, has made it visible, and the
   * upstream knows.
   */
  catchUp(replica: string): Promise<void>;
  /** From now on until the node's next restart nothing reaches its disk by itself. */
  holdFlush(node: string): Promise<void>;
  /** Work of others, who do not use the service: at least this much more log, on disk. */
  writePastTheService(node: string, bytes: number): Promise<void>;
  /** The server ends without a word and recovers. Resolves when it answers. */
  crash(node: string): Promise<void>;
  /** The node's host dies; it stays down. */
  kill(node: string): Promise<void>;
  /** A clean stop. */
  stop(node: string): Promise<void>;
  start(node: string): Promise<void>;
  cleanRestart(node: string): Promise<void>;
  /** The replica becomes writable. The others are not informed. */
  promote(replica: string): Promise<void>;
  follow(replica: string, upstream: string): Promise<void>;
  /** Until the node takes exactly these streams for the synchronous ones. */
  setSynchronous(node: string, replicas: readonly string[]): Promise<void>;
  cut(replica: string): Promise<void>;
  heal(replica: string): Promise<void>;
  /**
   * An operator's command that this writable node is the primary, over all epochs that nodes report
   * now, and those given.
   */
  authorize(node: string, overrules?: readonly EpochId[]): Promise<void>;
  /** A copy of the node's disk, running or not. */
  snapshot(node: string): Promise<unknown>;
  /** Puts the copy in place of a stopped node's data and starts the node. */
  restore(node: string, snapshot: unknown, as: "primary" | { readonly replicaOf: string }): Promise<void>;
  close(): Promise<void>;
}

export type MakeHarness = () => Promise<ConformanceHarness>;

export type It = (title: string, run: () => Promise<void>) => void;

/** What a store cannot do or does otherwise, by a test's title: why that test is skipped. */
export type Exceptions = Readonly<Record<string, string>>;

/** Every skipped test is listed, with its reason. */
export function itExcept(exceptions: Exceptions): It {
  return (title, run) => {
    const skip = exceptions[title];
    void (skip === undefined ? test(title, run) : test(title, { skip }, run));
  };
}
