// TPC-C's terminals: each stands in a warehouse and draws its next transaction from a shuffled deck
// (clause 5.2.4.2). Without keying and thinking times: how many terminals there are says how many
// transactions are under way.
import type { Isolation } from "@highwater/protocol";
import type { Random } from "../load/random.ts";
import type { Addresses, Way } from "../load/target.ts";
import type { Worker } from "../load/job.ts";
import { type Database, openDatabases } from "./database.ts";
import { DISTRICTS, type Scale, shuffled } from "./random.ts";
import { drawTransaction, type Kind, READ_ONLY } from "./transactions.ts";

export interface TpccOptions {
  readonly kind: "tpcc";
  readonly scale: Scale;
  /** New orders are answered at their commit point, and all others as the way says. */
  readonly newOrderFast: boolean;
  /** node-postgres sends what needs no answer of each other in one round trip. */
  readonly pipelined?: boolean;
}

/** The mix that the specification proposes: 10, 10, 1, 1 and 1 of 23. */
export const DECK: readonly Kind[] = [
  ...Array.from({ length: 10 }, (): Kind => "new_order"),
  ...Array.from({ length: 10 }, (): Kind => "payment"),
  ...(["order_status", "delivery", "stock_level"] as const),
];

export async function openTerminals(
  options: TpccOptions,
  {
    way,
    addresses,
    isolation,
    clients,
    random,
  }: {
    readonly way: Way;
    readonly addresses: Addresses;
    readonly isolation: Isolation;
    readonly clients: number;
    readonly random: (client: number) => Random;
  },
): Promise<Worker[]> {
  const databases = await openDatabases(clients, {
    way,
    addresses,
    isolation,
    pipelined: options.pipelined === true,
  });
  return databases.map((database, at) => terminal(options, database, at, random(at)));
}

function terminal(
  { scale, newOrderFast }: TpccOptions,
  database: Database,
  at: number,
  random: Random,
): Worker {
  const place = {
    warehouse: 1 + (at % scale.warehouses),
    district: 1 + (Math.floor(at / scale.warehouses) % DISTRICTS),
  };
  let deck: Kind[] = [];
  return {
    next: () => {
      if (deck.length === 0) deck = shuffled(random, DECK);
      const kind = deck.pop() ?? "new_order";
      const body = drawTransaction(kind, random, scale, place);
      const options = { readOnly: READ_ONLY.has(kind), fast: newOrderFast && kind === "new_order" };
      return { kind, attempt: () => database.transact(options, body) };
    },
    close: () => database.close(),
  };
}
