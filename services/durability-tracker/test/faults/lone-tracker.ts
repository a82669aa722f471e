// One tracker process on a small cluster, with a ledger file of the test's choosing; the test itself is the gateway.
import assert from "node:assert/strict";
import { join } from "node:path";
import { type Cluster, startCluster } from "@highwater/lab-cluster";
import { ServiceProcess } from "@highwater/lab-system";
import type { Announcement, EpochId, ReplicaIdentity, TokenVerdict, Topology } from "@highwater/protocol";
import { testToken } from "@highwater/service/testing";
import { EAST, eventually, newId, WEST } from "./support.ts";

const START_LIMIT_MS = 60_000;
/** Above every position of a small cluster's log: pending for as long as its epoch lasts. */
const FAR = 1n << 40n;

export interface LoneOptions {
  readonly cluster: Cluster;
  readonly ledger: string;
  readonly name?: string;
  readonly startLimitMs?: number;
  readonly levels?: Topology["levels"];
  /** How streams are recognised, by node. */
  readonly replication?: Readonly<Record<string, ReplicaIdentity>>;
}

const LEVELS: Topology["levels"] = { disk: { primary: true }, region: { replicas: 1, outside: "region" } };

export async function startPair(): Promise<Cluster> {
  return startCluster({
    nodes: [EAST, WEST].map((region) => ({ id: region, region })),
    roundTripMs: { [`${EAST}/${WEST}`]: 0 },
  });
}

export async function topologyOf(options: LoneOptions): Promise<Topology> {
  const { cluster, levels = LEVELS, replication = {} } = options;
  const nodes = await Promise.all(
    cluster.nodes.map(async ({ id, region, zone }) => {
      const identity = replication[id];
      const url = await cluster.connectionString(id);
      return { id, region, zone, url, ...(identity === undefined ? {} : { replication: identity }) };
    }),
  );
  return { nodes, levels };
}

export async function startLone(options: LoneOptions): Promise<ServiceProcess> {
  const { cluster, ledger, name = "lone", startLimitMs = START_LIMIT_MS } = options;
  return ServiceProcess.start({
    name: `tracker-${name}`,
    service: "tracker",
    logFile: join(cluster.dir, `tracker-${name}.log`),
    // Some are meant to fail.
    keepLog: false,
    startTimeoutMs: startLimitMs,
    env: {
      TRACKER_NAME: name,
      TRACKER_REGION: EAST,
      TRACKER_LEDGER: ledger,
      HIGHWATER_TOPOLOGY: JSON.stringify(await topologyOf(options)),
    },
  });
}

/** The epoch that the tracker follows. */
export async function epochOf(tracker: ServiceProcess, other = ""): Promise<EpochId> {
  return eventually("an epoch reigns", async () => {
    const answer = await fetch(`${tracker.url}/readyz`);
    const { epoch } = (await answer.json()) as { epoch?: EpochId };
    return answer.ok && epoch !== other && epoch;
  });
}

/** Positions that no log will ever reach, as a gateway announces them. */
export function manyPositions(epoch: EpochId, count: number): Announcement[] {
  return Array.from({ length: count }, (_, at) => ({
    kind: "position",
    id: newId(),
    epoch,
    offset: String(FAR + BigInt(at)),
  }));
}

function tokenOf(announcement: Announcement): string {
  assert.ok(announcement.kind === "position");
  const { id, epoch, offset } = announcement;
  return testToken({ id, epoch, offset: BigInt(offset) });
}

/** True when the tracker says that it has them on disk; false when it does not, for whatever reason. */
export async function announce(
  tracker: ServiceProcess,
  announcements: readonly Announcement[],
): Promise<boolean> {
  try {
    const answer = await fetch(`${tracker.url}/internal/announcements`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ gateway: "test", announcements }),
    });
    await answer.arrayBuffer();
    return answer.status === 204;
  } catch {
    return false;
  }
}

export async function untilExited(tracker: ServiceProcess): Promise<void> {
  await eventually("the tracker has exited", async () => !tracker.running);
}

/** Its verdicts at `disk`, in their order. */
export async function judge(
  tracker: ServiceProcess,
  announced: readonly Announcement[],
): Promise<TokenVerdict[]> {
  const answer = await fetch(`${tracker.url}/v1/durability/verdicts`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ tokens: announced.map(tokenOf), level: "disk" }),
  });
  return ((await answer.json()) as { verdicts: TokenVerdict[] }).verdicts;
}
