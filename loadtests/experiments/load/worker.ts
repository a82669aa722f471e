// The load generator's clients, by the kind of their work.
import { type Addresses, targetOf, type Way } from "./target.ts";
import type { Isolation } from "@highwater/protocol";
import type { Note, Worker } from "./job.ts";
import type { Random } from "./random.ts";
import { openSessions, type Session } from "./session.ts";
import { statementOf, type Workload } from "./workload.ts";
import type { TpccOptions } from "../tpcc/terminal.ts";
import type { AuctionOptions } from "../auction/worker.ts";
import type { ReaderOptions } from "../session/worker.ts";

/** Clients of one kind, as the load generator receives them. */
export interface Group {
  readonly name: string;
  readonly way: Way;
  readonly workload: Workload | TpccOptions | AuctionOptions | ReaderOptions;
  readonly isolation: Isolation;
  readonly clients: number;
  /** Of the pool, where the way has one. */
  readonly connections?: number;
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
  const { workload, way, isolation, clients, connections } = group;
  switch (workload.kind) {
    case "tpcc": {
      const { openTerminals } = await import("../tpcc/terminal.ts");
      return openTerminals(workload, { way, addresses, isolation, clients, random });
    }
    case "auction": {
      const { openPublishers } = await import("../auction/worker.ts");
      return openPublishers(workload, { way, addresses, clients, random, note });
    }
    case "session": {
      const { openReaders } = await import("../session/worker.ts");
      return openReaders(workload, { addresses, clients, random, note });
    }
    default: {
      const sessions = await openSessions(targetOf(way, addresses, isolation), { clients, connections });
      return sessions.map((session, client) => statementWorker(workload, session, random(client)));
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
