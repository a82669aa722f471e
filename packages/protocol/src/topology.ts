// What an operator configures once for all services of a cluster: nodes, levels and the addresses of the services.
import Type, { type Static } from "typebox";

const name = Type.String({ pattern: "^[a-z0-9][a-z0-9_-]{0,62}$" });

/**
 * A level's durability rule, by region and zone of the nodes.
 * `primary`: flushed on the primary. `replicas` k, `outside` d: flushed on replicas in k distinct d other than the
 * primary's. `regions: all`: flushed in every configured region.
 */
export const LevelRule = Type.Union([
  Type.Object({ primary: Type.Literal(true) }, { additionalProperties: false }),
  Type.Object(
    {
      replicas: Type.Integer({ minimum: 1, maximum: 100 }),
      outside: Type.Union([Type.Literal("zone"), Type.Literal("region")]),
    },
    { additionalProperties: false },
  ),
  Type.Object({ regions: Type.Literal("all") }, { additionalProperties: false }),
]);
export type LevelRule = Static<typeof LevelRule>;

export const NodeSpec = Type.Object(
  {
    /** Unique; also the replica's application_name. */
    id: name,
    region: name,
    zone: Type.String({ minLength: 1, maxLength: 63 }),
    /** Connection string of the service role, as seen from the process that reads this. */
    url: Type.String({ minLength: 1 }),
    /** Connection string of the application role; the service role's when absent. */
    appUrl: Type.Optional(Type.String({ minLength: 1 })),
  },
  { additionalProperties: false },
);
export type NodeSpec = Static<typeof NodeSpec>;

export const Topology = Type.Object(
  {
    nodes: Type.Array(NodeSpec, { minItems: 1, maxItems: 64 }),
    /** Weakest first: the order tells which level is stronger. */
    levels: Type.Record(name, LevelRule, { minProperties: 1 }),
  },
  { additionalProperties: false },
);
export type Topology = Static<typeof Topology>;

/** What most clusters want. Weakest first. */
export const DEFAULT_LEVELS: Record<string, LevelRule> = {
  disk: { primary: true },
  region: { replicas: 1, outside: "region" },
  global: { regions: "all" },
};

/** Every fault of a topology that its schema cannot see: duplicate ids, and levels that the nodes can never reach. */
export function topologyFaults(topology: Topology): string[] {
  const faults: string[] = [];
  const seen = new Set<string>();
  for (const node of topology.nodes) {
    if (seen.has(node.id)) faults.push(`node ${node.id} is configured twice`);
    seen.add(node.id);
  }
  for (const [level, rule] of Object.entries(topology.levels)) {
    if (!("replicas" in rule)) continue;
    const domains = new Set(
      topology.nodes.map((node) => (rule.outside === "region" ? node.region : node.zone)),
    );
    if (domains.size - 1 < rule.replicas)
      faults.push(
        `level ${level} needs replicas in ${String(rule.replicas)} other ${rule.outside}s, the nodes have ${String(domains.size - 1)}`,
      );
  }
  return faults;
}
