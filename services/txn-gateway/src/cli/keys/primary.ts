// Which node the command changes: the authoritative primary, by the same rule as the services'. And
// when a change is safe.
import { type Authority, type AuthorityRule, AuthorityWatcher, type NodeReport } from "@highwater/authority";
import { type EpochId, HighwaterError, outranks } from "@highwater/protocol";
import { type Clock, sleep } from "@highwater/runtime";
import { type Store } from "@highwater/store";

export interface Primary {
  readonly node: string;
  /** The server's clock when it was asked. */
  readonly serverTimeMs: number;
}

export interface Replication {
  readonly have: readonly string[];
  readonly lack: readonly string[];
}

const FIND_MS = 15_000;
const PROBE_INTERVAL_MS = 200;
const REPLICATION_MS = 10_000;
const REPLICATION_POLL_MS = 50;

/** Errors: `primary_unavailable` or `split_brain`, with the reason. */
export async function findPrimary(store: Store, clock: Clock, rule: AuthorityRule): Promise<Primary> {
  const found = new AbortController();
  const watcher: AuthorityWatcher = new AuthorityWatcher({
    store,
    clock,
    rule,
    known: null,
    intervalMs: PROBE_INTERVAL_MS,
    onAuthority: (authority) => {
      if ("node" in authority) found.abort();
    },
  });
  watcher.start();
  try {
    await sleep(clock, FIND_MS, found.signal);
    const { authority, reports } = watcher;
    const report = "node" in authority ? reports.get(authority.node) : undefined;
    if (report === undefined) throw refusal(authority);
    refuseZombie(report, watcher);
    return { node: report.node, serverTimeMs: report.serverTimeMs };
  } finally {
    watcher.stop();
  }
}

function refusal(authority: Authority): HighwaterError {
  const code = authority.kind === "split" ? "split_brain" : "primary_unavailable";
  return new HighwaterError(code, { detail: "reason" in authority ? authority.reason : authority.kind });
}

/**
 * This process remembers no epoch, so an old primary could be all that is writable; but the
 * replicas may know better.
 */
function refuseZombie(primary: NodeReport, { reports, graph }: AuthorityWatcher): void {
  for (const other of reports.values()) {
    const last = other.epochs.at(-1)?.id as EpochId | undefined;
    if (last === undefined || primary.epochs.length === 0) continue;
    if (outranks(primary.epochs, last, graph)) continue;
    throw new HighwaterError("primary_unavailable", {
      detail: `${primary.node} is writable, but lacks an epoch that ${other.node} has: it may be an old primary that still runs`,
    });
  }
}

/**
 * The nodes that have everything on disk which is committed now, and those that have not said so in
 * time. Null: no epoch has begun yet, and without one positions mean nothing.
 */
export async function awaitReplicas(
  store: Store,
  clock: Clock,
  primary: string,
): Promise<Replication | null> {
  const nodes = store.nodes.map(({ id }) => id);
  const untilMs = clock.monotonicMs() + REPLICATION_MS;
  // The change was committed to the primary's disk before this is asked.
  const before = await store.positions(primary);
  if (before === null) return null;
  const written = before.flushed ?? before.applied;
  for (;;) {
    const now = await store.positions(primary);
    const replicas = now?.epoch === before.epoch ? now.replicas : [];
    const flushed = new Set(replicas.filter((replica) => replica.flushed >= written).map(({ node }) => node));
    const lack = nodes.filter((id) => id !== primary && !flushed.has(id));
    if (lack.length === 0 || clock.monotonicMs() >= untilMs)
      return { have: nodes.filter((id) => !lack.includes(id)), lack };
    await sleep(clock, REPLICATION_POLL_MS);
  }
}
