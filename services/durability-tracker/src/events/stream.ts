// One client's SSE stream of events: first what it missed, from the store, then what the feed
// sends. A failover does not end it. A slow client gets events at its own pace. A client that does
// not read is disconnected, and comes back with the last id that it received.
import { type ServerResponse } from "node:http";
import { type EventsBegin, type LiveDurableEvent } from "@highwater/protocol";
import { type Clock, sleep } from "@highwater/runtime";
import { comparePositions, type RecordedEvent } from "@highwater/store";
import { type BecameDurable } from "../core/index.ts";
import { type EventFeed, type Listener } from "./feed.ts";
import { durableData } from "./new-events.ts";
import { type EventsQuery } from "./query.ts";
import { type Cursor, cursorAt, FIRST_CURSOR, formatCursor, wireEvent } from "./wire.ts";

/**
 * With so much waiting for a client to read it, the client does not get live events any more, but
 * reads at its own pace.
 */
const MAX_LIVE_BYTES = 1024 * 1024;
/** And with so much of what is sent live only, it is cut off. */
const MAX_BUFFERED_BYTES = 16 * 1024 * 1024;
const WRITE_CHARS = 64 * 1024;
const PAGE = 200;
const RETRY_MS = 250;

export interface EventStreamOptions {
  readonly feed: EventFeed;
  readonly clock: Clock;
  /** Null: every owner's. */
  readonly owner: bigint | null;
  readonly query: EventsQuery;
  /** How long a client may take to read what it has missed, a page at a time. */
  readonly drainMs: number;
}

export class EventStream implements Listener {
  readonly owner: bigint | null;
  readonly types: Listener["types"];
  readonly durable: Listener["durable"];
  readonly #options: EventStreamOptions;
  readonly #response: ServerResponse;
  readonly #gone = new AbortController();
  #cursor: Cursor = FIRST_CURSOR;
  #hasBegun = false;
  #isLive = false;
  #leave: () => void = () => undefined;
  #leaveDurable: () => void = () => undefined;

  /** The response's head must not have been sent. */
  constructor(response: ServerResponse, options: EventStreamOptions) {
    this.#response = response;
    this.#options = options;
    this.owner = options.owner;
    this.types = options.query.types;
    this.durable = options.query.durable;
    const over = (): void => {
      this.#gone.abort();
      this.#leave();
      this.#leaveDurable();
    };
    response.once("close", over);
    response.on("error", over);
    response.writeHead(200, {
      "content-type": "text/event-stream",
      "cache-control": "no-store",
      "x-accel-buffering": "no",
    });
    response.socket?.setNoDelay(true);
    response.write(": connected\n\n");
    if (response.destroyed) over();
  }

  /** Resolves when the client is up to date and will get all that follows, or has gone. */
  async run(): Promise<void> {
    while (!this.#isGone && !this.#isLive) {
      try {
        if (!this.#hasBegun) await this.#begin(this.#options.query.after);
        await this.#catchUp();
      } catch {
        // A failover; the store is asked again as soon as there is a primary.
        await sleep(this.#options.clock, RETRY_MS, this.#gone.signal);
      }
    }
  }

  get #isGone(): boolean {
    return this.#gone.signal.aborted;
  }

  /**
   * Also once more, when the history of the earlier events is given up: the client has to know from
   * where on it gets what it may know.
   */
  async #begin(after: Cursor | null): Promise<void> {
    const { feed } = this.#options;
    const { from, missed } = await feed.begin(after);
    this.#cursor = from;
    const begin: EventsBegin = { after: formatCursor(from), missed };
    this.#write(`id: ${begin.after}\nevent: begin\ndata: ${JSON.stringify(begin)}\n\n`);
    if (!this.#isGone && !this.#hasBegun) this.#leaveDurable = feed.joinDurable(this);
    this.#hasBegun = true;
  }

  /**
   * Page by page, until nothing is between the client and the feed's head; then the feed goes on.
   */
  async #catchUp(): Promise<void> {
    const { feed, clock } = this.#options;
    const { owner, types } = this;
    while (!this.#isGone) {
      const { found, primaryEpoch } = await feed.readOn(this.#cursor);
      if (found !== "here") {
        await this.#begin(this.#cursor);
        continue;
      }
      const head = feed.headIn(primaryEpoch.epoch);
      const events = await feed.read(primaryEpoch, { after: this.#cursor, owner, types, limit: PAGE });
      for (let sent = 0; sent < events.length && !this.#isGone; await this.#drained())
        sent += this.#send(events, sent);
      if (events.length === PAGE) continue;
      // The head was looked at before the page: everything up to there would have been on it.
      if (head !== null && comparePositions(head, this.#cursor) > 0) this.#cursor = head;
      const can = feed.canJoin(this.#cursor, primaryEpoch.epoch);
      if (can === "later") await sleep(clock, RETRY_MS, this.#gone.signal);
      if (this.#isGone || can !== "now") continue;
      this.#isLive = true;
      this.#leave = feed.join(this, this.#cursor, primaryEpoch.epoch);
      return;
    }
  }

  async #drained(): Promise<void> {
    const response = this.#response;
    if (!response.writableNeedDrain || this.#isGone) return;
    const { clock, drainMs } = this.#options;
    const drained = new AbortController();
    const go = (): void => {
      drained.abort();
    };
    response.once("drain", go);
    this.#gone.signal.addEventListener("abort", go, { once: true });
    await sleep(clock, drainMs, drained.signal);
    response.off("drain", go);
    this.#gone.signal.removeEventListener("abort", go);
    if (!drained.signal.aborted) response.destroy();
  }

  onEvents(events: readonly RecordedEvent[]): void {
    for (let sent = 0; sent < events.length && !this.#isGone;) {
      sent += this.#send(events, sent);
      if (this.#response.writableLength <= MAX_LIVE_BYTES) continue;
      this.#leave();
      this.#catchUpAgain();
      return;
    }
  }

  onParted(): void {
    this.#catchUpAgain();
  }

  #catchUpAgain(): void {
    this.#isLive = false;
    void this.run();
  }

  /** As many of them, from the given one on, as make a good write; says how many. */
  #send(events: readonly RecordedEvent[], from: number): number {
    let text = "";
    let sent = 0;
    for (const event of events.slice(from)) {
      if (text.length > WRITE_CHARS) break;
      const wire = wireEvent(event);
      text += `id: ${wire.id}\nevent: ${wire.type}\ndata: ${JSON.stringify(wire)}\n\n`;
      this.#cursor = cursorAt(event);
      sent++;
    }
    this.#write(text);
    return sent;
  }

  onDurable(item: BecameDurable, level: string): void {
    const at = new Date(this.#options.clock.wallMs()).toISOString();
    const sent: LiveDurableEvent = { type: "transaction.durable", at, data: durableData(level, item) };
    this.#write(`event: ${sent.type}\ndata: ${JSON.stringify(sent)}\n\n`);
  }

  heartbeat(): void {
    this.#write(": alive\n\n");
  }

  end(): void {
    this.#response.end();
  }

  #write(text: string): void {
    const response = this.#response;
    if (this.#isGone || response.writableEnded) return;
    response.write(text);
    if (response.writableLength > MAX_BUFFERED_BYTES) response.destroy();
  }
}
