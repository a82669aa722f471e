// The system of `make chaos`: three regions, each with a database node, a gateway and a tracker, on
// our own cluster. The first region has a second gateway.
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { findFaketime } from "@highwater/lab-cluster";
import { ownRole, System, type SystemOptions } from "@highwater/lab-system";
import { KEEPING } from "@highwater/lab-system/testing";
import { type Owner, USUAL_RETENTION_MS } from "../parts.ts";
import { type Rig } from "../system.ts";
import { type LevelRule } from "./kept.ts";
import { ThreeRegionNemesis } from "./nemesis.ts";

const RULES: Readonly<Record<string, LevelRule>> = {
  disk: { primary: true },
  region: { replicas: 1, outside: "region" },
  global: { regions: "all" },
};

/** Shorter than in production, so that these limits apply within a run of minutes. */
const ENVIRONMENT = {
  TRACKER_PUBLISH_PATIENCE_MS: "1000",
  TRACKER_INTENT_PATIENCE_MS: "20000",
};

/**
 * Half the longest cut at least: a replica that was cut off has room for the receipts of twice this
 * time, and may be promoted while no tracker runs.
 */
const SHORT_RETENTION_MS = 50_000;

/** Receipts, ids and events expire several times within the run. */
const FORGETS = {
  HIGHWATER_RETENTION_MS: String(SHORT_RETENTION_MS),
  TRACKER_MAINTAIN_MS: "2000",
  TRACKER_EVENTS_KEEP_MS: "55000",
  TRACKER_KEEP_DURABLE_MS: "20000",
};

/** Enough for a receiver that works for seconds at a time. */
const WEBHOOK_ATTEMPTS = 100;

const KEYS = {
  GATEWAY_AUTH: "keys",
  TRACKER_AUTH: "keys",
  HIGHWATER_INTERNAL_SECRET: randomBytes(32).toString("hex"),
  TRACKER_WEBHOOK_ALLOW: "127.0.0.1",
  TRACKER_WEBHOOK_DELAYS_MS: Array(WEBHOOK_ATTEMPTS).fill("1000").join(","),
  TRACKER_WEBHOOK_TIMEOUT_MS: "2000",
};

const OWNERS = ["red", "blue"];

const MUTATE = new URL("../mutants/mutate.ts", import.meta.url).href;

interface ThreeRegions {
  /** The deliberate bug in every service. */
  readonly mutant?: string;
  readonly asksReplicas?: boolean;
  /** Services authenticate their clients: two owners, each with endpoints for webhooks. */
  readonly hasKeys?: boolean;
  /** Services keep for seconds what they usually keep for days. */
  readonly forgets?: boolean;
  /** The wall clocks of services and nodes can be set. */
  readonly hasClocks?: boolean;
  /** Trackers keep contents, and lost transactions are brought back. */
  readonly replays?: boolean;
}

export async function startThreeRegions(
  only?: readonly string[],
  {
    mutant,
    asksReplicas = false,
    hasKeys = false,
    forgets = false,
    hasClocks = false,
    replays = false,
  }: ThreeRegions = {},
): Promise<Rig> {
  const wallClocks = hasClocks ? findFaketime() : undefined;
  const system = await startWithFourGateways({
    ...(wallClocks !== undefined && { cluster: { wallClocks } }),
    levels: RULES,
    env: {
      ...ENVIRONMENT,
      ...(hasKeys && KEYS),
      ...(forgets && FORGETS),
      ...(replays && KEEPING),
      ...(mutant !== undefined && { NODE_OPTIONS: `--import=${MUTATE}`, HIGHWATER_MUTANT: mutant }),
    },
    hasTrackerLinks: true,
    asksReplicas,
  });
  const { cluster, regions } = system;
  const owners = hasKeys ? await ownersOf(system) : undefined;
  return {
    system: {
      target: {
        regions,
        trackers: Object.fromEntries(regions.map((region) => [region, system.tracker(region).url])),
        endpoints: (from) => system.endpoints(from),
        retentionMs: forgets ? SHORT_RETENTION_MS : USUAL_RETENTION_MS,
        query: (node, sql) => cluster.query(node, sql),
        keeps: replays,
        ...(owners !== undefined && { owners }),
      },
      levels: Object.keys(RULES),
      evidence: [join(cluster.dir, "services"), join(cluster.dir, "logs")],
      close: () => system.close(),
    },
    nemesis: (options) =>
      new ThreeRegionNemesis({
        ...options,
        apiKey: owners?.[0]?.apiKey,
        system,
        rules: RULES,
        replays,
        ...(only !== undefined && { only }),
      }),
  };
}

async function startWithFourGateways(options: SystemOptions): Promise<System> {
  const system = await System.start(options);
  try {
    await system.addGateway(system.regions[0] ?? "");
    return system;
  } catch (cause) {
    await system.close();
    throw cause;
  }
}

async function ownersOf(system: System): Promise<Owner[]> {
  const owners: Owner[] = [];
  for (const name of OWNERS) {
    const scopes = ["read", "write", "webhooks", "admin"];
    const options = { name, owner: name, scopes };
    owners.push({ name, role: ownRole(options).name, apiKey: await system.createKey(options) });
  }
  return owners;
}
