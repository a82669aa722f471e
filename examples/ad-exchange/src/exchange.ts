// A simplified ad exchange, as its developer would write it (the example of the eventual durability
// paper, section 2.1). A publisher has an empty slot on a page that a user waits for; advertisers
// bid for it; the highest bid wins.
//
// The page cannot wait for a remote disk at every step, so CreateAuction and NewBid are *fast*:
// they answer at their commit, a few milliseconds later, and a failure within the next moments may
// still lose them. That is a bid less, or a page without an ad. CloseAuction is *safe*: its answer
// is money, so it waits until the sale would survive the loss of a region. And what is durable is a
// prefix of what was committed: with the sale, its auction and bids are durable too.
//
// Lost auctions and bids can be brought back. The exchange makes their keys itself; each statement
// writes one row, and returns all of it if it depends on another row.
import { randomUUID } from "node:crypto";
import {
  HighwaterError,
  newTransactionId,
  sql,
  type StatementInput,
  type Transaction,
  type TransactionOptions,
} from "@highwater/sdk";

/** What the exchange needs of the SDK's client. */
export interface Client {
  transaction(statements: readonly StatementInput[], options: TransactionOptions): Promise<Transaction>;
}

/**
 * Every row names the transaction that wrote it. A real exchange might want that for its audit;
 * here it lets the check find out, without asking any service, what became of each transaction.
 */
export const SCHEMA = [
  sql`CREATE TABLE auction (
    id uuid PRIMARY KEY,
    publisher text NOT NULL,
    slot text NOT NULL,
    state text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'closed')),
    created_by uuid NOT NULL)`,
  sql`CREATE TABLE bid (
    id uuid PRIMARY KEY,
    auction_id uuid NOT NULL REFERENCES auction,
    advertiser text NOT NULL,
    cents integer NOT NULL,
    placed_by uuid NOT NULL)`,
  sql`CREATE INDEX ON bid (auction_id)`,
  sql`CREATE TABLE sale (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    auction_id uuid NOT NULL REFERENCES auction,
    bid_id uuid REFERENCES bid,
    cents integer,
    closed_by uuid NOT NULL)`,
];

/** Survives the loss of the region that committed it. */
const LEVEL = "region";
const ATTEMPTS_MAX = 6;
const RERUN_PAUSE_MS = 8;

export interface Sale {
  readonly advertiser: string | null;
  readonly cents: number | null;
}

export interface AuctionStatus {
  readonly state: "open" | "closed";
  /** The highest first. */
  readonly bids: readonly { readonly advertiser: string; readonly cents: number }[];
}

export class Exchange {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /** Safe: the tables are there for good before anybody trades. */
  async createTables(): Promise<void> {
    await this.#run("CreateTables", () => SCHEMA, { ack: "durable", level: LEVEL });
  }

  /** Fast. */
  async createAuction(auction: { id: string; publisher: string; slot: string }): Promise<void> {
    const { id, publisher, slot } = auction;
    await this.#run("CreateAuction", (transaction) => [
      sql`INSERT INTO auction (id, publisher, slot, created_by) VALUES (${id}, ${publisher}, ${slot}, ${transaction})`,
    ]);
  }

  /** Fast. A bid in an auction that is closed, or that a failure has taken, is not recorded. */
  async newBid(auctionId: string, bid: { advertiser: string; cents: number }): Promise<void> {
    const { advertiser, cents } = bid;
    const id = randomUUID();
    await this.#run("NewBid", (transaction) => [
      sql`INSERT INTO bid (id, auction_id, advertiser, cents, placed_by)
          SELECT ${id}, id, ${advertiser}, ${cents}, ${transaction} FROM auction
          WHERE id = ${auctionId} AND state = 'open'
          RETURNING *`,
    ]);
  }

  /**
   * Safe: closes the auction, picks the winner and records the sale, all or nothing. Undefined when
   * there is no such open auction: a failure took it before it was durable.
   */
  async closeAuction(auctionId: string): Promise<Sale | undefined> {
    const closed = await this.#run(
      "CloseAuction",
      (transaction) => [
        sql`WITH closing AS (
              UPDATE auction SET state = 'closed' WHERE id = ${auctionId} AND state = 'open' RETURNING id
            ), winner AS (
              SELECT id, advertiser, cents FROM bid WHERE auction_id = ${auctionId} ORDER BY cents DESC, id LIMIT 1
            ), sold AS (
              INSERT INTO sale (auction_id, bid_id, cents, closed_by)
              SELECT closing.id, winner.id, winner.cents, ${transaction} FROM closing LEFT JOIN winner ON true
              RETURNING bid_id
            )
            SELECT advertiser, cents FROM sold LEFT JOIN winner ON winner.id = sold.bid_id`,
      ],
      { ack: "durable", level: LEVEL },
    );
    // The answer got lost and this is the outcome of the first attempt, without its rows: read them
    // again.
    const { rows } = closed.results === null ? await this.#saleOf(auctionId) : closed;
    const [row] = rows;
    return row && { advertiser: row["advertiser"] as string | null, cents: row["cents"] as number | null };
  }

  #saleOf(auctionId: string): Promise<Transaction> {
    return this.#run(
      "SaleOf",
      () => [
        sql`SELECT advertiser, sale.cents, created_by, placed_by, closed_by
            FROM sale JOIN auction ON auction.id = sale.auction_id LEFT JOIN bid ON bid.id = sale.bid_id
            WHERE sale.auction_id = ${auctionId}`,
      ],
      { readOnly: true, ack: "durable", level: LEVEL },
    );
  }

  /**
   * What an auction looks like now. Fast, it may show what a failure can still undo; safe,
   * everything that it shows is durable when it answers.
   */
  async auctionStatus(auctionId: string, options: { safe: boolean }): Promise<AuctionStatus | undefined> {
    const { rows } = await this.#run(
      "AuctionStatus",
      () => [
        sql`SELECT state, advertiser, bid.cents, created_by, placed_by, closed_by
            FROM auction LEFT JOIN bid ON bid.auction_id = auction.id LEFT JOIN sale ON sale.auction_id = auction.id
            WHERE auction.id = ${auctionId} ORDER BY bid.cents DESC`,
      ],
      { readOnly: true, ...(options.safe && { ack: "durable", level: LEVEL }) },
    );
    const [first] = rows;
    if (first === undefined) return undefined;
    const bids = rows
      .filter((row) => row["placed_by"] !== null)
      .map((row) => ({ advertiser: row["advertiser"] as string, cents: row["cents"] as number }));
    return { state: first["state"] as AuctionStatus["state"], bids };
  }

  /**
   * Runs one transaction, fast unless the options say otherwise. Lost replies, dead connections and
   * failovers are the SDK's business: it sends the same id again, and the id never runs twice. The
   * rest is the application's: the transaction that certainly came to nothing, by a conflict or in
   * a failure. The body runs again, with a new id.
   */
  async #run(
    name: string,
    body: (transaction: string) => readonly StatementInput[],
    options: TransactionOptions = {},
  ): Promise<Transaction> {
    for (let attempt = 1; ; attempt++) {
      const id = newTransactionId();
      try {
        return await this.#client.transaction(body(id), {
          ...options,
          id,
          isolation: "serializable",
          metadata: { name },
        });
      } catch (error) {
        const again = error instanceof HighwaterError && error.retry === "transaction";
        if (!again || attempt === ATTEMPTS_MAX) throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, attempt * RERUN_PAUSE_MS * Math.random()));
    }
  }
}
