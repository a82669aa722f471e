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
    help: "1 while an authoritative primary exists and this service has the same deployment keys as the others.",
    question: "Can this gateway commit?",
  }),
  splitBrain: gauge("highwater_gateway_split_brain", {
    help: "1 while two primaries claim authority and all writes are stopped.",
    question: "Did writes stop because two nodes claim to be the primary?",
  }),
  epoch: gauge("highwater_gateway_epoch", {
    help: "Number of the epoch in which this gateway commits; 0 while it has none.",
    question: "Do all gateways commit in the same epoch?",
  }),

  transactions: counter("highwater_gateway_transactions_total", {
    labels: { ack: ACK, outcome: "the state in the answer, or the error code" },
    help: "One-shot transactions, and commits of interactive transactions, by acknowledgement and outcome. The outcome of a failure is its error code.",
    question: "How many transactions run, how many fail, and why?",
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
    help: "Time from the accepted commit to its answer, for transactions that committed. Includes all statements of a one-shot transaction, and the wait for the mark of a safe one. On the PostgreSQL wire it starts at the last message before the commit, and the isolation is `unknown`.",
    question: "How long do fast and safe commits take, by isolation?",
  }),
  store: histogram("highwater_gateway_store_seconds", {
    labels: { access: ACCESS, form: FORM },
    unit: "seconds",
    buckets: LATENCY_SECONDS,
    help: "Time that transactions over HTTP spend in the database, with the wait for a session.",
    question: "How much of a commit's time does the database take?",
  }),
  refusals: counter("highwater_gateway_refusals_total", {
    labels: { code: "an error code" },
    help: "Requests that the gateway refused before they reached a transaction, and sessions and fast transactions of PostgreSQL clients that it refused, by error code.",
    question: "Does the gateway refuse requests for a missing key, a limit or a lack of capacity?",
  }),
  reads: counter("highwater_gateway_nearby_reads_total", {
    labels: { served: ["replica", "primary"] },
    help: "Reads that asked for a replica of this region, and transactions on the read port, by the role of the node that served them.",
    question: "How often does a replica near the user serve a read?",
  }),

  unknownOutcomes: counter("highwater_gateway_unknown_outcomes_total", {
    labels: {
      resolution: ["committed", "aborted", "lost", "absent", "expired", "out_of_window", "unsettled"],
    },
    help: "Connections that broke during COMMIT, by the result of settling the id.",
    question: "Were unknown outcomes settled, and how?",
  }),
  unknownOutcomeTime: histogram("highwater_gateway_unknown_outcome_seconds", {
    unit: "seconds",
    buckets: LAG_SECONDS,
    help: "Time from an unknown outcome until it was settled.",
    question: "How long did clients wait to learn the outcome of a commit?",
  }),
  unknownOutcomesOpen: gauge("highwater_gateway_unknown_outcomes_open", {
    help: "Unknown outcomes that the gateway is settling now.",
    question: "Does the gateway fail to settle any outcome?",
  }),

  activeTransactions: gauge("highwater_gateway_active_transactions", {
    unit: "transactions",
    help: "Transactions in progress.",
    question: "How many transactions run at once, and how near is the limit?",
  }),
  openTransactions: gauge("highwater_gateway_open_transactions", {
    unit: "transactions",
    help: "Open interactive transactions.",
    question: "Do clients leave transactions open?",
  }),
  openTickets: gauge("highwater_gateway_open_tickets", {
    unit: "transactions",
    help: "Transactions on the applications' own connections that were announced here and whose end no application has reported.",
    question: "Do applications that enlist their connections report the ends of their transactions?",
  }),
  openEnds: counter("highwater_gateway_open_transactions_ended_total", {
    labels: { how: ["committed", "rolled_back", "expired", "aborted", "unknown"] },
    help: "Interactive transactions that ended, by the way they ended.",
    question: "Do clients end their transactions, or do time limits?",
  }),
  poolSessions: gauge("highwater_gateway_pool_sessions", {
    labels: { node: NODE, use: USE, state: ["busy", "idle"] },
    help: "Open database sessions to a node, for all login roles.",
    question: "Are sessions to each node still free?",
  }),
  poolSize: gauge("highwater_gateway_pool_size", {
    help: "Maximum number of sessions of the service's own role to one node.",
    question: "How large is the pool?",
  }),
  resultMemory: gauge("highwater_gateway_result_memory_bytes", {
    unit: "bytes",
    help: "Memory of results that clients have not read yet. The limit is GATEWAY_RESULT_MEMORY_BYTES.",
    question: "Does the gateway refuse transactions because clients do not read their results?",
  }),
  poolQueue: gauge("highwater_gateway_pool_queue_length", {
    labels: { node: NODE, use: USE },
    unit: "transactions",
    help: "Transactions that wait for a database session.",
    question: "Is the pool the bottleneck?",
  }),
  poolQueueBound: gauge("highwater_gateway_pool_queue_bound", {
    unit: "transactions",
    help: "Maximum number of transactions that may wait for a session of the service's own role. The gateway refuses more.",
    question: "How near is the queue to its limit?",
  }),
  poolWait: histogram("highwater_gateway_pool_wait_seconds", {
    unit: "seconds",
    buckets: LATENCY_SECONDS,
    help: "Time that one-shot transactions waited for a database session.",
    question: "How much time does the queue cost?",
  }),

  wireSessions: gauge("highwater_gateway_wire_sessions", {
    help: "Sessions of PostgreSQL clients, until their servers have ended them.",
    question: "How many PostgreSQL clients are connected, and how near is the limit?",
  }),
  wireSessionsBound: gauge("highwater_gateway_wire_sessions_bound", {
    help: "Maximum number of sessions of PostgreSQL clients. The gateway refuses more.",
    question: "How near is the number of sessions to its limit?",
  }),
  wireHolds: gauge("highwater_gateway_wire_holds", {
    help: "Sessions of PostgreSQL clients whose answer waits until the transaction is durable.",
    question: "How many PostgreSQL clients wait for durability?",
  }),
  wireAfter: histogram("highwater_gateway_wire_after_seconds", {
    labels: { outcome: ["arrived", "refused"] },
    unit: "seconds",
    buckets: LATENCY_SECONDS,
    help: "Time that sessions on the read port waited for the transaction in highwater.after. `refused`: the wait took too long, was cancelled, or was for a transaction that never arrives.",
    question: "How far do replicas lag behind the data that clients want to read?",
  }),
  wireAnswers: counter("highwater_gateway_wire_answers_total", {
    labels: { how: ["commit", "receipted", "held", "unreceipted", "released"] },
    help: "Answers to commits of PostgreSQL clients. `commit`: at the commit point, with a receipt. `receipted`: when durable, with a receipt. `held`: when durable, without a receipt. `unreceipted`: when durable although the client asked for an early answer, because the transaction had no receipt. `released`: before it was durable, because of max_wait or a cancel; counted a second time.",
    question: "How many commits have no receipt, and do clients get the acknowledgement that they asked for?",
  }),

  durabilityLag: histogram("highwater_gateway_durability_lag_seconds", {
    labels: { level: "the exposure level" },
    unit: "seconds",
    buckets: LAG_SECONDS,
    help: "Time from this gateway's learning of a write's commit to its learning of the mark that made the write durable at the exposure level. Counts every write.",
    question: "For how long can a failover still discard an acknowledged transaction?",
  }),
  durabilityWaits: gauge("highwater_gateway_durability_waits", {
    unit: "transactions",
    help: "Safe transactions that wait for a mark.",
    question: "How many clients wait for durability?",
  }),
  mark: gauge("highwater_gateway_mark_bytes", {
    labels: { level: LEVEL },
    unit: "bytes",
    help: "The newest mark that this gateway knows in its epoch.",
    question: "Does this gateway receive marks, and do they equal the marks of the others?",
  }),
  streamConnected: gauge("highwater_gateway_tracker_stream_connected", {
    labels: { tracker: TRACKER },
    help: "1 for the tracker from which this gateway receives marks.",
    question: "Does this gateway follow the nearest tracker, a farther one, or none?",
  }),
  announcementQueue: gauge("highwater_gateway_announcement_queue_length", {
    labels: { tracker: TRACKER },
    help: "Announcements that a tracker has not acknowledged.",
    question: "Is a tracker slow or down?",
  }),
  unacknowledged: gauge("highwater_gateway_unacknowledged_transactions", {
    unit: "transactions",
    help: "Announced transactions that no tracker has acknowledged.",
    question: "Which announcements would disappear if this gateway stopped now?",
  }),

  exposureTransactions: gauge("highwater_gateway_exposure_transactions", {
    labels: { state: ["pending", "reserved"] },
    unit: "transactions",
    help: "Transactions of this gateway that a failover may discard. `pending`: committed. `reserved`: in progress.",
    question: "How many of this gateway's transactions are at risk now?",
  }),
  exposureBytes: gauge("highwater_gateway_exposure_bytes", {
    unit: "bytes",
    help: "Log that has not reached the exposure level yet.",
    question: "How much log is at risk?",
  }),
  exposureOldest: gauge("highwater_gateway_exposure_oldest_seconds", {
    unit: "seconds",
    help: "Age of this gateway's oldest pending transaction; 0 when none is pending.",
    question: "For how long has the oldest transaction been at risk?",
  }),
  exposureUsed: gauge("highwater_gateway_exposure_used", {
    labels: { limit: "name of a limit" },
    help: "Exposure that counts toward each limit. For limits per key: the highest among the keys.",
    question: "How near is the exposure to each limit?",
  }),
  exposureBound: gauge("highwater_gateway_exposure_bound", {
    labels: { limit: "name of a limit" },
    help: "Value of each limit at which this gateway refuses fast transactions.",
    question: "What are the limits, and has this gateway fallen back to its share of them?",
  }),
  exposureDelays: counter("highwater_gateway_exposure_delays_total", {
    help: "Fast transactions that the gateway delayed because the exposure was near a limit.",
    question: "Does exposure slow clients down?",
  }),
  exposureRefusals: counter("highwater_gateway_exposure_refusals_total", {
    labels: { limit: "name of a limit" },
    help: "Transactions that the gateway refused because the exposure was at a limit, by limit.",
    question: "Does the gateway refuse clients because of exposure, and which limit?",
  }),
} as const;
