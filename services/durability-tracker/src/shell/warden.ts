// Sees to it that no session takes all locks of a node: then the server admits no login, no epoch
// begins and no replica replays. Also looks how full the queue of notifications is, which any role
// can fill. Owns when; how many locks are too many is the store's.
import { type Clock, sleep } from "@highwater/runtime";
import { type Log } from "@highwater/service";
import { type Store } from "@highwater/store";

export interface WardenOptions {
  readonly store: Pick<Store, "nodes" | "endLockFloods" | "notificationQueueUsage">;
  readonly clock: Clock;
  readonly log: Log;
  readonly onEnded: () => void;
  /** From 0 to 1. */
  readonly onQueue: (node: string, usage: number) => void;
  readonly signal: AbortSignal;
}

const EVERY_MS = 1_000;
/** The queue has room for 8 GB. */
const QUEUE_EVERY_MS = 10_000;

export function runWarden({ store, clock, log, onEnded, onQueue, signal }: WardenOptions): void {
  const watch = async (node: string): Promise<void> => {
    while (!signal.aborted) {
      // A node that cannot be asked is reported as such elsewhere.
      const ended = await store.endLockFloods(node).catch(() => []);
      for (const { role, locks } of ended) {
        log.warn("lock_flood_ended", { node, role, locks });
        onEnded();
      }
      await sleep(clock, EVERY_MS, signal);
    }
  };
  const lookAtQueue = async (node: string): Promise<void> => {
    while (!signal.aborted) {
      // As above. A node that is away has no queue that could fill.
      onQueue(node, await store.notificationQueueUsage(node).catch(() => 0));
      await sleep(clock, QUEUE_EVERY_MS, signal);
    }
  };
  for (const { id } of store.nodes) {
    void watch(id);
    void lookAtQueue(id);
  }
}
