// The tracker's recorded events: first those that it keeps, page by page, then new ones as they are
// recorded. Transactions that become durable are not recorded; the log has the latest of them if
// asked.
import { signal } from "@preact/signals";
import type { DurabilityEvent, EventPage, LiveDurableEvent } from "@highwater/protocol";
import { type Clock, sleep } from "@highwater/runtime";
import { type Api, ApiError, messageOf } from "./api.ts";
import { makeSoon } from "./timing.ts";

export const MAX_EVENTS = 20_000;
const MAX_DURABLE = 1_000;
const PAGE = 1_000;
const SHOW_MS = 200;
const RETRY_MS = 1_000;
const OLDEST = "0.0";

export type LogState = "idle" | "reading" | "live" | "lost";

export class EventLog {
  /** Oldest first. */
  readonly events = signal<readonly DurabilityEvent[]>([]);
  /** Oldest first. */
  readonly durable = signal<readonly LiveDurableEvent[]>([]);
  readonly state = signal<LogState>("idle");
  readonly fault = signal("");
  /** Older events are not shown: the tracker has dropped them, or there are too many. */
  readonly isShortened = signal(false);
  readonly #api: Api;
  readonly #clock: Clock;
  readonly #stop = new AbortController();
  readonly #showSoon: () => void;
  readonly #byId = new Map<string, DurabilityEvent>();
  #newDurable: LiveDurableEvent[] = [];
  #after = OLDEST;
  #following = new AbortController();
  #durableAt: string | null = null;

  constructor(api: Api, clock: Clock) {
    this.#api = api;
    this.#clock = clock;
    this.#showSoon = makeSoon(clock, SHOW_MS, () => {
      this.#showNow();
    });
  }

  /** Reads the events when a view first needs them. */
  open(): void {
    if (this.state.peek() !== "idle") return;
    this.state.value = "reading";
    void this.#run();
  }

  /** The level at which transactions are shown as they become durable. */
  get durableLevel(): string | null {
    return this.#durableAt;
  }

  stop(): void {
    this.#stop.abort();
    this.#following.abort();
  }

  /** Asks for transactions that become durable at the level; null: for none. */
  wantDurable(level: string | null): void {
    if (this.#durableAt === level) return;
    this.#durableAt = level;
    this.durable.value = [];
    // Its end begins the next one.
    this.#following.abort();
  }

  async #run(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      try {
        await this.#readKept();
        break;
      } catch (cause) {
        // Without a primary there are no pages for a while.
        this.state.value = "lost";
        this.fault.value = messageOf(cause);
        if (cause instanceof ApiError && cause.status === 403) return;
        await sleep(this.#clock, RETRY_MS, this.#stop.signal);
      }
    }
    while (!this.#stop.signal.aborted) {
      this.#following = new AbortController();
      await this.#follow(this.#following.signal);
    }
  }

  async #readKept(): Promise<void> {
    for (let more = true; more && !this.#stop.signal.aborted;) {
      const query = `format=json&limit=${String(PAGE)}&after=${this.#after}`;
      const page = await this.#api.get<EventPage>(`/v1/durability/events?${query}`);
      for (const event of page.events) this.#keep(event);
      if (page.missed && this.#after !== OLDEST) this.isShortened.value = true;
      this.#after = page.next;
      more = page.more;
      this.#showNow();
    }
  }

  #follow(stop: AbortSignal): Promise<void> {
    const level = this.#durableAt;
    const durable = level === null ? "" : `&durable=true&level=${encodeURIComponent(level)}`;
    return this.#api.follow({
      path: `/v1/durability/events?format=stream${durable}`,
      signal: stop,
      lastEventId: this.#after,
      onMessage: ({ id, event, data }) => {
        if (id !== undefined) this.#after = id;
        if (event === "begin") return;
        if (event === "transaction.durable") this.#newDurable.push(JSON.parse(data) as LiveDurableEvent);
        else this.#keep(JSON.parse(data) as DurabilityEvent);
        this.#showSoon();
      },
      onConnected: (isConnected, fault) => {
        this.state.value = isConnected ? "live" : "lost";
        this.fault.value = fault;
      },
    });
  }

  #keep(event: DurabilityEvent): void {
    // After a history was given up, the events of the shared epoch come a second time.
    this.#byId.set(event.id, event);
    const [oldest] = this.#byId.keys();
    if (this.#byId.size <= MAX_EVENTS || oldest === undefined) return;
    this.#byId.delete(oldest);
    this.isShortened.value = true;
  }

  #showNow(): void {
    this.events.value = [...this.#byId.values()];
    if (this.#newDurable.length === 0) return;
    this.durable.value = [...this.durable.peek(), ...this.#newDurable].slice(-MAX_DURABLE);
    this.#newDurable = [];
  }
}
