// Reads what any tracker has recorded as broken, so that this one says the same: a client may ask another tracker than the one
// that told it. Owns how far it has read; what follows from a word is the core's.
import { type EpochRecord } from "@highwater/protocol";
import { type Log } from "@highwater/service";
import {
  type Clock,
  comparePlaces,
  type EventPlace,
  type EventStore,
  FIRST_PLACE,
  sleep,
} from "@highwater/store";
import { type Published } from "../core/index.ts";
import { type Reign } from "./event-log.ts";
import { brokenWord } from "./new-events.ts";

export interface BrokenElsewhereDeps {
  readonly events: EventStore;
  readonly clock: Clock;
  readonly log: Log;
  readonly reign: () => Reign | null;
  /** The reigning epoch and those before it, oldest first. */
  readonly ancestry: () => readonly EpochRecord[];
  readonly onWords: (words: readonly Published[]) => void;
}

const LOOK_MS = 1_000;
const PAGE = 1_000;

export class BrokenElsewhere {
  readonly #deps: BrokenElsewhereDeps;
  readonly #stop = new AbortController();
  #wake = new AbortController();
  /** Everything at or below has been read in this history. */
  #readTo: EventPlace = FIRST_PLACE;
  /** The history in which that is true. */
  #history: ReadonlySet<string> = new Set();

  constructor(deps: BrokenElsewhereDeps) {
    this.#deps = deps;
  }

  start(): void {
    void this.#run();
  }

  stop(): void {
    this.#stop.abort();
    this.#wake.abort();
  }

  /** Another epoch reigns. */
  nudge(): void {
    this.#wake.abort();
    if (!this.#stop.signal.aborted) this.#wake = new AbortController();
  }

  async #run(): Promise<void> {
    const { clock, log, reign } = this.#deps;
    let failedIn: string | null = null;
    while (!this.#stop.signal.aborted) {
      const wake = this.#wake.signal;
      const now = reign();
      let isMore = false;
      try {
        if (now !== null) isMore = await this.#read(now);
        failedIn = null;
      } catch (cause) {
        // Expected once when an epoch ends; worth a line only if it goes on, and then once.
        if (now !== null && failedIn !== now.epoch)
          log.warn("broken_promises_not_read", { node: now.node, cause: String(cause) });
        failedIn = now?.epoch ?? null;
      }
      if (!isMore) await sleep(clock, LOOK_MS, wake);
    }
  }

  /** True when there is more at once. */
  async #read({ node, epoch }: Reign): Promise<boolean> {
    const { events, onWords } = this.#deps;
    this.#follow();
    const { end } = await events.extent(node, epoch);
    if (comparePlaces(end, this.#readTo) <= 0) return false;
    const filter = { after: this.#readTo, owner: null, types: ["transaction.broken"], limit: PAGE } as const;
    const found = await events.read(node, epoch, filter);
    if (found.length > 0) onWords(found.map(brokenWord));
    const last = found.length < PAGE ? end : (found.at(-1) ?? end);
    if (comparePlaces(last, this.#readTo) > 0) this.#readTo = last;
    return found.length === PAGE;
  }

  /** What was read of a history that was given up says nothing of the one that reigns: read on from where they part. */
  #follow(): void {
    const ancestry = this.#deps.ancestry();
    const common = ancestry.findLast(({ id }) => this.#history.has(id));
    const parted: EventPlace = { seq: common?.seq ?? 0, n: 0 };
    if (common?.id !== ancestry.at(-1)?.id && comparePlaces(parted, this.#readTo) < 0) this.#readTo = parted;
    this.#history = new Set(ancestry.map(({ id }) => id));
  }
}
