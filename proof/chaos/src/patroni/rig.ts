// The system of `make chaos-patroni`: the product beside Patroni, with settings that keep every
// promise or with settings that do not. With the latter the product has to report the broken
// promises.
import { USUAL_RETENTION_MS } from "../parts.ts";
import { type Rig } from "../system.ts";
import { PATRONI_FAULTS, type PatroniFault } from "./faults.ts";
import { LAGGARD_FAULTS } from "./laggards.ts";
import { PatroniNemesis } from "./nemesis.ts";
import { ANY_REPLICA_LEVELS, KEPT_LEVELS, type Levels, PatroniSystem } from "./system.ts";

export type Mode = "recommended" | "wrong";

interface Plan {
  readonly settings: "recommended" | "asynchronous";
  readonly levels: Levels;
  readonly kept: readonly string[];
  readonly faults: readonly PatroniFault[];
}

const BESIDE_LAGGARDS = ["kill_leader_host", "kill_leader_server", "switchover"];

const PLANS: Readonly<Record<Mode, Plan>> = {
  recommended: {
    settings: "recommended",
    levels: KEPT_LEVELS,
    kept: ["region", "global"],
    faults: PATRONI_FAULTS,
  },
  // A failover may ignore the standby that acknowledged; the laggard is never far behind.
  wrong: {
    settings: "asynchronous",
    levels: ANY_REPLICA_LEVELS,
    kept: ["global"],
    faults: [
      ...LAGGARD_FAULTS,
      ...PATRONI_FAULTS.filter(({ kind }) => BESIDE_LAGGARDS.includes(kind)).map((fault) => ({
        ...fault,
        oneIn: 3,
      })),
    ],
  },
};

export async function startPatroniRig(mode: Mode, only?: readonly string[]): Promise<Rig> {
  const { settings, levels, kept, faults } = PLANS[mode];
  const system = await PatroniSystem.start({ settings, levels });
  return {
    system: {
      target: {
        regions: system.regions,
        retentionMs: USUAL_RETENTION_MS,
        trackers: Object.fromEntries(
          system.regions.map((region) => [region, system.service(region, "tracker").url]),
        ),
        endpoints: (from) => Promise.resolve(system.endpoints(from)),
        query: (node, sql) => system.patroni.query(node, sql),
      },
      levels: system.levels,
      evidence: [system.logs, system.patroni.logs],
      close: () => system.close(),
    },
    nemesis: (options) =>
      new PatroniNemesis({ ...options, system, kept, faults, ...(only !== undefined && { only }) }),
  };
}
