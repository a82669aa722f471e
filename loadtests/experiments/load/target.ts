// The ways in which an experiment can commit, and what each of them is called everywhere.
import type { Isolation } from "@highwater/protocol";

/**
 * `fast`, `safe`: through Highwater, answered at the commit point or at the durability point; with
 * `sdk`, by the TypeScript SDK with its defaults instead of sockets that are written to by hand.
 * The others: stock PostgreSQL by node-postgres, by its `synchronous_commit`. `direct`: with
 * prepared statements, each client on a connection of its own. `pooled`: the same clients behind a
 * pool of node-postgres. `pgbouncer`: behind PgBouncer in transaction mode. All with `on` wait for
 * the replica.
 */
export type Way =
  | ("fast" | "safe" | "sdk_fast" | "sdk_safe")
  | ("direct_off" | "direct_local" | "direct_on" | "pooled_on" | "pgbouncer_on");

export const WAY_TITLES: Readonly<Record<Way, string>> = {
  fast: "Highwater, fast",
  safe: "Highwater, safe",
  sdk_fast: "Highwater's SDK, fast",
  sdk_safe: "Highwater's SDK, safe",
  direct_off: "PostgreSQL, off",
  direct_local: "PostgreSQL, local",
  direct_on: "PostgreSQL, on",
  pooled_on: "PostgreSQL, on, pool",
  pgbouncer_on: "PostgreSQL, on, PgBouncer",
};

/** With these, commits wait for the replica, which is synchronous while one is measured. */
export const SYNCHRONOUS: ReadonlySet<Way> = new Set(["direct_on", "pooled_on", "pgbouncer_on"]);

export type Target =
  | {
      readonly kind: "gateway";
      readonly client: "sockets" | "sdk";
      readonly url: string;
      readonly tracker: string;
      readonly ack: "commit" | "durable";
      readonly level: string;
      readonly isolation: Isolation;
    }
  | {
      readonly kind: "direct";
      readonly url: string;
      readonly synchronousCommit: "off" | "local" | "on";
      readonly isolation: Isolation;
      /** PgBouncer in transaction mode keeps neither prepared statements nor start-up options. */
      readonly isPooledByServer: boolean;
    };

/** How the system can be reached. */
export interface Addresses {
  readonly gateway: string;
  /** Of the gateway beside the replica; empty where none was started. */
  readonly farGateway: string;
  readonly tracker: string;
  readonly database: string;
  /** Empty where none was started. */
  readonly pgbouncer: string;
  /** At which a safe transaction is durable. */
  readonly level: string;
}

export function targetOf(way: Way, addresses: Addresses, isolation: Isolation): Target {
  const { gateway, tracker, database, pgbouncer, level } = addresses;
  switch (way) {
    case "fast":
    case "safe":
    case "sdk_fast":
    case "sdk_safe": {
      const client = way.startsWith("sdk") ? "sdk" : "sockets";
      const ack = way.endsWith("fast") ? "commit" : "durable";
      return { kind: "gateway", client, url: gateway, tracker, ack, level, isolation };
    }
    case "direct_off":
    case "direct_local":
    case "direct_on":
    case "pooled_on":
    case "pgbouncer_on": {
      const isPooledByServer = way === "pgbouncer_on";
      const synchronousCommit = way === "direct_off" ? "off" : way === "direct_local" ? "local" : "on";
      const url = isPooledByServer ? pgbouncer : database;
      return { kind: "direct", url, synchronousCommit, isolation, isPooledByServer };
    }
  }
}
