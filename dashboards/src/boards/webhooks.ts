// Whether webhooks arrive, how late, and at which endpoints they fail.
import { type Board } from "../board.ts";
import { BOUNDS } from "../config.ts";
import { graph, row, stat } from "../panels.ts";
import { increase, max, quantile, rate, sum } from "../promql.ts";

const ATTEMPTS = "highwater_webhook_attempts_total";
const GOOD_AND_BAD = {
  delivered: "green",
  status: "red",
  redirect: "orange",
  gone: "dark-red",
  timeout: "yellow",
  connection: "purple",
  refused: "blue",
};

const now = [
  stat({
    title: "Pending",
    says: "Pending deliveries in the store, first attempts and repetitions.",
    queries: [{ expr: max('highwater_webhook_deliveries{status="pending"}'), legend: "pending" }],
    unit: "short",
    width: 4,
  }),
  stat({
    title: "Oldest pending",
    says: "Old deliveries mostly belong to an endpoint that fails: the schedule lasts three days.",
    queries: [{ expr: max("highwater_webhook_oldest_pending_seconds"), legend: "oldest" }],
    unit: "s",
    width: 4,
    steps: ["green", [60, "orange"], [BOUNDS.webhookAgeSeconds, "red"]],
  }),
  stat({
    title: "Attempts that succeed",
    says: "Share of all attempts in the chosen time.",
    queries: [
      {
        expr: `${sum(increase(`${ATTEMPTS}{outcome="delivered"}`, "$__range"))} / (${sum(increase(ATTEMPTS, "$__range"))} > 0)`,
        legend: "delivered",
      },
    ],
    unit: "percentunit",
    width: 4,
    decimals: 1,
    steps: ["red", [0.9, "orange"], [0.99, "green"]],
  }),
  stat({
    title: "Given up",
    says: "Deliveries that failed at every attempt of the schedule. Recover them to send them again.",
    queries: [{ expr: max('highwater_webhook_deliveries{status="failed"}'), legend: "failed" }],
    unit: "short",
    width: 4,
    steps: ["green", [1, "red"]],
  }),
  stat({
    title: "Held",
    says: "Deliveries to disabled endpoints. Enable the endpoint, then recover them.",
    queries: [{ expr: max('highwater_webhook_deliveries{status="held"}'), legend: "held" }],
    unit: "short",
    width: 4,
    steps: ["green", [1, "orange"]],
  }),
  stat({
    title: "Endpoints",
    says: "In the store, by whether they are disabled.",
    queries: [
      { expr: max('highwater_webhook_endpoints{disabled="no"}'), legend: "enabled" },
      { expr: max('highwater_webhook_endpoints{disabled="yes"}'), legend: "disabled" },
    ],
    unit: "none",
    width: 4,
    hasName: true,
  }),
];

const deliveries = [
  graph({
    title: "Attempts by outcome",
    says: "status: the answer is not 2xx. refused: the address is not allowed.",
    queries: [{ expr: sum(rate(ATTEMPTS), "outcome"), legend: "{{outcome}}" }],
    unit: "ops",
    width: 12,
    isStacked: true,
    colors: GOOD_AND_BAD,
  }),
  graph({
    title: "Messages enqueued",
    says: "By all trackers; each message is one delivery for every endpoint that asks for its type.",
    queries: [{ expr: sum(rate("highwater_webhook_messages_enqueued_total")), legend: "messages" }],
    unit: "ops",
    width: 12,
  }),
  graph({
    title: "Age when delivered",
    says: "From the recording of the event to the receiver's 2xx.",
    queries: [0.5, 0.99].map((share) => ({
      expr: quantile(share, 'highwater_webhook_delivery_age_seconds{result="delivered"}'),
      legend: `p${String(share * 100)}`,
    })),
    unit: "s",
    width: 12,
  }),
  graph({
    title: "How long receivers take",
    says: "Time of attempts by outcome, 99%. An attempt ends after 15 s at the latest.",
    queries: [
      { expr: quantile(0.99, "highwater_webhook_attempt_seconds", "outcome"), legend: "{{outcome}} p99" },
    ],
    unit: "s",
    width: 12,
    colors: Object.fromEntries(Object.entries(GOOD_AND_BAD).map(([name, color]) => [`${name} p99`, color])),
  }),
];

const queue = [
  graph({
    title: "Deliveries that are not delivered",
    says: "In the store, by status; counted about every ten seconds.",
    queries: [{ expr: max("highwater_webhook_deliveries", "status"), legend: "{{status}}" }],
    unit: "short",
    width: 12,
    colors: { pending: "blue", failed: "red", held: "orange" },
  }),
  graph({
    title: "Oldest pending",
    says: "The line is the alert's threshold.",
    queries: [{ expr: max("highwater_webhook_oldest_pending_seconds"), legend: "oldest" }],
    unit: "s",
    width: 12,
    hasLines: true,
    steps: ["green", [BOUNDS.webhookAgeSeconds, "red"]],
  }),
];

export const webhooks: Board = {
  name: "webhooks",
  title: "Webhooks",
  says: "Whether webhooks arrive, how late, and at which endpoints they fail.",
  from: "now-6h",
  rows: [
    { row: row("Now"), panels: now },
    { row: row("Deliveries"), panels: deliveries },
    { row: row("Queue"), panels: queue },
  ],
};
