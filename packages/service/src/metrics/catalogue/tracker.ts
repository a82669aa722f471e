// Metrics of trackers: positions, marks, exposure, verdicts, epochs, streams and webhooks. All
// trackers report about the same store, some later than others: combine these metrics with `max`,
// not `sum`.
import { ATTEMPT_OUTCOMES } from "@highwater/protocol";
import { AGE_SECONDS, counter, gauge, histogram, LAG_SECONDS, LATENCY_SECONDS } from "../definition.ts";

const LEVEL = "a level of the topology";
const NODE = { node: "a node of the topology", region: "its region" } as const;
const CAUSES = ["first", "clean_restart", "crash_recovery", "promotion", "reinstated", "restored"] as const;

export const TRACKER = {
  mark: gauge("highwater_mark_bytes", {
    labels: { level: LEVEL },
    unit: "bytes",
    help: "Offset up to which the current epoch's log has reached the level.",
    question: "Up to where is the log durable, by level?",
  }),
  markLag: gauge("highwater_mark_lag_bytes", {
    labels: { level: LEVEL },
    unit: "bytes",
    help: "Log that the primary has flushed above the level's mark.",
    question: "How far is a level behind the primary?",
  }),
  levelStalled: gauge("highwater_level_stalled", {
    labels: { level: LEVEL },
    help: "1 while the level's mark does not rise although transactions wait for it.",
    question: "Has durability stopped at a level?",
  }),
  durabilityLag: histogram("highwater_durability_lag_seconds", {
    labels: { level: LEVEL },
    unit: "seconds",
    buckets: LAG_SECONDS,
    help: "Time from a write's announcement until it is durable at the level. Counts every write. When one mark covers many writes, the times of a few, evenly chosen, stand for all.",
    question: "How long does it take until a commit survives the failures of a level?",
  }),
  reportedCommit: gauge("highwater_reported_commit_seconds", {
    labels: { gateway: "the gateway's name", region: "its region" },
    unit: "seconds",
    help: "Median time of the fast writes that a gateway committed in the five seconds before its last report to this tracker. Without a sample while it commits none.",
    question: "How long do clients wait for a commit, beside the time until it is durable?",
  }),
  pending: gauge("highwater_pending_transactions", {
    labels: { level: LEVEL },
    unit: "transactions",
    help: "Committed transactions that wait for the level's mark.",
    question: "How many transactions are not durable yet, by level?",
  }),
  exposed: gauge("highwater_exposed_transactions", {
    labels: { level: "the exposure level" },
    unit: "transactions",
    help: "Transactions of all gateways that a failover may discard: announced, and not durable at the exposure level.",
    question: "How many transactions are at risk now?",
  }),
  exposedByRegion: gauge("highwater_exposed_region_transactions", {
    labels: { region: "region of the gateways" },
    unit: "transactions",
    help: "Transactions at risk, as in `highwater_exposed_transactions`, by the region of the gateway that announced them.",
    question: "Which region's transactions are at risk?",
  }),
  exposedValue: gauge("highwater_exposed_value", {
    labels: { unit: "unit of the values" },
    help: "Sum of `atRisk` of the transactions at risk. Units are those that gateways have limits for.",
    question: "How much would a failover cost now?",
  }),
  exposedBytes: gauge("highwater_exposed_bytes", {
    labels: { level: "the exposure level" },
    unit: "bytes",
    help: "Log between the exposure level's mark and the newest transaction at risk.",
    question: "How much log is at risk?",
  }),
  exposedOldest: gauge("highwater_exposed_oldest_seconds", {
    labels: { level: "the exposure level" },
    unit: "seconds",
    help: "Age of the oldest transaction at risk; 0 when none is at risk.",
    question: "For how long has the oldest transaction been at risk?",
  }),

  nodeAlive: gauge("highwater_node_alive", {
    labels: { ...NODE, zone: "its zone" },
    help: "1 while the node answers this tracker.",
    question: "Which nodes answer?",
  }),
  nodePrimary: gauge("highwater_node_primary", {
    labels: NODE,
    help: "1 for the node on which the current epoch runs.",
    question: "Which node is the primary?",
  }),
  nodePosition: gauge("highwater_node_position_bytes", {
    labels: NODE,
    unit: "bytes",
    help: "Offset up to which the current epoch's log is known to be on the node's disk; absent while it is not known.",
    question: "How far has each node written the log?",
  }),
  replicationLagBytes: gauge("highwater_replication_lag_bytes", {
    labels: NODE,
    unit: "bytes",
    help: "Log that the primary has flushed and the replica is not known to have flushed.",
    question: "How much log would this replica lack?",
  }),
  replicationLag: gauge("highwater_replication_lag_seconds", {
    labels: NODE,
    unit: "seconds",
    help: "Time since the primary flushed the oldest log that the replica lacks; 0 when it lacks nothing.",
    question: "How far behind is a replica, in time?",
  }),
  synchronousStandbys: gauge("highwater_synchronous_standbys", {
    help: "Standbys that the HA manager may promote; 0 while the number is not known.",
    question: "Can transactions reach levels that count synchronous standbys?",
    only: "where a level counts them",
  }),

  epoch: gauge("highwater_epoch", {
    help: "Number of the current epoch.",
    question: "When did a new epoch begin? Each change is a failover or a restart.",
  }),
  epochInfo: gauge("highwater_epoch_info", {
    labels: { epoch: "its id", node: "the node on which it began", cause: CAUSES },
    help: "Always 1. The labels describe the current epoch.",
    question: "Why did the current epoch begin, and on which node?",
  }),
  epochAge: gauge("highwater_epoch_age_seconds", {
    unit: "seconds",
    help: "Time since this tracker first followed the current epoch.",
    question: "How long ago was the last failover?",
  }),
  epochsBegun: counter("highwater_epochs_begun_total", {
    labels: { cause: CAUSES },
    help: "Epochs that this tracker has seen become current, by cause.",
    question: "How many failovers, crashes and restarts were there?",
  }),
  authoritySettled: gauge("highwater_authority_settled", {
    help: "1 while this tracker knows which node is the primary.",
    question: "Can this tracker compute marks and verdicts?",
  }),
  splitBrain: gauge("highwater_split_brain", {
    help: "1 while two nodes are writable and neither node's history contains the other's.",
    question: "Must an operator name the primary?",
  }),

  blind: gauge("highwater_blind", {
    help: "1 while the primary has not answered this tracker for a second.",
    question: "Does this tracker reach the primary, or must its clients use another tracker?",
  }),

  lost: counter("highwater_lost_total", {
    unit: "transactions",
    help: "Transactions that this tracker has reported lost.",
    question: "How many transactions were lost?",
  }),
  broken: counter("highwater_broken_total", {
    unit: "transactions",
    help: "Transactions whose promise this tracker has reported broken.",
    question: "Did a failure break a promise?",
  }),
  brokenPromises: counter("highwater_broken_promises_total", {
    labels: { level: LEVEL },
    help: "Broken promises of a level. Each is a range of an epoch's log that a failure discarded.",
    question: "Did a failover break the promises of a level?",
  }),
  primaryWentBack: counter("highwater_primary_went_back_total", {
    help: "Times that the primary's flush position fell within an epoch: an older state of the disk was restored under the running server.",
    question: "Was a virtual machine's snapshot restored under a running primary?",
  }),
  notificationQueue: gauge("highwater_notification_queue_ratio", {
    labels: NODE,
    help: "Used part of the node's queue of notifications (LISTEN and NOTIFY), from 0 to 1.",
    question: "Does a listener that does not read block the commits of transactions that notify?",
  }),
  lockFloods: counter("highwater_lock_floods_total", {
    help: "Application sessions that this tracker ended because they held too many locks.",
    question: "Does a client try to take all locks of a database server?",
  }),
  delayed: counter("highwater_delayed_total", {
    unit: "transactions",
    help: "Transactions that were not durable within the time that their client had set.",
    question: "Do clients wait longer for durability than they want?",
  }),
  verdicts: counter("highwater_verdicts_total", {
    labels: { verdict: ["pending", "durable", "lost", "broken", "expired", "unknown"] },
    help: "Tokens that callers asked about, by the verdict in the answer.",
    question: "Which verdicts do clients get, and how many must ask again?",
  }),
  inDoubt: gauge("highwater_in_doubt_transactions", {
    labels: { state: ["intent", "unproven", "absent", "unplaced"] },
    unit: "transactions",
    help: "Attempts that no mark alone can judge. `intent`: announced, outcome not reported. `unproven`: the tracker has to look for the receipt. `absent`: there is no receipt, and the loss is not reported yet. `unplaced`: in an epoch that this tracker does not follow.",
    question: "Does the tracker reach verdicts after a failover?",
  }),
  waitingLosses: gauge("highwater_waiting_losses", {
    labels: { level: "the exposure level" },
    unit: "transactions",
    help: "Proven losses that the tracker has not reported, because their proof has not reached the exposure level and no operator's command releases them.",
    question: "Do losses wait for a replica or an operator?",
  }),
  waitingLossesOldest: gauge("highwater_waiting_losses_oldest_seconds", {
    labels: { level: "the exposure level" },
    unit: "seconds",
    help: "Time since this tracker proved the oldest loss that it has not reported; 0 when none waits.",
    question: "For how long have clients waited for the verdict on a lost transaction?",
  }),
  ledgerEntries: gauge("highwater_ledger_entries", {
    help: "Attempts in the ledger.",
    question: "How many attempts does the tracker hold?",
  }),

  streamClients: gauge("highwater_stream_clients", {
    help: "Open streams of marks.",
    question: "How many SDKs and gateways receive marks from this tracker?",
  }),
  eventStreamClients: gauge("highwater_event_stream_clients", {
    help: "Open streams of events.",
    question: "How many clients receive events from this tracker?",
  }),
  contentsTransactions: gauge("highwater_contents_transactions", {
    help: "Kept transactions in this tracker: those that are not durable at every level yet, and those that were lost.",
    question: "How many transactions could be read again after a failover?",
  }),
  contentsBytes: gauge("highwater_contents_bytes", {
    unit: "bytes",
    help: "Size of the contents that this tracker keeps. `TRACKER_CONTENTS_BYTES` limits it.",
    question: "Will contents soon be refused for their size?",
  }),
  contentsNotKept: counter("highwater_contents_not_kept_total", {
    labels: { why: ["over_limit", "erased", "failed"] },
    help: "Contents from gateways that this tracker did not keep, by reason.",
    question: "Are contents of transactions missing, and why?",
  }),
  eventsKept: gauge("highwater_events_kept", {
    help: "Events from which a client can resume its stream at this tracker.",
    question: "How far back can a stream resume?",
  }),
  eventsSetAside: gauge("highwater_events_set_aside", {
    help: "Events that this tracker has not recorded in the store yet.",
    question: "Is the recording of events delayed?",
  }),
  eventsRecorded: counter("highwater_events_recorded_total", {
    help: "Events that this tracker has recorded in the store.",
    question: "How many events occur?",
  }),
  refusals: counter("highwater_tracker_refusals_total", {
    labels: { code: "an error code" },
    help: "Requests that the tracker refused because of their caller, by error code.",
    question: "Which callers does the tracker refuse, and why?",
  }),
} as const;

export const WEBHOOKS = {
  attempts: counter("highwater_webhook_attempts_total", {
    labels: { outcome: ATTEMPT_OUTCOMES },
    help: "This tracker's attempts to deliver, by outcome.",
    question: "Do receivers answer, and how?",
  }),
  attemptTime: histogram("highwater_webhook_attempt_seconds", {
    labels: { outcome: ATTEMPT_OUTCOMES },
    unit: "seconds",
    buckets: LATENCY_SECONDS,
    help: "Time of one attempt, from the request to the receiver's answer.",
    question: "Are receivers slow?",
  }),
  deliveryAge: histogram("highwater_webhook_delivery_age_seconds", {
    labels: { result: ["delivered", "failed", "held"] },
    unit: "seconds",
    buckets: AGE_SECONDS,
    help: "Time from the recording of an event until this tracker finished its delivery, by result.",
    question: "How late do events arrive?",
  }),
  enqueued: counter("highwater_webhook_messages_enqueued_total", {
    help: "Messages that this tracker has enqueued.",
    question: "How many messages must be sent?",
  }),
  endpoints: gauge("highwater_webhook_endpoints", {
    labels: { disabled: ["no", "yes"] },
    help: "Webhook endpoints in the store, by whether they are disabled.",
    question: "Is an endpoint disabled?",
  }),
  deliveries: gauge("highwater_webhook_deliveries", {
    labels: { status: ["pending", "failed", "held"] },
    help: "Undelivered deliveries in the store, by status; counted about every ten seconds.",
    question: "How many deliveries wait, and how many have failed?",
  }),
  oldestPending: gauge("highwater_webhook_oldest_pending_seconds", {
    unit: "seconds",
    help: "Age of the oldest pending delivery in the store; 0 when none is pending.",
    question: "Is a delivery stuck?",
  }),
} as const;
