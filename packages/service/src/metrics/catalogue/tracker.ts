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
    help: "Everything of the current epoch's log at or below it has reached the level.",
    question: "How far is everything durable, by level?",
  }),
  markLag: gauge("highwater_mark_lag_bytes", {
    labels: { level: LEVEL },
    unit: "bytes",
    help: "Of log between the level's mark and what the primary has flushed.",
    question: "How far is a level behind the primary?",
  }),
  levelStalled: gauge("highwater_level_stalled", {
    labels: { level: LEVEL },
    help: "1 while the level's mark stands still although something waits for it.",
    question: "Has durability stopped at a level?",
  }),
  durabilityLag: histogram("highwater_durability_lag_seconds", {
    labels: { level: LEVEL },
    unit: "seconds",
    buckets: LAG_SECONDS,
    help: "From a write's announcement to its durability at the level. Counts every one; where a mark takes many along, the times of a few among them, evenly chosen, stand for all.",
    question: "How long does it take until a commit survives the failures of a level?",
  }),
  pending: gauge("highwater_pending_transactions", {
    labels: { level: LEVEL },
    unit: "transactions",
    help: "Committed transactions that wait for the level's mark.",
    question: "How many are not durable yet, by level?",
  }),
  exposed: gauge("highwater_exposed_transactions", {
    labels: { level: "the exposure level" },
    unit: "transactions",
    help: "Transactions of all gateways that may be lost: announced, and not durable at the exposure level.",
    question: "What is at risk right now?",
  }),
  exposedByRegion: gauge("highwater_exposed_region_transactions", {
    labels: { region: "of the gateways" },
    unit: "transactions",
    help: "The same by the region of the gateway that has announced them.",
    question: "Whose transactions are at risk?",
  }),
  exposedBytes: gauge("highwater_exposed_bytes", {
    labels: { level: "the exposure level" },
    unit: "bytes",
    help: "Of log between the exposure level's mark and the newest of them.",
    question: "How much log is at risk?",
  }),
  exposedOldest: gauge("highwater_exposed_oldest_seconds", {
    labels: { level: "the exposure level" },
    unit: "seconds",
    help: "Age of the oldest of them; 0 when there is none.",
    question: "For how long has something been at risk?",
  }),

  nodeAlive: gauge("highwater_node_alive", {
    labels: { ...NODE, zone: "its zone" },
    help: "1 while the node answers this tracker.",
    question: "Which nodes are there?",
  }),
  nodePrimary: gauge("highwater_node_primary", {
    labels: NODE,
    help: "1 for the node on which the current epoch runs.",
    question: "Who is the primary?",
  }),
  nodePosition: gauge("highwater_node_position_bytes", {
    labels: NODE,
    unit: "bytes",
    help: "Of the current epoch's log, what is known to be on the node's disk; absent while nothing is known.",
    question: "How far is each node?",
  }),
  replicationLagBytes: gauge("highwater_replication_lag_bytes", {
    labels: NODE,
    unit: "bytes",
    help: "Bytes that the primary has flushed and the replica has not, or is not known to have.",
    question: "How much would be missing on this replica?",
  }),
  replicationLag: gauge("highwater_replication_lag_seconds", {
    labels: NODE,
    unit: "seconds",
    help: "Since when the oldest of that has been on the primary's disk; 0 when nothing is missing.",
    question: "How far behind is a replica, in time?",
  }),
  synchronousStandbys: gauge("highwater_synchronous_standbys", {
    help: "Standbys that the HA manager may promote; 0 while that is not known.",
    question: "Can levels that count synchronous standbys be reached?",
    only: "where a level counts them",
  }),

  epoch: gauge("highwater_epoch", {
    help: "Number of the current epoch.",
    question: "When did the history change hands? (each change is a failover or a restart)",
  }),
  epochInfo: gauge("highwater_epoch_info", {
    labels: { epoch: "its id", node: "on which it began", cause: CAUSES },
    help: "Always 1; its labels say which epoch is the current one.",
    question: "Why did the current epoch begin, and where?",
  }),
  epochAge: gauge("highwater_epoch_age_seconds", {
    unit: "seconds",
    help: "Since this tracker first followed the current epoch.",
    question: "How long ago was the last failover?",
  }),
  epochsBegun: counter("highwater_epochs_begun_total", {
    labels: { cause: CAUSES },
    help: "Epochs that this tracker has seen become current, by cause.",
    question: "How many failovers, crashes and restarts were there?",
  }),
  authoritySettled: gauge("highwater_authority_settled", {
    help: "1 while it is settled who is the primary.",
    question: "Can there be marks and verdicts?",
  }),
  splitBrain: gauge("highwater_split_brain", {
    help: "1 while two writable nodes have histories and neither history contains the other.",
    question: "Must an operator name the primary?",
  }),

  blind: gauge("highwater_blind", {
    help: "1 while the primary has not answered this tracker for a second.",
    question: "Does this tracker reach the primary, or do its clients have to go to another?",
  }),

  lost: counter("highwater_lost_total", {
    unit: "transactions",
    help: "Transactions that this tracker has reported lost.",
    question: "What was lost?",
  }),
  broken: counter("highwater_broken_total", {
    unit: "transactions",
    help: "Transactions whose promise this tracker has reported broken.",
    question: "Was a verdict ever wrong?",
  }),
  brokenPromises: counter("highwater_broken_promises_total", {
    labels: { level: LEVEL },
    help: "Promises of a level that a failure has undone, each a range of an epoch's log.",
    question: "Did a failover break what a level had promised?",
  }),
  primaryWentBack: counter("highwater_primary_went_back_total", {
    help: "Times that the primary had less on disk than before within an epoch: an older state was put under the running server.",
    question: "Was a virtual machine's snapshot put back under a running primary?",
  }),
  notificationQueue: gauge("highwater_notification_queue_ratio", {
    labels: NODE,
    help: "How much of the node's queue of notifications (LISTEN and NOTIFY) is taken, from 0 to 1.",
    question: "Does a listener that reads nothing keep transactions that notify from committing?",
  }),
  lockFloods: counter("highwater_lock_floods_total", {
    help: "Sessions of applications that this tracker has ended because they held too many locks.",
    question: "Does somebody try to take all locks of a database server?",
  }),
  delayed: counter("highwater_delayed_total", {
    unit: "transactions",
    help: "Transactions that were not durable in the time that their client has set.",
    question: "Do clients wait longer than they wanted to?",
  }),
  verdicts: counter("highwater_verdicts_total", {
    labels: { verdict: ["pending", "durable", "lost", "broken", "expired", "unknown"] },
    help: "Tokens that were judged for callers, by the verdict of the answer.",
    question: "What are clients answered, and how often must they ask again?",
  }),
  inDoubt: gauge("highwater_in_doubt_transactions", {
    labels: { state: ["intent", "unproven", "absent", "unplaced"] },
    unit: "transactions",
    help: "Attempts without a verdict that no mark alone can give: announced only; to be looked up; found absent and not reported yet; of an epoch that this tracker does not follow.",
    question: "After a failure: is the reconciliation getting on?",
  }),
  waitingLosses: gauge("highwater_waiting_losses", {
    labels: { level: "the exposure level" },
    unit: "transactions",
    help: "Proven losses that are not reported yet, because the proof has not reached the exposure level and no operator's command releases them.",
    question: "Do losses wait for a replica, or for an operator?",
  }),
  waitingLossesOldest: gauge("highwater_waiting_losses_oldest_seconds", {
    labels: { level: "the exposure level" },
    unit: "seconds",
    help: "How long the oldest of them has waited since this tracker proved it; 0 when none waits.",
    question: "For how long have clients had no verdict on a transaction that is lost?",
  }),
  ledgerEntries: gauge("highwater_ledger_entries", {
    help: "Attempts in the ledger.",
    question: "How much does the tracker hold?",
  }),

  streamClients: gauge("highwater_stream_clients", {
    help: "Clients of the stream of marks.",
    question: "How many SDKs and gateways listen here?",
  }),
  eventStreamClients: gauge("highwater_event_stream_clients", {
    help: "Clients of the stream of events.",
    question: "How many listen to verdicts of single transactions?",
  }),
  eventsKept: gauge("highwater_events_kept", {
    help: "Events that clients can still resume from here.",
    question: "How far back can a stream resume?",
  }),
  eventsSetAside: gauge("highwater_events_set_aside", {
    help: "Events that have yet to be recorded in the store.",
    question: "Is the recording of events held up?",
  }),
  eventsRecorded: counter("highwater_events_recorded_total", {
    help: "Events that this tracker has recorded.",
    question: "How many events are there?",
  }),
  refusals: counter("highwater_tracker_refusals_total", {
    labels: { code: "an error code" },
    help: "Requests whose caller was refused, by error code.",
    question: "Who is turned away?",
  }),
} as const;

export const WEBHOOKS = {
  attempts: counter("highwater_webhook_attempts_total", {
    labels: { outcome: ATTEMPT_OUTCOMES },
    help: "Attempts of this tracker at deliveries, by outcome.",
    question: "Do receivers answer, and how?",
  }),
  attemptTime: histogram("highwater_webhook_attempt_seconds", {
    labels: { outcome: ATTEMPT_OUTCOMES },
    unit: "seconds",
    buckets: LATENCY_SECONDS,
    help: "How long the exchanges with receivers took.",
    question: "Are receivers slow?",
  }),
  deliveryAge: histogram("highwater_webhook_delivery_age_seconds", {
    labels: { result: ["delivered", "failed", "held"] },
    unit: "seconds",
    buckets: AGE_SECONDS,
    help: "Age of deliveries when this tracker settled them, by result: from the recording of their event.",
    question: "How late do events arrive?",
  }),
  enqueued: counter("highwater_webhook_messages_enqueued_total", {
    help: "Messages that this tracker has enqueued.",
    question: "How much is there to send?",
  }),
  endpoints: gauge("highwater_webhook_endpoints", {
    labels: { disabled: ["no", "yes"] },
    help: "Endpoints in the store, by whether they are disabled.",
    question: "Was an endpoint disabled?",
  }),
  deliveries: gauge("highwater_webhook_deliveries", {
    labels: { status: ["pending", "failed", "held"] },
    help: "Deliveries in the store that have not been delivered, by status; counted about every ten seconds.",
    question: "How much is under way, and what has been given up?",
  }),
  oldestPending: gauge("highwater_webhook_oldest_pending_seconds", {
    unit: "seconds",
    help: "Age of the oldest delivery that is pending in the store; 0 when there is none.",
    question: "Is something stuck?",
  }),
} as const;
