// Reads what any tracker has recorded as broken, so that this one reports the same: a client may
// ask another tracker than the one that reported to it. Owns how far it has read; the core owns the
// consequences.
import { type EpochGraph } from "@highwater/protocol";
import { type Clock, sleep } from "@highwater/runtime";
import { type Log } from "@highwater/service";
import { comparePositions, type EventStore } from "@highwater/store";
import { type Published } from "../core/index.ts";
import { type PrimaryEpoch } from "./event-log.ts";
import { peerVerdictOf } from "./new-events.ts";
import { readOn } from "./reading-on.ts";
import { type Cursor, cursorAt, FIRST_CURSOR } from "./wire.ts";

export interface BrokenElsewhereDeps {
  readonly events: EventStore;
  readonly clock: Clock;
  readonly log: Log;
  readonly primaryEpoch: () => PrimaryEpoch | null;
  readonly epochs: () => EpochGraph;
  readonly onPeerVerdicts: (peerVerdicts: readonly Published[]) => void;
}

const LOOK_MS = 1_000;
const PAGE = 1_000;

export class BrokenElsewhere {
  readonly #deps: BrokenElsewhereDeps;
  readonly #stop = new AbortController();
  #wake = new AbortController();
  /** Everything at or below has been read. */
  #readTo: Cursor = FIRST_CURSOR;

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

  /** Another epoch is current. */
  wake(): void {
    this.#wake.abort();
    if (!this.#stop.signal.aborted) this.#wake = new AbortController();
  }

  async #run(): Promise<void> {
    const { clock, log, primaryEpoch } = this.#deps;
    let failedIn: string | null = null;
    while (!this.#stop.signal.aborted) {
      const wake = this.#wake.signal;
      const now = primaryEpoch();
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
  async #read({ node, epoch }: PrimaryEpoch): Promise<boolean> {
    const { events, onPeerVerdicts, epochs } = this.#deps;
    // Peer verdicts of a history that was given up say nothing of the current one.
    const { from } = readOn(this.#readTo, epochs(), epoch);
    const { end } = await events.extent(node, epoch);
    if (comparePositions(end, from) <= 0) return false;
    const filter = { after: from, owner: null, types: ["transaction.broken"], limit: PAGE } as const;
    const found = await events.read(node, epoch, filter);
    if (found.length > 0) onPeerVerdicts(found.map(peerVerdictOf));
    this.#readTo = cursorAt(found.length < PAGE ? end : (found.at(-1) ?? end));
    return found.length === PAGE;
  }
}
