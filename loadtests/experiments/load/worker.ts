// What one client of the load generator does, one piece of work after the other; and how it is told from other kinds of work.
import { type Addresses, type Subject, targetOf } from "./target.ts";
import type { Isolation } from "@highwater/protocol";
import type { Random } from "./random.ts";
import { inTurn, openSession, type Session } from "./session.ts";
import { statementOf, type Workload } from "./workload.ts";
import type { TpccOptions } from "../tpcc/terminal.ts";
import type { AuctionOptions } from "../auction/worker.ts";

/**
 * `rolled_back`: by the application's own decision, as one of a hundred orders in TPC-C; it counts as done.
 */
export type Attempt = "committed" | "conflict" | "rolled_back";

/** Something that begins now and is tried until it has committed or has conflicted too often. */
export interface Job {
  readonly kind: string;
  attempt(): Promise<Attempt>;
}

/** Tells of a step inside a job that is measured for itself. */
export type Note = (kind: string, elapsedMs: number) => void;

export interface Worker {
  next(): Job;
  close(): Promise<void>;
}

/** Clients of one kind, as the load generator is told of them. */
export interface Group {
  readonly name: string;
  readonly subject: Subject;
  readonly workload: Workload | TpccOptions | AuctionOptions;
  readonly isolation: Isolation;
  readonly clients: number;
  /** All clients take turns on one connection. */
  readonly oneConnection?: boolean;
  /** Transactions that are offered in a second, with exponential distances; as fast as they are answered unless given. */
  readonly perSecond?: number;
  /** How often a transaction is run again after a conflict before it is given up. */
  readonly retries: number;
}

/** So many as there are clients. */
export async function openWorkers(
  group: Group,
  addresses: Addresses,
  random: (client: number) => Random,
  note: Note,
): Promise<Worker[]> {
  const { workload, subject, isolation, clients } = group;
  switch (workload.kind) {
    case "tpcc": {
      const { openTerminals } = await import("../tpcc/terminal.ts");
      return openTerminals(workload, { subject, addresses, isolation, clients, random });
    }
    case "auction": {
      const { openPublishers } = await import("../auction/worker.ts");
      return openPublishers(workload, { subject, addresses, clients, random, note });
    }
    default: {
      const target = targetOf(subject, addresses, isolation);
      const only = group.oneConnection === true ? inTurn(await openSession(target)) : null;
      return Promise.all(
        Array.from({ length: clients }, async (_, client) =>
          statementWorker(workload, only ?? (await openSession(target)), random(client)),
        ),
      );
    }
  }
}

function statementWorker(workload: Workload, session: Session, random: Random): Worker {
  const readOnly = workload.kind === "read";
  return {
    next: () => {
      const statement = statementOf(workload, random);
      return {
        kind: workload.kind,
        attempt: async () => ((await session.run(statement, readOnly)) ? "committed" : "conflict"),
      };
    },
    close: () => session.close(),
  };
}
