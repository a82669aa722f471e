// The load: publishers with pages that need an ad now. Pages come at their own pace, whatever the
// exchange does; a page that finds too many others waiting goes out without an ad.
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { HighwaterError } from "@highwater/sdk";
import { type Exchange } from "./exchange.ts";

export interface Load {
  readonly publishers: number;
  /** Average pause between two pages of one publisher. */
  readonly pauseMs: number;
  readonly bidsPerAuction: number;
  /** Pages of one publisher that may wait for their ad at the same time. */
  readonly pagesMax: number;
}

export const MODERATE: Load = { publishers: 5, pauseMs: 300, bidsPerAuction: 4, pagesMax: 16 };

/** How long an auction takes bids. */
const BIDDING_MS = 50;
/**
 * The part of the advertisers that look at the standing bids first, and of publishers that check
 * the sale again.
 */
const LOOKING = 0.2;

export interface Tally {
  sold: number;
  /** There was no bid in time. */
  unsold: number;
  /** The auction itself was lost before it closed, so the page had no ad. */
  vanished: number;
  /** Given up because of an error. */
  failed: number;
  /** Not even tried: too many pages were waiting. */
  skipped: number;
}

export class Publishers {
  readonly tally: Tally = { sold: 0, unsold: 0, vanished: 0, failed: 0, skipped: 0 };
  readonly errors = new Map<string, number>();
  readonly #exchange: Exchange;
  readonly #load: Load;
  readonly #stopped = new AbortController();
  readonly #pages = new Set<Promise<void>>();
  readonly #running: Promise<unknown>;

  constructor(exchange: Exchange, load: Load) {
    this.#exchange = exchange;
    this.#load = load;
    this.#running = Promise.all(
      Array.from({ length: load.publishers }, (_, index) => this.#publish(`publisher-${String(index + 1)}`)),
    );
  }

  /** Pages that are under way. */
  get open(): number {
    return this.#pages.size;
  }

  /** No more pages; resolves when those under way have had their answer. */
  async stop(): Promise<void> {
    this.#stopped.abort();
    await this.#running;
    await Promise.all(this.#pages);
  }

  async #publish(publisher: string): Promise<void> {
    const own = new Set<Promise<void>>();
    const { signal } = this.#stopped;
    while (!signal.aborted) {
      await sleep(this.#load.pauseMs * (0.5 + Math.random()), undefined, { signal }).catch(() => undefined);
      if (signal.aborted) return;
      if (own.size >= this.#load.pagesMax) {
        this.tally.skipped += 1;
        continue;
      }
      const page = this.#fillSlot(publisher).catch((error: unknown) => {
        this.#note(error);
      });
      own.add(page);
      this.#pages.add(page);
      void page.finally(() => {
        own.delete(page);
        this.#pages.delete(page);
      });
    }
  }

  /** One page: the workflow of the exchange, from the publisher's request to the ad. */
  async #fillSlot(publisher: string): Promise<void> {
    const auction = randomUUID();
    await this.#exchange.createAuction({ id: auction, publisher, slot: "banner" });
    const bids = Array.from({ length: this.#load.bidsPerAuction }, (_, index) =>
      this.#bid(auction, `advertiser-${String(index + 1)}`).catch((error: unknown) => {
        this.#noteError(error);
      }),
    );
    await sleep(BIDDING_MS);
    const sale = await this.#exchange.closeAuction(auction);
    if (sale === undefined) this.tally.vanished += 1;
    else if (sale.advertiser === null) this.tally.unsold += 1;
    else this.tally.sold += 1;
    if (Math.random() < LOOKING) await this.#exchange.auctionStatus(auction, { safe: true });
    await Promise.all(bids);
  }

  /** Some advertisers think for longer than the auction is open. */
  async #bid(auction: string, advertiser: string): Promise<void> {
    await sleep(Math.random() * 1.2 * BIDDING_MS);
    if (Math.random() < LOOKING) await this.#exchange.auctionStatus(auction, { safe: false });
    await this.#exchange.newBid(auction, { advertiser, cents: 1 + Math.floor(Math.random() * 500) });
  }

  #note(error: unknown): void {
    this.tally.failed += 1;
    this.#noteError(error);
  }

  #noteError(error: unknown): void {
    const what = error instanceof HighwaterError ? error.code : String(error);
    this.errors.set(what, (this.errors.get(what) ?? 0) + 1);
  }
}
