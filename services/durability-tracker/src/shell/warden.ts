// Sees to it that no session takes all locks of a node: then the server admits no login, no epoch
// begins and no replica replays. Owns when; how many are too many is the store's.
import { type Clock, sleep } from "@highwater/runtime";
import { type Log } from "@highwater/service";
import { type Store } from "@highwater/store";

export interface WardenOptions {
  readonly store: Pick<Store, "nodes" | "endLockFloods">;
  readonly clock: Clock;
  readonly log: Log;
  readonly onEnded: () => void;
  readonly signal: AbortSignal;
}

const EVERY_MS = 1_000;

export function runWarden({ store, clock, log, onEnded, signal }: WardenOptions): void {
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
  for (const { id } of store.nodes) void watch(id);
}
