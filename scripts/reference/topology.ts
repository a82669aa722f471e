// The generated sections of docs/reference/topology.md: every field of the topology from its
// schema, and what the product's own reader says about mistakes. The examples that follow them are
// written by hand; topology.test.ts reads them.
import { tableOf } from "@highwater/lab-tools/markdown";
import { MAX_LEVELS, type NodeSpec, Topology } from "@highwater/protocol";
import { Faults, parseTopology } from "@highwater/service";

/** What of a TypeBox schema the page shows. */
interface Schema {
  readonly type?: string;
  readonly const?: unknown;
  readonly pattern?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly anyOf?: readonly Schema[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly patternProperties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
}

interface About {
  /** Services and commands that use the value. */
  readonly readBy: string;
  readonly text: string;
  /** What happens if the value is valid, but not right. */
  readonly ifWrong: string;
  /** Of a field that may be absent, or that stands only in some rules. */
  readonly fallback?: string;
}

const ALL = "gateway, tracker, commands";
const SERVICES = "gateway, tracker";
const TRACKER = "tracker, failover-candidate";
const ONE_RULE = "one rule a level";

const ABOUT: Readonly<Record<string, About>> = {
  nodes: {
    readBy: ALL,
    text: "the PostgreSQL servers: the primary and its replicas, in any order. Which one is the primary is not configured ([authority.md](authority.md))",
    ifWrong:
      "a server that is missing here counts for no level, and the services never take it for the primary",
  },
  "nodes[].id": {
    readBy: ALL,
    text: "name of the node, in logs, metrics, `/readyz`, operator's commands and `HIGHWATER_LEASE_MEMBERS`. Unique",
    ifWrong:
      "if the replica's `application_name` differs from it and `replication` is absent, the services do not recognise its stream: the replica counts for no level",
  },
  "nodes[].region": {
    readBy: ALL,
    text: "region of the node. Levels with `outside: region` and `regions: all` count by it. A gateway serves reads with `mode: local` from a replica of its `GATEWAY_REGION`",
    ifWrong:
      "levels count the wrong regions: a transaction that is reported as durable may not survive the loss of a region. No service can notice it",
  },
  "nodes[].zone": {
    readBy: TRACKER,
    text: "zone of the node. A zone belongs to its region: `a` in two regions are two zones. Levels with `outside: zone` count by it",
    ifWrong: "levels count the wrong zones, as for `region`",
  },
  "nodes[].url": {
    readBy: ALL,
    text: "connection string of [the services' role](../guide/durability-levels.md#the-services-role), as seen from the process that reads the file: `postgresql://USER@HOST:PORT/DATABASE`, with `sslmode` and `sslrootcert` for TLS. Without a password, `PGPASSWORD` counts.",
    ifWrong:
      "a node that does not answer cannot be the primary; a level that has to ask it stalls. A role without [its rights](../guide/durability-levels.md#the-services-role): the table there says what fails",
  },
  "nodes[].appUrl": {
    readBy: "gateway",
    fallback: "`url`",
    text: "connection string of the role under which transactions run if their caller has no role of its own ([keys.md](keys.md))",
    ifWrong:
      "transactions without a role of their own get no session. If it is absent or has the services' own role, and every client may connect without a key, the gateway does not start",
  },
  "nodes[].replication": {
    readBy: SERVICES,
    fallback: "by `id` as application name",
    text: "how to recognise the node's stream on the primary: criteria that must all match, or `ask`",
    ifWrong: "the replica counts for no level; a level that needs it stalls (event `durability.stalled`)",
  },
  "nodes[].replication.applicationName": {
    readBy: SERVICES,
    fallback: "any",
    text: "the stream's `application_name` in `pg_stat_replication`",
    ifWrong:
      "no stream matches, as above. Two streams that match one node do not count, nor does a stream that matches two nodes",
  },
  "nodes[].replication.address": {
    readBy: SERVICES,
    fallback: "any",
    text: "the address from which the stream comes, or a range such as `10.1.2.0/24`",
    ifWrong: "as for `applicationName`",
  },
  "nodes[].replication.slot": {
    readBy: SERVICES,
    fallback: "any",
    text: "the replication slot on the primary that the stream uses",
    ifWrong: "as for `applicationName`",
  },
  "nodes[].replication.ask": {
    readBy: SERVICES,
    fallback: "do not ask",
    text: "the services ask the replica itself, which proves its position by the log that it has replayed. For replicas that the primary does not show, or whose names and addresses you do not control. Such a node never counts for `synchronous`",
    ifWrong:
      "on a replica that the primary shows: the level waits until the replica has replayed the log, which a long query can delay",
  },
  levels: {
    readBy: ALL,
    text: "the levels by name, weakest first: the order says which level is stronger. Clients use the level `region` by default",
    ifWrong:
      "if a client names a level that is not configured, it gets 400 `unknown_level`. In a wrong order, a weaker level counts as the stronger one: for the default of the exposure level, and when trackers report a loss",
  },
  "levels.NAME.primary": {
    readBy: TRACKER,
    fallback: ONE_RULE,
    text: "durable when the primary has flushed",
    ifWrong: "a change of the primary may discard transactions that are durable at the level",
  },
  "levels.NAME.replicas": {
    readBy: TRACKER,
    fallback: ONE_RULE,
    text: "durable when replicas in this many zones or regions other than the primary's have flushed; with `outside`",
    ifWrong:
      "too low: a second failure discards durable transactions ([how to choose](../guide/durability-levels.md#how-to-choose)). Too high: nothing becomes durable while one of the replicas is down",
  },
  "levels.NAME.outside": {
    readBy: TRACKER,
    fallback: "with `replicas`",
    text: "what `replicas` counts",
    ifWrong: "`zone` does not survive the loss of a region",
  },
  "levels.NAME.regions": {
    readBy: TRACKER,
    fallback: ONE_RULE,
    text: "durable when every configured region has flushed",
    ifWrong:
      "with one region only, the level covers no more than the primary's disk: the log has `topology_doubtful`",
  },
  "levels.NAME.synchronous": {
    readBy: TRACKER,
    fallback: ONE_RULE,
    text: "durable when all of the synchronous standbys that an HA manager may promote have flushed: exactly this many, and only with `HIGHWATER_AUTHORITY=lease` ([patroni.md](../guide/patroni.md))",
    ifWrong:
      "if the number differs from Patroni's `synchronous_node_count`, nothing becomes durable at the level, and `/readyz` of a tracker says why. Without a lease the tracker does not start",
  },
};

/** Every field of the schema by its path. Alternatives share a path. */
function fieldsOf(schema: Schema, path = "", isRequired = true): Map<string, [Schema, boolean]> {
  const fields = new Map<string, [Schema, boolean]>();
  if (path !== "" && !path.endsWith("[]") && !path.endsWith(".NAME")) fields.set(path, [schema, isRequired]);
  const inner: [string, Schema, boolean][] = [];
  const join = (name: string): string => (path === "" ? name : `${path}.${name}`);
  const isAlternative = schema.anyOf !== undefined;
  for (const one of [schema, ...(schema.anyOf ?? [])]) {
    for (const [name, field] of Object.entries(one.properties ?? {}))
      inner.push([join(name), field, !isAlternative && (one.required ?? []).includes(name)]);
    for (const field of Object.values(one.patternProperties ?? {})) inner.push([join("NAME"), field, true]);
    if (one.items !== undefined) inner.push([`${path}[]`, one.items, true]);
  }
  for (const [at, field, required] of inner)
    for (const [found, value] of fieldsOf(field, at, required)) fields.set(found, value);
  return fields;
}

/** The fields of the topology, by path. */
export const FIELDS_OF_TOPOLOGY = fieldsOf(Topology as Schema);

function typeOf(schema: Schema): string {
  if (schema.const !== undefined) return code(schema.const);
  if (schema.anyOf?.every((one) => one.const !== undefined) === true)
    return schema.anyOf.map(typeOf).join(" or ");
  if (schema.anyOf !== undefined || schema.type === "object")
    return schema.patternProperties === undefined ? "object" : `object of 1 to ${String(MAX_LEVELS)} levels`;
  if (schema.type === "array")
    return `list of ${String(schema.minItems)} to ${String(schema.maxItems)} objects`;
  if (schema.type === "integer") return `${String(schema.minimum)} to ${String(schema.maximum)}`;
  if (schema.pattern !== undefined) return `text: \`${schema.pattern}\``;
  if (schema.maxLength !== undefined)
    return `text of ${String(schema.minLength)} to ${String(schema.maxLength)} characters`;
  return "text";
}

const code = (value: unknown): string => `\`${typeof value === "string" ? value : JSON.stringify(value)}\``;

function fieldRows(): { fields: string[][]; faults: string[][] } {
  const fields = FIELDS_OF_TOPOLOGY;
  const unknown = Object.keys(ABOUT).filter((path) => !fields.has(path));
  if (unknown.length > 0) throw new Error(`the schema has no field ${unknown.join(", ")}`);
  const rows = [...fields].map(([path, [schema, isRequired]]) => {
    const about = ABOUT[path];
    if (about === undefined) throw new Error(`nothing is said about the field ${path}`);
    const fallback = isRequired ? "required" : about.fallback;
    if (fallback === undefined) throw new Error(`the default of ${path} is not said`);
    return {
      field: [code(path), typeOf(schema), fallback, about.readBy, about.text],
      fault: [code(path), about.ifWrong],
    };
  });
  return { fields: rows.map(({ field }) => field), faults: rows.map(({ fault }) => fault) };
}

const EAST = { id: "east", region: "us-east", zone: "a", url: "postgresql://highwater_service@east/app" };
const WEST = { id: "west", region: "us-west", zone: "a", url: "postgresql://highwater_service@west/app" };
const LEVELS = { disk: { primary: true }, region: { replicas: 1, outside: "region" } };

function of(nodes: readonly object[], levels: object = LEVELS): string {
  return JSON.stringify({ nodes, levels });
}

const west = (replication: NodeSpec["replication"] | object): object => ({ ...WEST, replication });

/** Mistakes that operators make, with a file that has one. */
const MISTAKES: readonly (readonly [what: string, file: string])[] = [
  ["an extra comma, or text that is not JSON", of([EAST, WEST]).replace("}", "},")],
  ["a field that does not exist", of([EAST, { ...WEST, port: 5432 }])],
  [
    "a server that is CockroachDB",
    JSON.stringify({ store: "cockroach", nodes: [EAST, WEST], levels: LEVELS }),
  ],
  ["a missing field", of([EAST, { id: "west", region: "us-west", url: WEST.url }])],
  ["an id or a region with capitals or spaces", of([EAST, { ...WEST, id: "US West" }])],
  ["two nodes with the same id", of([EAST, { ...WEST, id: "east" }])],
  ["two nodes with the same address", of([EAST, { ...WEST, url: EAST.url }])],
  ["an invalid address", of([EAST, west({ address: "10.1" })])],
  [
    "two nodes whose streams look the same",
    of([{ ...EAST, replication: { slot: "replica" } }, west({ slot: "replica" })]),
  ],
  ["`ask` together with other criteria", of([EAST, west({ ask: true, slot: "west" })])],
  ["no levels", of([EAST, WEST], {})],
  ["a rule that does not exist", of([EAST, WEST], { disk: { primary: false } })],
  ["`replicas` without `outside`", of([EAST, WEST], { region: { replicas: 1 } })],
  [
    "a level that the nodes can never reach",
    of([EAST, WEST], { region: { replicas: 2, outside: "region" } }),
  ],
  ["more synchronous standbys than the primary can report", of([EAST, WEST], { region: { synchronous: 2 } })],
  ["a level whose name is a number", of([EAST, WEST], { "1": { primary: true } })],
];

/** What the services' reader says about a file with a fault; the last line sums it up. */
function faultsOf(file: string): readonly string[] {
  try {
    parseTopology(file);
  } catch (cause) {
    if (cause instanceof Faults) return cause.faults;
    throw cause;
  }
  throw new Error(`the reader accepts ${file}`);
}

const FIELDS = "## Fields";
const EXAMPLES = "## Examples";

/** The sections between the introduction and the examples. */
export function renderTopology(page: string): string {
  const { fields, faults } = fieldRows();
  const [head = ""] = page.split(`\n${FIELDS}\n`);
  const [, examples = ""] = page.split(`\n${EXAMPLES}\n`);
  return [
    head.trimEnd(),
    "",
    FIELDS,
    "",
    "There are no other fields: an unknown one is a fault. *Commands* are `keys`, `audit`, `adopt` and",
    "`failover-candidate`.",
    "",
    tableOf(["field", "type", "default", "read by", "meaning"], fields),
    "",
    "## Faults",
    "",
    "The table has the messages for common mistakes. A service names the variable first:",
    "`HIGHWATER_TOPOLOGY …`. If a value matches none of several alternatives, other lines before the",
    "message say why each of them does not match.",
    "",
    tableOf(
      ["mistake", "message"],
      MISTAKES.map(([what, file]) => [what, code(faultsOf(file).at(-1) ?? "")]),
    ),
    "",
    "A value can be valid and still be wrong:",
    "",
    tableOf(["field", "if it is wrong"], faults),
    "",
    EXAMPLES,
    examples,
  ].join("\n");
}
