// Metrics of gateways: commits and their cost, exposure, and waiting requests.
import { counter, gauge, histogram, LAG_SECONDS, LATENCY_SECONDS } from "../definition.ts";

const ACK = ["commit", "durable"] as const;
const ACCESS = ["write", "read"] as const;
const FORM = ["one_shot", "interactive"] as const;
const USE = ["write", "read"] as const;
const NODE = "a node of the topology";
const LEVEL = "a level of the topology";
const TRACKER = "host and port of a tracker";

export const GATEWAY = {
  ready: gauge("highwater_gateway_ready", {
    help: "1 while there is an authoritative primary, and the deployment keys are those of the other services.",
    question: "Can this gateway commit?",
  }),
  splitBrain: gauge("highwater_gateway_split_brain", {
    help: "1 while two primaries claim authority and all writes are stopped.",
    question: "Did writing stop because two nodes claim to be the primary?",
  }),
  epoch: gauge("highwater_gateway_epoch", {
    help: "Number of the epoch in which this gateway commits; 0 while there is none.",
    question: "Do all gateways commit in the same epoch?",
  }),

  transactions: counter("highwater_gateway_transactions_total", {
    labels: { ack: ACK, outcome: "the state that was answered, or the error's code" },
    help: "One-shot transactions, and commits of interactive ones, by acknowledgement and outcome; the outcome of a failed one is its error code.",
    question: "How many transactions are there, and which share of them fails, and why?",
  }),
  commit: histogram("highwater_gateway_commit_seconds", {
    labels: {
      ack: ACK,
      isolation: ["serializable", "repeatable read", "read committed", "unknown"],
      access: ACCESS,
      form: [...FORM, "wire"],
    },
    unit: "seconds",
    buckets: LATENCY_SECONDS,
    help: "From an accepted commit to its answer, of those that committed; of a one-shot transaction with all its statements, of a safe one with its wait for the mark. On the PostgreSQL wire from the last message before the commit; the gateway does not know its isolation.",
    question: "How long does a commit take, fast and safe, by isolation?",
  }),
  store: histogram("highwater_gateway_store_seconds", {
    labels: { access: ACCESS, form: FORM },
    unit: "seconds",
    buckets: LATENCY_SECONDS,
    help: "The same transactions' time in the database, the wait for a session included.",
    question: "Which part of a commit's time is the database?",
  }),
  refusals: counter("highwater_gateway_refusals_total", {
    labels: { code: "an error code" },
    help: "Requests, and sessions and fast transactions of clients of PostgreSQL, that were refused before they reached a transaction, by error code.",
    question: "Who is turned away: without a key, above a limit, by a full gateway?",
  }),
  reads: counter("highwater_gateway_nearby_reads_total", {
    labels: { served: ["replica", "primary"] },
    help: "Reads that a replica of this region was asked for, and transactions on the port for reads, by the role of the node that served them.",
    question: "How often is a read near the user served there?",
  }),

  unknownOutcomes: counter("highwater_gateway_unknown_outcomes_total", {
    labels: {
      resolution: ["committed", "aborted", "lost", "absent", "expired", "out_of_window", "unsettled"],
    },
    help: "Connections that died during COMMIT, by what the id was settled as.",
    question: "Were unknown outcomes resolved, and as what?",
  }),
  unknownOutcomeTime: histogram("highwater_gateway_unknown_outcome_seconds", {
    unit: "seconds",
    buckets: LAG_SECONDS,
    help: "From an unknown outcome to its being settled.",
    question: "How long did clients not know what had become of their commit?",
  }),
  unknownOutcomesOpen: gauge("highwater_gateway_unknown_outcomes_open", {
    help: "Unknown outcomes that are being settled now.",
    question: "Is there anything that this gateway cannot find out?",
  }),

  activeTransactions: gauge("highwater_gateway_active_transactions", {
    unit: "transactions",
    help: "Transactions under way.",
    question: "How much works at once, and how near is the bound?",
  }),
  openTransactions: gauge("highwater_gateway_open_transactions", {
    unit: "transactions",
    help: "Interactive transactions that are open.",
    question: "Does somebody leave transactions open?",
  }),
  openTickets: gauge("highwater_gateway_open_tickets", {
    unit: "transactions",
    help: "Transactions on the applications' own connections that were announced here and have not been reported as ended.",
    question: "Do applications that enlist their connections report how their transactions end?",
  }),
  openEnds: counter("highwater_gateway_open_transactions_ended_total", {
    labels: { how: ["committed", "rolled_back", "expired", "aborted", "unknown"] },
    help: "Interactive transactions by how they ended.",
    question: "Do clients end what they have begun, or do time limits?",
  }),
  poolSessions: gauge("highwater_gateway_pool_sessions", {
    labels: { node: NODE, use: USE, state: ["busy", "idle"] },
    help: "Sessions that are open to a node, of all login roles.",
    question: "Are there sessions to spare, and where to?",
  }),
  poolSize: gauge("highwater_gateway_pool_size", {
    help: "Sessions of the service's own role that may be open to one node.",
    question: "Where is the bound of the pool?",
  }),
  resultMemory: gauge("highwater_gateway_result_memory_bytes", {
    unit: "bytes",
    help: "Memory that results take until their clients have read them; bounded by GATEWAY_RESULT_MEMORY_BYTES.",
    question: "Are transactions refused because results are not read?",
  }),
  poolQueue: gauge("highwater_gateway_pool_queue_length", {
    labels: { node: NODE, use: USE },
    unit: "transactions",
    help: "Transactions that wait for a session.",
    question: "Is the pool the bottleneck?",
  }),
  poolQueueBound: gauge("highwater_gateway_pool_queue_bound", {
    unit: "transactions",
    help: "So many may wait for a session of the service's own role; more are refused.",
    question: "How near is the queue to refusing?",
  }),
  poolWait: histogram("highwater_gateway_pool_wait_seconds", {
    unit: "seconds",
    buckets: LATENCY_SECONDS,
    help: "How long one-shot transactions waited for a session.",
    question: "What does the queue cost?",
  }),

  wireSessions: gauge("highwater_gateway_wire_sessions", {
    help: "Sessions of clients of PostgreSQL.",
    question: "How many clients of PostgreSQL are there, and how near is the bound?",
  }),
  wireSessionsBound: gauge("highwater_gateway_wire_sessions_bound", {
    help: "So many sessions of clients of PostgreSQL may be open; more are refused.",
    question: "How near are clients of PostgreSQL to being refused?",
  }),
  wireHolds: gauge("highwater_gateway_wire_holds", {
    help: "Of these, those with an answer that waits to be durable.",
    question: "How many clients of PostgreSQL are kept waiting by durability?",
  }),
  wireAfter: histogram("highwater_gateway_wire_after_seconds", {
    labels: { outcome: ["arrived", "refused"] },
    unit: "seconds",
    buckets: LATENCY_SECONDS,
    help: "Waits of sessions on the port for reads for the transaction of highwater.after; refused ones were too late, cancelled, or for a transaction that never arrives.",
    question: "How far do replicas lag behind what clients want to see?",
  }),
  wireAnswers: counter("highwater_gateway_wire_answers_total", {
    labels: { how: ["commit", "receipted", "held", "unreceipted", "released"] },
    help: "Answers to commits of clients of PostgreSQL: at the commit point with a receipt (`commit`), when durable with one (`receipted`) or without (`held`). `unreceipted`: an early answer was asked for, and it came when durable, because there was no receipt. `released`, counted again: went out before it was durable, by max_wait or a cancel.",
    question: "How many commits have no receipt, and does the acknowledgement that was asked for come?",
  }),

  durabilityLag: histogram("highwater_gateway_durability_lag_seconds", {
    labels: { level: "the exposure level" },
    unit: "seconds",
    buckets: LAG_SECONDS,
    help: "From a write's commit to the mark that made it durable at the exposure level, as this gateway learned of both; every one of them.",
    question: "For how long could what was acknowledged still be lost?",
  }),
  durabilityWaits: gauge("highwater_gateway_durability_waits", {
    unit: "transactions",
    help: "Safe transactions that wait for a mark.",
    question: "How many clients are kept waiting by durability?",
  }),
  mark: gauge("highwater_gateway_mark_bytes", {
    labels: { level: LEVEL },
    unit: "bytes",
    help: "The newest mark that this gateway knows in its epoch.",
    question: "Does this gateway receive marks, and the same as the others?",
  }),
  streamConnected: gauge("highwater_gateway_tracker_stream_connected", {
    labels: { tracker: TRACKER },
    help: "1 for the tracker from which this gateway receives marks.",
    question: "Does it follow the tracker nearby, one farther away, or none?",
  }),
  announcementQueue: gauge("highwater_gateway_announcement_queue_length", {
    labels: { tracker: TRACKER },
    help: "Announcements that a tracker has not acknowledged.",
    question: "Is a tracker slow or down?",
  }),
  unacknowledged: gauge("highwater_gateway_unacknowledged_transactions", {
    unit: "transactions",
    help: "Ids that no tracker has acknowledged.",
    question: "What would be forgotten if this gateway died now?",
  }),

  exposureTransactions: gauge("highwater_gateway_exposure_transactions", {
    labels: { state: ["pending", "reserved"] },
    unit: "transactions",
    help: "Transactions of this gateway that may be lost, by their state; reserved ones are in flight.",
    question: "What of this gateway's is at risk now?",
  }),
  exposureBytes: gauge("highwater_gateway_exposure_bytes", {
    unit: "bytes",
    help: "Of log that is not at the exposure level yet.",
    question: "How much log is at risk?",
  }),
  exposureOldest: gauge("highwater_gateway_exposure_oldest_seconds", {
    unit: "seconds",
    help: "Age of the oldest of the pending ones; 0 when there is none.",
    question: "For how long has something been at risk?",
  }),
  exposureUsed: gauge("highwater_gateway_exposure_used", {
    labels: { limit: "name of a limit" },
    help: "Current count of each limit; of keys, the one that has the most.",
    question: "How near is each limit of exposure?",
  }),
  exposureBound: gauge("highwater_gateway_exposure_bound", {
    labels: { limit: "name of a limit" },
    help: "Where this gateway refuses fast transactions, by limit.",
    question: "Where are the limits, and did this gateway have to fall back to its share?",
  }),
  exposureDelays: counter("highwater_gateway_exposure_delays_total", {
    help: "Fast transactions that were slowed down because a limit of exposure was near.",
    question: "Does exposure slow clients down?",
  }),
  exposureRefusals: counter("highwater_gateway_exposure_refusals_total", {
    labels: { limit: "name of a limit" },
    help: "Transactions that were refused at a limit of exposure, by its name.",
    question: "Does exposure turn clients away, and which limit?",
  }),
} as const;
