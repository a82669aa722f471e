// The load generator's clients, by the kind of their work.
import { type Addresses, type Subject, targetOf } from "./target.ts";
import type { Isolation } from "@highwater/protocol";
import type { Note, Worker } from "./job.ts";
import type { Random } from "./random.ts";
import { inTurn, openSession, type Session } from "./session.ts";
import { statementOf, type Workload } from "./workload.ts";
import type { TpccOptions } from "../tpcc/terminal.ts";
import type { AuctionOptions } from "../auction/worker.ts";

/** Clients of one kind, as the load generator receives them. */
export interface Group {
  readonly name: string;
  readonly subject: Subject;
  readonly workload: Workload | TpccOptions | AuctionOptions;
  readonly isolation: Isolation;
  readonly clients: number;
  /** All clients take turns on one connection. */
  readonly oneConnection?: boolean;
  /**
   * Transactions offered per second, with exponential distances. Default: as fast as they are
   * answered.
   */
  readonly perSecond?: number;
  /** How often a transaction is run again after a conflict before it is given up. */
  readonly retries: number;
}

/** Opens as many workers as there are clients. */
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
