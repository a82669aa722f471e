// The load of the experiment about sessions: clients of the SDK that write a row now and then and
// read rows in between, in a session whose reads see all that it has written, or without one.
import { Highwater, type Session } from "@highwater/sdk";
import type { Note, Worker } from "../load/job.ts";
import type { Random } from "../load/random.ts";
import type { Addresses } from "../load/target.ts";
import { type Rows, statementOf } from "../load/workload.ts";

export interface ReaderOptions extends Rows {
  readonly kind: "session";
  /** The place of the client and of its gateway. */
  readonly at: "primary" | "replica";
  /** Reads carry the session's token. Otherwise they see what their node has. */
  readonly isCausal: boolean;
  /** Share of the transactions that write. */
  readonly writes: number;
}

/** A replica has no serializable snapshots, and both places are compared with each other. */
const ISOLATION = "repeatable read";

export async function openReaders(
  options: ReaderOptions,
  {
    addresses,
    clients,
    random,
    note,
  }: {
    readonly addresses: Addresses;
    readonly clients: number;
    readonly random: (client: number) => Random;
    readonly note: Note;
  },
): Promise<Worker[]> {
  const { farGateway, gateway, tracker, level } = addresses;
  const isFar = options.at === "replica";
  const client = new Highwater({ endpoints: [{ gateway: isFar ? farGateway : gateway, tracker }], level });
  return Promise.resolve(
    Array.from({ length: clients }, (_, at): Worker => {
      const transactions = options.isCausal ? client.session({ causal: true }) : client;
      return reader(options, { transactions, client, random: random(at), note });
    }),
  );
}

interface Opened {
  readonly transactions: Session | Highwater;
  readonly client: Highwater;
  readonly random: Random;
  readonly note: Note;
}

function reader(options: ReaderOptions, { transactions, client, random, note }: Opened): Worker {
  const { at, isCausal, writes } = options;
  const read = async (): Promise<"committed"> => {
    const beganMs = performance.now();
    const statement = statementOf({ ...options, kind: "read" }, random);
    const { rows, served } = await transactions.transaction(statement, {
      readOnly: true,
      isolation: ISOLATION,
      // A session's token says it by itself.
      ...(!isCausal && at === "replica" && { mode: "local" }),
    });
    if (rows.length !== 1) throw new Error(`${String(rows.length)} rows instead of one`);
    note(`read at the ${served?.role ?? "primary"}`, performance.now() - beganMs);
    return "committed";
  };
  const write = async (): Promise<"committed"> => {
    const statement = statementOf({ ...options, kind: "update" }, random);
    await transactions.transaction(statement, { isolation: "read committed" });
    return "committed";
  };
  return {
    next: () => (random() < writes ? { kind: "write", attempt: write } : { kind: "read", attempt: read }),
    close: () => client.close(),
  };
}
