// The metrics of a soak: the unit of each, how much noise is allowed, and why.
import type { Allowance } from "./growth.ts";

export interface Metric {
  readonly title: string;
  readonly unit: string;
  /** Null: shown but not judged, for the reason in `why`. */
  readonly allowance: Allowance | null;
  readonly why: string;
}

const allowing = (absolute: number, relative: number): Allowance => ({ absolute, relative });

/** The plot has a panel for each, in this order. */
export const METRICS = {
  resident: {
    title: "Memory of each service",
    unit: "MiB",
    allowance: allowing(24, 0.1),
    why: "the collector returns pages at any time; the heap below is the more exact measure",
  },
  heap: {
    title: "Heap of each service after a full collection",
    unit: "MiB",
    allowance: allowing(4, 0.05),
    why: "transactions in flight, and code that is still being compiled; a leak of 600 bytes per transaction is above it after 100 s, at the 70 commits/s of one gateway",
  },
  external: {
    title: "Memory outside the heap that its objects hold",
    unit: "MiB",
    allowance: allowing(4, 0.1),
    why: "buffers of requests in flight, and buffers of the backlog, which double",
  },
  descriptors: {
    title: "File descriptors of each service, besides those of its clients' connections",
    unit: "descriptors",
    allowance: allowing(8, 0.1),
    why: "pools grow and shrink with the load and with faults",
  },
  sockets: {
    title: "Sockets of each service, besides its clients' connections",
    unit: "sockets",
    allowance: allowing(8, 0.1),
    why: "like the descriptors",
  },
  clients: {
    title: "Connections of clients to each service",
    unit: "connections",
    allowance: null,
    why: "the clients' own choice: they open many when a fault holds them up, and keep them for a minute",
  },
  connections: {
    title: "Database sessions of each service, on all servers together",
    unit: "sessions",
    allowance: allowing(6, 0.15),
    why: "a pool keeps the sessions of a burst for a while",
  },
  serverMemory: {
    title: "Private memory of all database servers",
    unit: "MiB",
    allowance: allowing(32, 0.1),
    why: "each session caches what it has used, and a switchover makes new sessions",
  },
  serverDescriptors: {
    title: "File descriptors of all database servers",
    unit: "descriptors",
    allowance: allowing(200, 0.15),
    why: "each session keeps files open, up to a limit of its own",
  },
  receipts: {
    title: "Receipts",
    unit: "rows",
    allowance: allowing(2_500, 0.25),
    why: "they expire by whole partitions, a quarter of the retention each, which a fault delays",
  },
  receiptMib: {
    title: "Size of the receipts with their indexes",
    unit: "MiB",
    allowance: allowing(1, 0.25),
    why: "like their number",
  },
  partitions: {
    title: "Partitions of the receipts",
    unit: "partitions",
    allowance: allowing(2, 0.1),
    why: "one more or less, depending on the moment",
  },
  events: {
    title: "Events in the store",
    unit: "rows",
    allowance: allowing(1_500, 0.25),
    why: "they expire in batches",
  },
  eventMib: {
    title: "Size of the events with their indexes",
    unit: "MiB",
    allowance: allowing(2, 0.25),
    why: "deleted rows leave space that is reused",
  },
  deliveries: {
    title: "Webhook deliveries in the store",
    unit: "rows",
    allowance: allowing(400, 0.3),
    why: "each tracker drops old ones once a minute",
  },
  jobs: {
    title: "Jobs of the webhook queue in the store",
    unit: "rows",
    allowance: allowing(400, 0.3),
    why: "each tracker drops done ones once a minute",
  },
  queued: {
    title: "Webhook deliveries that are pending",
    unit: "rows",
    allowance: allowing(40, 0.5),
    why: "a fault delays them for some seconds",
  },
  catalogMib: {
    title: "Size of the catalogs",
    unit: "MiB",
    allowance: allowing(2, 0.15),
    why: "dropped partitions leave space that is reused",
  },
  ledgerMib: {
    title: "Size of each ledger with its log",
    unit: "MiB",
    allowance: allowing(2, 0.15),
    why: "a file keeps its largest size",
  },
  entries: {
    title: "Transactions in each ledger",
    unit: "transactions",
    allowance: allowing(400, 0.5),
    why: "pending transactions, more while a link is cut; lost ones stay for the retention",
  },
  announcements: {
    title: "Announcements that wait in each gateway",
    unit: "announcements",
    allowance: allowing(200, 0.5),
    why: "more while a tracker is down",
  },
  epochs: {
    title: "Epochs",
    unit: "rows",
    allowance: null,
    why: "one row for each restart, crash and switchover, kept for ever, because they identify histories",
  },
} as const satisfies Record<string, Metric>;

export type MetricName = keyof typeof METRICS;
export const METRIC_NAMES = Object.keys(METRICS) as MetricName[];
