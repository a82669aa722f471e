// The system that `make chaos` breaks: three regions with a database node, a gateway and a tracker each, on our own cluster.
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { System } from "@highwater/dev-system";
import { type Rig } from "../system.ts";
import { type LevelRule } from "./kept.ts";
import { ThreeRegionNemesis } from "./nemesis.ts";

const RULES: Readonly<Record<string, LevelRule>> = {
  disk: { primary: true },
  region: { replicas: 1, outside: "region" },
  global: { regions: "all" },
};

/** Shorter than in production, so that a run of minutes sees what they bound. */
const ENVIRONMENT = {
  TRACKER_PUBLISH_PATIENCE_MS: "1000",
  TRACKER_INTENT_PATIENCE_MS: "20000",
};

const KEYS = {
  ...{ GATEWAY_AUTH: "keys", TRACKER_AUTH: "keys" },
  HIGHWATER_INTERNAL_SECRET: randomBytes(32).toString("hex"),
};

const MUTATE = new URL("../mutants/mutate.ts", import.meta.url).href;

interface ThreeRegions {
  /** The deliberate bug that every service has. */
  readonly mutant?: string;
  readonly asksReplicas?: boolean;
  /** Services authenticate their clients. */
  readonly hasKeys?: boolean;
}

export async function startThreeRegions(
  only?: readonly string[],
  { mutant, asksReplicas = false, hasKeys = false }: ThreeRegions = {},
): Promise<Rig> {
  const system = await System.start({
    levels: RULES,
    env: {
      ...ENVIRONMENT,
      ...(hasKeys && KEYS),
      ...(mutant !== undefined && { NODE_OPTIONS: `--import=${MUTATE}`, HIGHWATER_MUTANT: mutant }),
    },
    hasTrackerLinks: true,
    asksReplicas,
  });
  const { cluster, regions } = system;
  const scopes = ["read", "write"];
  const key = hasKeys && { apiKey: await system.createKey({ name: "chaos", owner: "chaos", scopes }) };
  return {
    system: {
      target: {
        regions,
        trackers: Object.fromEntries(regions.map((region) => [region, system.tracker(region).url])),
        endpoints: (from) => system.endpoints(from),
        query: (node, sql) => cluster.query(node, sql),
        ...key,
      },
      levels: Object.keys(RULES),
      evidence: [join(cluster.dir, "services"), join(cluster.dir, "logs")],
      close: () => system.close(),
    },
    nemesis: (options) =>
      new ThreeRegionNemesis({
        ...options,
        ...key,
        system,
        rules: RULES,
        ...(only !== undefined && { only }),
      }),
  };
}
