// The nodes of the store, where the log is in each of them, which node is the primary, and the
// trackers that watch it.
import { type Board } from "../board.ts";
import { BOUNDS, TRACKER } from "../config.ts";
import { graph, row, stat, table } from "../panels.ts";
import { increase, max, min, rate, STEP } from "../promql.ts";

/** Trackers by the name in their own configuration. */
const named = (expression: string): string =>
  `${expression} * on (job, instance) group_left (name) highwater_service_info{service="${TRACKER}"}`;

const now = [
  stat({
    title: "Current primary",
    says: "Whether every tracker knows the primary. Without a primary nothing commits.",
    queries: [{ expr: min("highwater_authority_settled"), legend: "settled" }],
    unit: "short",
    width: 4,
    texts: { "0": ["unsettled", "red"], "1": ["settled", "green"] },
  }),
  stat({
    title: "Split brain",
    says: "Two writable nodes, and neither history contains the other. All writes stop until an operator chooses a node.",
    queries: [{ expr: max("highwater_split_brain"), legend: "split" }],
    unit: "short",
    width: 4,
    texts: { "0": ["no", "green"], "1": ["yes", "red"] },
  }),
  stat({
    title: "Epoch",
    says: "Number of the current epoch. It rises with every restart, crash, promotion or restore of the primary.",
    queries: [{ expr: max("highwater_epoch"), legend: "epoch" }],
    unit: "none",
    width: 4,
    decimals: 0,
  }),
  stat({
    title: "Current epoch since",
    says: "How long ago the current epoch began.",
    queries: [{ expr: max("highwater_epoch_age_seconds"), legend: "age" }],
    unit: "s",
    width: 4,
    decimals: 0,
  }),
  stat({
    title: "Nodes that answer",
    says: "Nodes that answer at least one tracker.",
    queries: [{ expr: `sum(${max("highwater_node_alive", "node")})`, legend: "alive" }],
    unit: "none",
    width: 4,
    decimals: 0,
  }),
  stat({
    title: "Largest replication lag",
    says: "How long the oldest log that a replica lacks has been on the primary's disk.",
    queries: [{ expr: max(min("highwater_replication_lag_seconds", "node")), legend: "lag" }],
    unit: "s",
    width: 4,
    steps: ["green", [1, "orange"], [BOUNDS.replicationLagSeconds, "red"]],
  }),
];

const nodes = [
  table({
    title: "Nodes",
    says: "Nodes as the trackers report them. If trackers differ, the row has the value of the one that knows most: the lowest lag.",
    queries: [
      { expr: max("highwater_node_alive", "node", "region", "zone"), legend: "" },
      { expr: max("highwater_node_primary", "node", "region"), legend: "" },
      { expr: min("highwater_replication_lag_bytes", "node", "region"), legend: "" },
      { expr: min("highwater_replication_lag_seconds", "node", "region"), legend: "" },
    ],
    width: 16,
    columns: [
      { field: "node", title: "Node" },
      { field: "region", title: "Region" },
      { field: "zone", title: "Zone" },
      { field: "Value #A", title: "Answers", texts: { "0": ["no", "red"], "1": ["yes", "green"] } },
      { field: "Value #B", title: "Role", texts: { "0": ["replica", "text"], "1": ["primary", "purple"] } },
      { field: "Value #C", title: "Behind", unit: "bytes" },
      {
        field: "Value #D",
        title: "Since",
        unit: "s",
        steps: ["text", [1, "orange"], [BOUNDS.replicationLagSeconds, "red"]],
      },
    ],
  }),
  graph({
    title: "Epochs that began",
    says: "By cause, in each interval. Every bar is a restart, a crash or a change of the primary.",
    queries: [{ expr: max(increase("highwater_epochs_begun_total", STEP), "cause"), legend: "{{cause}}" }],
    unit: "short",
    width: 8,
    isBars: true,
    decimals: 0,
  }),
];

const replication = [
  graph({
    title: "Log written and received",
    says: "Bytes of log per second that reach each node's disk.",
    queries: [{ expr: max(rate("highwater_node_position_bytes"), "node"), legend: "{{node}}" }],
    unit: "Bps",
    width: 12,
  }),
  graph({
    title: "Bytes missing on replicas",
    says: "Of what the primary has flushed.",
    queries: [{ expr: min("highwater_replication_lag_bytes", "node"), legend: "{{node}}" }],
    unit: "bytes",
    width: 12,
  }),
  graph({
    title: "Since when",
    says: "How long the oldest log that the replica lacks has been on the primary's disk. The line is the alert's threshold.",
    queries: [{ expr: min("highwater_replication_lag_seconds", "node"), legend: "{{node}}" }],
    unit: "s",
    width: 12,
    hasLines: true,
    steps: ["green", [BOUNDS.replicationLagSeconds, "red"]],
  }),
  graph({
    title: "Nodes that answer, by tracker",
    says: "If trackers differ, a link is cut.",
    queries: [{ expr: `sum by (name) (${named("highwater_node_alive")})`, legend: "{{name}}" }],
    unit: "none",
    width: 12,
    isStepped: true,
    decimals: 0,
  }),
];

const trackers = [
  graph({
    title: "Epoch that each tracker follows",
    says: "A tracker that stays behind cannot reach the primary.",
    queries: [{ expr: named("highwater_epoch"), legend: "{{name}}" }],
    unit: "none",
    width: 8,
    isStepped: true,
    decimals: 0,
  }),
  graph({
    title: "Ledger",
    says: "Attempts that each tracker keeps: announced, and not durable everywhere.",
    queries: [{ expr: named("highwater_ledger_entries"), legend: "{{name}}" }],
    unit: "short",
    width: 8,
  }),
  graph({
    title: "Streams",
    says: "Clients that listen to marks and to events.",
    queries: [
      { expr: named("highwater_stream_clients"), legend: "{{name}} marks" },
      { expr: named("highwater_event_stream_clients"), legend: "{{name}} events" },
    ],
    unit: "short",
    width: 8,
  }),
  graph({
    title: "Events",
    says: "Events that each tracker has recorded in the store, and events that wait for that.",
    queries: [
      { expr: named(rate("highwater_events_recorded_total")), legend: "{{name}} recorded per second" },
      { expr: named("highwater_events_set_aside"), legend: "{{name}} set aside" },
    ],
    unit: "short",
    width: 8,
  }),
  graph({
    title: "Event loop",
    says: "Share of the time in which the process's one thread was busy.",
    queries: [{ expr: named(rate("nodejs_eventloop_active_seconds_total")), legend: "{{name}}" }],
    unit: "percentunit",
    width: 8,
    max: 1,
  }),
  graph({
    title: "Memory",
    says: "Resident; bounded by what gateways let be exposed.",
    queries: [{ expr: named("process_resident_memory_bytes"), legend: "{{name}}" }],
    unit: "bytes",
    width: 8,
  }),
];

export const replicationAndRegions: Board = {
  name: "replication",
  title: "Replication and regions",
  says: "Where the log is in each node, which node is the primary, and the trackers that watch it.",
  from: "now-1h",
  rows: [
    { row: row("Now"), panels: now },
    { row: row("Nodes"), panels: nodes },
    { row: row("Replication"), panels: replication },
    { row: row("Trackers"), panels: trackers },
  ],
};
