// The five ways in which an experiment can commit, and what each of them is called everywhere.
import type { Isolation } from "@highwater/protocol";

/**
 * `fast`, `safe`: through Highwater, answered at the commit point or at the durability point. The
 * others: stock PostgreSQL by a direct client, by its `synchronous_commit`; `direct_on` waits for
 * the replica.
 */
export const SUBJECTS = ["fast", "safe", "direct_off", "direct_local", "direct_on"] as const;
export type Subject = (typeof SUBJECTS)[number];

export const SUBJECT_TITLES: Readonly<Record<Subject, string>> = {
  fast: "Highwater, fast",
  safe: "Highwater, safe",
  direct_off: "PostgreSQL, off",
  direct_local: "PostgreSQL, local",
  direct_on: "PostgreSQL, on",
};

export type Target =
  | {
      readonly kind: "gateway";
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
    };

/** How the system can be reached. */
export interface Addresses {
  readonly gateway: string;
  readonly tracker: string;
  readonly database: string;
  /** At which a safe transaction is durable. */
  readonly level: string;
}

export function targetOf(subject: Subject, addresses: Addresses, isolation: Isolation): Target {
  const { gateway, tracker, database, level } = addresses;
  switch (subject) {
    case "fast":
      return { kind: "gateway", url: gateway, tracker, ack: "commit", level, isolation };
    case "safe":
      return { kind: "gateway", url: gateway, tracker, ack: "durable", level, isolation };
    case "direct_off":
    case "direct_local":
    case "direct_on":
      return {
        kind: "direct",
        url: database,
        synchronousCommit: subject === "direct_off" ? "off" : subject === "direct_local" ? "local" : "on",
        isolation,
      };
  }
}
