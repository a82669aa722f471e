// What clients get from the gateways, and what the gateways wait for.
import { type Board } from "../board.ts";
import { allowed, FAULTS, GATEWAY, OBJECTIVES } from "../config.ts";
import { graph, row, stat } from "../panels.ts";
import { located, locatedQuantile, max, rate, sum } from "../promql.ts";

const TRANSACTIONS = "highwater_gateway_transactions_total";
const COMMIT = "highwater_gateway_commit_seconds";
const faulty = `outcome=~"${FAULTS.join("|")}"`;

const now = [
  stat({
    title: "Ready",
    says: "Gateways that can commit: they know of an authoritative primary.",
    queries: [{ expr: located("highwater_gateway_ready"), legend: "{{name}}" }],
    unit: "short",
    width: 8,
    hasName: true,
    texts: { "0": ["no", "red"], "1": ["yes", "green"] },
  }),
  stat({
    title: "Transactions",
    says: "All answered transactions, also failed ones.",
    queries: [{ expr: sum(located(rate(TRANSACTIONS))), legend: "transactions" }],
    unit: "ops",
    width: 4,
  }),
  stat({
    title: "Fast commit p50",
    says: "Half of the fast writes (ack: commit) were answered within this time.",
    queries: [{ expr: locatedQuantile(0.5, `${COMMIT}{ack="commit", access="write"}`), legend: "p50" }],
    unit: "s",
    width: 4,
  }),
  stat({
    title: "Safe commit p50",
    says: "Half of the safe writes (ack: durable) were answered within this time: a commit and the wait for the mark.",
    queries: [{ expr: locatedQuantile(0.5, `${COMMIT}{ack="durable", access="write"}`), legend: "p50" }],
    unit: "s",
    width: 4,
  }),
  stat({
    title: "Faults",
    says: "Share of the transactions that failed by a fault of the service (status 500 and above).",
    queries: [
      {
        expr: `(${sum(located(rate(`${TRANSACTIONS}{${faulty}}`)))} or vector(0)) / ${sum(located(rate(TRANSACTIONS)))}`,
        legend: "faults",
      },
    ],
    unit: "percentunit",
    width: 4,
    decimals: 2,
    steps: ["green", [allowed(OBJECTIVES.availability.share), "orange"], [0.01, "red"]],
  }),
];

const latency = [
  graph({
    title: "Commit latency, fast",
    says: "Writes with ack: commit, by isolation (unknown: PostgreSQL clients), from the accepted commit to its answer. The line is the objective for 99%.",
    queries: [0.5, 0.99].map((share) => ({
      expr: locatedQuantile(share, `${COMMIT}{ack="commit", access="write"}`, "isolation"),
      legend: `{{isolation}} p${String(share * 100)}`,
    })),
    unit: "s",
    width: 12,
    hasLines: true,
    steps: ["green", [OBJECTIVES.commitLatency.withinSeconds, "red"]],
  }),
  graph({
    title: "Commit latency, safe",
    says: "Writes with ack: durable, by isolation (unknown: PostgreSQL clients), with the wait for the mark. The wait holds no lock.",
    queries: [0.5, 0.99].map((share) => ({
      expr: locatedQuantile(share, `${COMMIT}{ack="durable", access="write"}`, "isolation"),
      legend: `{{isolation}} p${String(share * 100)}`,
    })),
    unit: "s",
    width: 12,
  }),
  graph({
    title: "Time in the database",
    says: "Time in the database of the transactions above and of reads, with the wait for a session. The rest of the commit latency is the gateway's.",
    queries: [0.5, 0.99].map((share) => ({
      expr: locatedQuantile(share, "highwater_gateway_store_seconds", "access", "form"),
      legend: `{{access}} {{form}} p${String(share * 100)}`,
    })),
    unit: "s",
    width: 12,
  }),
  graph({
    title: "Read latency",
    says: "Read-only transactions by isolation; safe ones wait for what they have seen.",
    queries: [0.5, 0.99].map((share) => ({
      expr: locatedQuantile(share, `${COMMIT}{access="read"}`, "isolation"),
      legend: `{{isolation}} p${String(share * 100)}`,
    })),
    unit: "s",
    width: 12,
  }),
];

const outcomes = [
  graph({
    title: "Transactions by region",
    says: "By the region of the gateway that answered.",
    queries: [{ expr: sum(located(rate(TRANSACTIONS)), "region"), legend: "{{region}}" }],
    unit: "ops",
    width: 8,
    isStacked: true,
  }),
  graph({
    title: "Transactions by outcome",
    says: "The state in the answer, or the error code: docs/reference/errors.md.",
    queries: [{ expr: sum(located(rate(TRANSACTIONS)), "ack", "outcome"), legend: "{{ack}}: {{outcome}}" }],
    unit: "ops",
    width: 8,
  }),
  graph({
    title: "Refused before a transaction began",
    says: "By error code: callers without a credential or above their limits, and a gateway that is full.",
    queries: [
      {
        expr: `${sum(located(rate("highwater_gateway_refusals_total")), "code")}`,
        legend: "{{code}}",
      },
    ],
    unit: "ops",
    width: 8,
  }),
  graph({
    title: "Interactive transactions that ended",
    says: "By the way they ended. Many expired ones: clients hold transactions open.",
    queries: [
      {
        expr: sum(located(rate("highwater_gateway_open_transactions_ended_total")), "how"),
        legend: "{{how}}",
      },
    ],
    unit: "ops",
    width: 8,
  }),
  graph({
    title: "Unknown outcomes",
    says: "Connections that broke during COMMIT, by the result of settling the id, and outcomes that are not settled yet.",
    queries: [
      {
        expr: sum(located(rate("highwater_gateway_unknown_outcomes_total")), "resolution"),
        legend: "{{resolution}} per second",
      },
      { expr: sum(located("highwater_gateway_unknown_outcomes_open")), legend: "open now" },
    ],
    unit: "short",
    width: 8,
  }),
  graph({
    title: "Slowed and refused by exposure",
    says: "Fast commits that were delayed or refused because too much is committed and not durable.",
    queries: [
      { expr: sum(located(rate("highwater_gateway_exposure_delays_total"))), legend: "delayed" },
      {
        expr: sum(located(rate("highwater_gateway_exposure_refusals_total")), "limit"),
        legend: "refused: {{limit}}",
      },
    ],
    unit: "ops",
    width: 8,
  }),
];

const waits = [
  graph({
    title: "Transactions under way",
    says: "Executing, open between calls, and committed but waiting for a mark (these hold no session).",
    queries: [
      { expr: sum(located("highwater_gateway_active_transactions")), legend: "active" },
      { expr: sum(located("highwater_gateway_open_transactions")), legend: "interactive, open" },
      { expr: sum(located("highwater_gateway_durability_waits")), legend: "waiting for a mark" },
    ],
    unit: "short",
    width: 8,
  }),
  graph({
    title: "Sessions to the nodes",
    says: "Sessions of all login roles, by node and state. If all are busy and transactions queue, the pool is the bottleneck.",
    queries: [
      {
        expr: sum(located("highwater_gateway_pool_sessions"), "node", "state"),
        legend: "{{node}} {{state}}",
      },
    ],
    unit: "short",
    width: 8,
  }),
  graph({
    title: "Waiting for a session",
    says: "Transactions in the queue, by region of the gateway. At the limit gateways refuse more.",
    queries: [
      { expr: sum(located("highwater_gateway_pool_queue_length"), "region"), legend: "{{region}}" },
      { expr: max(located("highwater_gateway_pool_queue_bound")), legend: "bound" },
    ],
    unit: "short",
    width: 8,
    colors: { bound: "red" },
  }),
  graph({
    title: "Time in the queue",
    says: "How long one-shot transactions waited for a session.",
    queries: [0.5, 0.99].map((share) => ({
      expr: locatedQuantile(share, "highwater_gateway_pool_wait_seconds", "region"),
      legend: `{{region}} p${String(share * 100)}`,
    })),
    unit: "s",
    width: 8,
  }),
  graph({
    title: "Announcements on their way",
    says: "Announcements that a tracker has not acknowledged. If the number only grows, the tracker is down or cut off.",
    queries: [
      {
        expr: sum(located("highwater_gateway_announcement_queue_length"), "name", "tracker"),
        legend: "{{name}} to {{tracker}}",
      },
    ],
    unit: "short",
    width: 8,
  }),
  graph({
    title: "Reads near the user",
    says: "Reads that asked for a replica of the region, by the role of the node that served them.",
    queries: [
      {
        expr: sum(located(rate("highwater_gateway_nearby_reads_total")), "region", "served"),
        legend: "{{region}}: {{served}}",
      },
    ],
    unit: "ops",
    width: 8,
  }),
];

const wire = [
  graph({
    title: "PostgreSQL sessions",
    says: "Clients of the PostgreSQL wire by gateway, and those of them whose answer waits for durability. At the limit the gateway refuses more.",
    queries: [
      { expr: sum(located("highwater_gateway_wire_sessions"), "name"), legend: "{{name}}" },
      { expr: sum(located("highwater_gateway_wire_holds"), "name"), legend: "{{name}} waiting" },
      { expr: max(located("highwater_gateway_wire_sessions_bound")), legend: "bound of a gateway" },
    ],
    unit: "short",
    width: 8,
    colors: { "bound of a gateway": "red" },
  }),
  graph({
    title: "PostgreSQL commits by answer",
    says: "commit: at the commit point. receipted, held: when durable, with or without a receipt. unreceipted: when durable although the client asked for an early answer. released: before it was durable, by max_wait or cancel; counted a second time.",
    queries: [{ expr: sum(located(rate("highwater_gateway_wire_answers_total")), "how"), legend: "{{how}}" }],
    unit: "ops",
    width: 8,
  }),
  graph({
    title: "Tickets without an end",
    says: "Transactions on the applications' own connections whose end no application has reported. Many: applications do not report ends.",
    queries: [{ expr: sum(located("highwater_gateway_open_tickets"), "name"), legend: "{{name}}" }],
    unit: "short",
    width: 8,
  }),
];

const processes = [
  graph({
    title: "Event loop",
    says: "Share of the time in which the process's one thread was busy. Near 1 it is saturated: add gateways.",
    queries: [{ expr: located(rate("nodejs_eventloop_active_seconds_total")), legend: "{{name}}" }],
    unit: "percentunit",
    width: 8,
    max: 1,
  }),
  graph({
    title: "Processor",
    says: "Cores in use by the process, garbage collection included.",
    queries: [{ expr: located(rate("process_cpu_seconds_total")), legend: "{{name}}" }],
    unit: "short",
    width: 8,
    decimals: 2,
  }),
  graph({
    title: "Memory",
    says: "Resident, and of the JavaScript heap in use.",
    queries: [
      { expr: located("process_resident_memory_bytes"), legend: "{{name}}" },
      { expr: located("nodejs_heap_size_used_bytes"), legend: "{{name}} heap" },
    ],
    unit: "bytes",
    width: 8,
  }),
];

export const gateway: Board = {
  name: "gateway",
  title: "Gateway",
  says: `Answers of the gateways (${GATEWAY}) to clients, and what the gateways wait for.`,
  from: "now-1h",
  hasRegions: true,
  rows: [
    { row: row("Now"), panels: now },
    { row: row("Latency"), panels: latency },
    { row: row("Outcomes"), panels: outcomes },
    { row: row("Waits"), panels: waits },
    { row: row("PostgreSQL wire"), panels: wire },
    { row: row("Processes"), panels: processes },
  ],
};
