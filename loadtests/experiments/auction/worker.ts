// The load of the auction: publishers that each fill one page after the other, with the application
// of examples/ad-exchange on either system. Each step of a page is measured for itself, and the
// page as a whole.
import { randomUUID } from "node:crypto";
import pg from "pg";
import { Highwater, type Transaction, type TransactionOptions } from "@highwater/sdk";
import { type Client, Exchange } from "@highwater/example-ad-exchange/exchange";
import { type Random, whole } from "../load/random.ts";
import { CONFLICTS } from "../load/session.ts";
import { type Addresses, targetOf, type Way } from "../load/target.ts";
import type { Note, Worker } from "../load/job.ts";

export interface AuctionOptions {
  readonly kind: "auction";
  readonly bidsPerAuction: number;
  /** Every transaction is safe, also those that the application would call fast. */
  readonly allSafe: boolean;
}

/** A page whose ad was chosen, and recorded once. */
export const PAGE = "page";
const ATTEMPTS_MAX = 20;

export async function openPublishers(
  options: AuctionOptions,
  {
    way,
    addresses,
    clients,
    random,
    note,
  }: {
    readonly way: Way;
    readonly addresses: Addresses;
    readonly clients: number;
    readonly random: (client: number) => Random;
    readonly note: Note;
  },
): Promise<Worker[]> {
  const { client, close } = openClient(options, way, addresses, clients);
  const exchange = new Exchange(client);
  const workers = Array.from({ length: clients }, (_, at): Worker => {
    const own = random(at);
    return {
      next: () => ({ kind: PAGE, attempt: () => fillPage(exchange, { at, random: own, options, note }) }),
      close,
    };
  });
  return Promise.resolve(workers);
}

interface Page {
  readonly at: number;
  readonly random: Random;
  readonly options: AuctionOptions;
  readonly note: Note;
}

/** From the publisher's request to the ad: section 2.1 of the paper. */
async function fillPage(exchange: Exchange, { at, random, options, note }: Page): Promise<"committed"> {
  const timed = async <T>(step: string, work: Promise<T>): Promise<T> => {
    const beganMs = performance.now();
    const result = await work;
    note(step, performance.now() - beganMs);
    return result;
  };
  const auction = randomUUID();
  const cents = Array.from({ length: options.bidsPerAuction }, () => whole(random, 1, 500));
  await timed(
    "create_auction",
    exchange.createAuction({ id: auction, publisher: `publisher-${String(at)}`, slot: "banner" }),
  );
  await Promise.all(
    cents.map((each, bidder) =>
      timed("new_bid", exchange.newBid(auction, { advertiser: `advertiser-${String(bidder)}`, cents: each })),
    ),
  );
  const sale = await timed("close_auction", exchange.closeAuction(auction));
  // All bids were answered before: the best of them must have won.
  if (sale?.cents !== Math.max(...cents)) throw new Error(`the best bid has not won auction ${auction}`);
  return "committed";
}

interface Opened {
  readonly client: Client;
  readonly close: () => Promise<void>;
}

function openClient(
  { allSafe, bidsPerAuction }: AuctionOptions,
  way: Way,
  addresses: Addresses,
  clients: number,
): Opened {
  const target = targetOf(way, addresses, "serializable");
  if (target.kind === "direct") return directClient(target, clients * bidsPerAuction);
  const { url: gateway, tracker, level } = target;
  const highwater = new Highwater({ endpoints: [{ gateway, tracker }], level });
  const safe: Client = {
    transaction: (statements, options) =>
      highwater.transaction(statements, { ...options, ack: "durable", level }),
  };
  return { client: allSafe ? safe : highwater, close: () => highwater.close() };
}

const POOL_MAX = 64;

/**
 * The same application on node-postgres alone: its statements are prepared, and each commits by
 * itself.
 */
function directClient(
  { url, synchronousCommit }: { readonly url: string; readonly synchronousCommit: string },
  connections: number,
): Opened {
  const pool = new pg.Pool({
    connectionString: url,
    max: Math.min(POOL_MAX, connections),
    options: `-c synchronous_commit=${synchronousCommit} -c default_transaction_isolation=serializable`,
  });
  const transaction = async (
    statements: Parameters<Client["transaction"]>[0],
    _options: TransactionOptions,
  ): Promise<Transaction> => {
    const [statement] = statements;
    if (statement === undefined || statements.length > 1) throw new Error("one statement at a time");
    const { sql: text, params = [] } = "toStatement" in statement ? statement.toStatement() : statement;
    for (let attempt = 1; ; attempt++)
      try {
        const { rows } = await pool.query({ name: nameOf(text), text, values: [...params] });
        // What the exchange looks at. A commit with `synchronous_commit=on` has waited for the
        // replica when it returns.
        return { rows, results: [{ rows }], state: "durable" } as unknown as Transaction;
      } catch (cause) {
        if (!CONFLICTS.has((cause as { code?: unknown }).code) || attempt === ATTEMPTS_MAX) throw cause;
      }
  };
  let closed: Promise<void> | null = null;
  return { client: { transaction }, close: () => (closed ??= pool.end()) };
}

const names = new Map<string, string>();

/** The server cuts names that are longer than 63 bytes. */
function nameOf(text: string): string {
  let name = names.get(text);
  if (name === undefined) names.set(text, (name = `auction ${String(names.size + 1)}`));
  return name;
}
