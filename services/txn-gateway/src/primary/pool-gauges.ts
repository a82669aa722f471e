// Measures how busy the database sessions are, for /metrics.
import { GATEWAY, type Log } from "@highwater/service";
import { type Store } from "@highwater/store";
import { type Config } from "../config.ts";
import { type Metrics } from "../metrics.ts";

export function registerPoolGauges(
  metrics: Pick<Metrics, "read" | "poolWait">,
  { poolSize, poolQueue }: Pick<Config, "poolSize" | "poolQueue">,
  store: Pick<Store, "pools" | "observe">,
  log: Log,
): void {
  /** What was last logged, by role. */
  const logged = new Map<string, string>();
  const wait = metrics.poolWait.at();
  store.observe({
    onWaited: (waitedMs) => {
      wait.observe(waitedMs / 1_000);
    },
    onUnprotected: (node, role, unprotected) => {
      const text = unprotected.join();
      if (logged.get(role) === text) return;
      logged.set(role, text);
      log.warn("role_unprotected", { node, role, unprotected });
    },
  });
  metrics.read(GATEWAY.poolSize, () => poolSize);
  metrics.read(GATEWAY.poolQueueBound, () => poolQueue);
  metrics.read(GATEWAY.poolSessions, () =>
    store.pools().flatMap(({ node, use, busy, idle }) => [
      { labels: { node, use, state: "busy" }, value: busy },
      { labels: { node, use, state: "idle" }, value: idle },
    ]),
  );
  metrics.read(GATEWAY.poolQueue, () =>
    store.pools().map(({ node, use, waiting }) => ({ labels: { node, use }, value: waiting })),
  );
}
