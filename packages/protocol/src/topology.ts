// What an operator configures once for all services of a cluster: nodes, levels and the addresses
// of the services. Has the schemas; topology-faults.ts has the rules beyond them.
import Type, { type Static } from "typebox";

/** Of the names of nodes and regions. */
export const NAME_PATTERN = "^[a-z0-9][a-z0-9_-]{0,62}$";
const name = Type.String({ pattern: NAME_PATTERN });

/** A promise by more names than that is none that anybody can choose from. */
export const MAX_LEVELS = 16;

/**
 * A level's durability rule, by region and zone of the nodes. `primary`: flushed on the primary.
 * `replicas` k, `outside` d: flushed on replicas in k distinct d other than the primary's.
 * `regions: all`: flushed in every configured region. A zone is one of its region: equal names in
 * two regions are two zones. `synchronous` k: flushed on all of the k replicas that an HA manager
 * may promote, and it promotes no other; only under its lease (docs/guide/patroni.md).
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
  Type.Object({ synchronous: Type.Integer({ minimum: 1, maximum: 63 }) }, { additionalProperties: false }),
]);
export type LevelRule = Static<typeof LevelRule>;

/**
 * How the primary's report about a stream is known to be about this node. Of several criteria all
 * have to match. Where none can (a service that names and addresses its replicas as it likes):
 * `ask` the replica itself, which proves up to where it has the primary's log by what it has
 * replayed.
 */
export const ReplicaIdentity = Type.Union([
  Type.Object(
    {
      /** The name that the primary shows for the stream. */
      applicationName: Type.Optional(Type.String({ pattern: "^[ -~]{1,63}$" })),
      /** An address, or a range of them as `10.1.2.0/24`, from which the stream comes. */
      address: Type.Optional(Type.String({ minLength: 1, maxLength: 64 })),
      /** The replication slot on the primary that the stream uses. */
      slot: Type.Optional(Type.String({ pattern: "^[a-z0-9_]{1,63}$" })),
    },
    { additionalProperties: false, minProperties: 1 },
  ),
  Type.Object({ ask: Type.Literal(true) }, { additionalProperties: false }),
]);
export type ReplicaIdentity = Static<typeof ReplicaIdentity>;

export const NodeSpec = Type.Object(
  {
    /** Unique; also the replica's application_name, unless `replication` says otherwise. */
    id: name,
    region: name,
    zone: Type.String({ minLength: 1, maxLength: 63 }),
    /** Connection string of the service role, as seen from the process that reads this. */
    url: Type.String({ minLength: 1 }),
    /** Connection string of the application role; the service role's when absent. */
    appUrl: Type.Optional(Type.String({ minLength: 1 })),
    /**
     * How its stream is recognised on the primary. Default: by the node's id as application name.
     */
    replication: Type.Optional(ReplicaIdentity),
  },
  { additionalProperties: false },
);
export type NodeSpec = Static<typeof NodeSpec>;

export const Topology = Type.Object(
  {
    nodes: Type.Array(NodeSpec, { minItems: 1, maxItems: 64 }),
    /** Weakest first: the order says which level is stronger. */
    levels: Type.Record(name, LevelRule, {
      // What has another name would not be looked at.
      additionalProperties: false,
      minProperties: 1,
      maxProperties: MAX_LEVELS,
    }),
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
