// When somebody has to know. Alerts name what users or promises suffer from; causes are in the
// runbooks.
import { BOUNDS, JOBS } from "../config.ts";
import { increase, max, min } from "../promql.ts";
import { type Alert } from "./rule.ts";

const jobs = Object.values(JOBS).join("|");
const {
  exposureShare,
  exposureAgeSeconds,
  waitingLossSeconds,
  replicationLagSeconds,
  eventLoopShare,
  poolQueueShare,
  webhookAgeSeconds,
  certificateDays,
  notificationQueueShare,
  wireSessionsShare,
  wireUnreceiptedShare,
} = BOUNDS;

const ANSWERS = "highwater_gateway_wire_answers_total";

/** Promises, and what becomes of them. */
export const promiseAlerts: readonly Alert[] = [
  {
    name: "HighwaterPromiseBroken",
    expr: `${max(increase("highwater_broken_promises_total", "10m"), "level")} > 0`,
    severity: "page",
    summary: "A promise of level {{ $labels.level }} was broken",
    says: "A failover discarded transactions that were durable at the level, or a transaction that was reported lost is back. The only copy may be on the old primary or on a replica that was not promoted.",
  },
  {
    name: "HighwaterTransactionsLost",
    expr: `${max(increase("highwater_lost_total", "10m"))} > 0`,
    severity: "page",
    summary: '{{ printf "%.0f" $value }} transactions were lost in ten minutes',
    says: "A failure discarded committed transactions that were not durable. Trackers report each of them by verdict, event and webhook.",
  },
  {
    name: "HighwaterLossesWait",
    expr: `${max("highwater_waiting_losses", "level")} and ${max("highwater_waiting_losses_oldest_seconds", "level")} > ${String(waitingLossSeconds)}`,
    severity: "page",
    summary: '{{ printf "%.0f" $value }} losses wait for level {{ $labels.level }} to be reported',
    says: "The current history lacks these transactions, and the proof has not reached the exposure level. Their verdict is pending until the level is reachable again or an operator decides.",
  },
  {
    name: "HighwaterPrimaryWentBack",
    expr: `${max(increase("highwater_primary_went_back_total", "10m"))} > 0`,
    severity: "page",
    summary: "An older state was put under the running primary",
    says: "The primary has less log on disk than before, within one epoch. The epoch ends and a new one begins. Replicas may have log that the primary lacks.",
  },
  {
    name: "HighwaterSplitBrain",
    expr: `max(highwater_split_brain) == 1 or max(highwater_gateway_split_brain) == 1`,
    severity: "page",
    summary: "Two writable nodes of different histories: all writes have stopped",
    says: "Neither history contains the other's epoch. Nothing commits until an operator chooses a node.",
  },
  {
    name: "HighwaterNoPrimary",
    expr: `max(highwater_gateway_ready) == 0`,
    for: "30s",
    severity: "page",
    summary: "No gateway can commit",
    says: "No gateway knows an authoritative primary. A failover is needed or in progress.",
  },
  {
    name: "HighwaterGatewayNotReady",
    expr: `${min("highwater_gateway_ready", "job", "instance")} == 0 and on () max(highwater_gateway_ready) == 1`,
    for: "2m",
    severity: "ticket",
    summary: "The gateway at {{ $labels.instance }} cannot commit, others can",
    says: "The gateway does not reach the primary, or does not reach the trackers or the lease that name it.",
  },
  {
    name: "HighwaterLevelStalled",
    expr: `${max("highwater_level_stalled", "level")} == 1`,
    for: "1m",
    severity: "page",
    summary: "Nothing becomes durable at level {{ $labels.level }}",
    says: "The level's mark does not rise although transactions wait for it. Waiting loses nothing, but more transactions are at risk.",
  },
  {
    name: "HighwaterExposureOld",
    expr: `max(highwater_exposed_oldest_seconds) > ${String(exposureAgeSeconds)}`,
    for: "1m",
    severity: "page",
    summary: "A transaction has been at risk for {{ $value | humanizeDuration }}",
    says: "The transaction is committed, and still not durable at the exposure level.",
  },
  {
    name: "HighwaterExposureNearLimit",
    expr: `${max("highwater_gateway_exposure_used / (highwater_gateway_exposure_bound > 0)", "limit")} > ${String(exposureShare)}`,
    for: "2m",
    severity: "ticket",
    summary: "{{ $labels.limit }} is used to {{ $value | humanizePercentage }}: fast commits are delayed",
    says: "At the limit gateways refuse fast commits.",
  },
  {
    name: "HighwaterExposureRefusing",
    expr: `sum by (limit) (${increase("highwater_gateway_exposure_refusals_total", "5m")}) > 0`,
    for: "1m",
    severity: "page",
    summary: "Fast commits are refused at the limit {{ $labels.limit }}",
    says: "Clients get 503 exposure_limit. Safe transactions continue up to twice the limit.",
  },
  {
    name: "HighwaterVerdictsInDoubt",
    expr: `sum by (state) (${max('highwater_in_doubt_transactions{state=~"unproven|absent|unplaced"}', "job", "instance", "state")}) > 0`,
    for: "10m",
    severity: "ticket",
    summary:
      '{{ printf "%.0f" $value }} transactions have had no verdict for ten minutes ({{ $labels.state }})',
    says: "After a failover trackers look for the receipt of every attempt in the new history. They could not do so for these attempts yet.",
  },
];

/** Processes, nodes, and what they need. */
export const systemAlerts: readonly Alert[] = [
  {
    name: "HighwaterServiceDown",
    expr: `up{job=~"${jobs}"} == 0`,
    for: "1m",
    severity: "ticket",
    summary: "{{ $labels.job }} at {{ $labels.instance }} does not answer",
    says: "The process has stopped, or Prometheus cannot reach it. Clients use the other services.",
  },
  {
    name: "HighwaterAllGatewaysDown",
    expr: `absent(up{job="${JOBS.gateway}"} == 1)`,
    for: "30s",
    severity: "page",
    summary: "No gateway answers",
    says: "No client can run a transaction.",
  },
  {
    name: "HighwaterAllTrackersDown",
    expr: `absent(up{job="${JOBS.tracker}"} == 1)`,
    for: "1m",
    severity: "page",
    summary: "No tracker answers",
    says: "No client learns that anything is durable. At the exposure limit fast commits stop.",
  },
  {
    name: "HighwaterGatewayWithoutTracker",
    expr: `${max("highwater_gateway_tracker_stream_connected", "job", "instance")} == 0`,
    for: "1m",
    severity: "page",
    summary: "The gateway at {{ $labels.instance }} reaches no tracker",
    says: "The gateway does not learn what is durable. Safe transactions wait. Fast ones continue up to the gateway's share of the limit.",
  },
  {
    name: "HighwaterTrackerBehind",
    expr: "highwater_epoch < on () group_left () max(highwater_epoch) or highwater_blind == 1",
    for: "2m",
    severity: "ticket",
    summary: "The tracker at {{ $labels.instance }} does not follow the primary",
    says: "The primary does not answer the tracker, or other trackers know a newer epoch. Gateways and clients use other trackers, if there are any.",
  },
  {
    name: "HighwaterFailedOver",
    expr: `${max(increase('highwater_epochs_begun_total{cause=~"promotion|crash_recovery|reinstated"}', "10m"), "cause")} > 0`,
    severity: "info",
    summary: "A new epoch is current ({{ $labels.cause }})",
    says: "The primary crashed, restarted or changed. Trackers give verdicts on the transactions that were not durable.",
  },
  {
    name: "HighwaterNodeDown",
    expr: `${max("highwater_node_alive", "node", "region")} == 0`,
    for: "2m",
    severity: "ticket",
    summary: "The node {{ $labels.node }} in {{ $labels.region }} answers no tracker",
    says: "Meanwhile the node counts for no level. Too few nodes may answer in the next failover.",
  },
  {
    name: "HighwaterReplicationLag",
    expr: `${min("highwater_replication_lag_seconds", "node", "region")} > ${String(replicationLagSeconds)}`,
    for: "2m",
    severity: "ticket",
    summary: "The replica {{ $labels.node }} is {{ $value | humanizeDuration }} behind",
    says: "Levels that need the replica wait as long.",
  },
  {
    name: "HighwaterUnknownOutcomes",
    expr: `sum(highwater_gateway_unknown_outcomes_open) > 0`,
    for: "2m",
    severity: "ticket",
    summary: '{{ printf "%.0f" $value }} unknown outcomes cannot be settled',
    says: "Connections died during COMMIT, and the gateway cannot find out whether the transactions committed.",
  },
  {
    name: "HighwaterPoolQueue",
    expr: `sum by (job, instance) (highwater_gateway_pool_queue_length{use="write"}) / on (job, instance) highwater_gateway_pool_queue_bound > ${String(poolQueueShare)}`,
    for: "2m",
    severity: "ticket",
    summary:
      "The queue of the gateway at {{ $labels.instance }} is filled to {{ $value | humanizePercentage }}",
    says: "All sessions to the primary are busy. When the queue is full, the gateway refuses transactions with 503 overloaded.",
  },
  {
    name: "HighwaterWireSessionsNearLimit",
    expr: `${max("highwater_gateway_wire_sessions / highwater_gateway_wire_sessions_bound", "job", "instance")} > ${String(wireSessionsShare)}`,
    for: "2m",
    severity: "ticket",
    summary:
      "The gateway at {{ $labels.instance }} has {{ $value | humanizePercentage }} of the sessions of PostgreSQL that it may have",
    says: "At the limit the gateway refuses new connections: sorry, too many clients already (53300).",
  },
  {
    name: "HighwaterWireUnreceipted",
    expr: `sum(${increase(`${ANSWERS}{how="unreceipted"}`, "10m")}) / (sum(${increase(`${ANSWERS}{how=~"commit|unreceipted"}`, "10m")}) > 0) > ${String(wireUnreceiptedShare)}`,
    for: "10m",
    severity: "ticket",
    summary: "{{ $value | humanizePercentage }} of the commits in commit mode have no receipt",
    says: "PostgreSQL clients asked for answers at the commit point, but wait until their commits are durable.",
  },
  {
    name: "HighwaterEventLoopBusy",
    expr: `rate(nodejs_eventloop_active_seconds_total{job=~"${jobs}"}[2m]) > ${String(eventLoopShare)}`,
    for: "5m",
    severity: "ticket",
    summary:
      "{{ $labels.job }} at {{ $labels.instance }} is busy {{ $value | humanizePercentage }} of the time",
    says: "The process uses all of its only thread. More load makes latency grow.",
  },
  {
    name: "HighwaterTopologyRefused",
    expr: `highwater_topology_refused == 1`,
    for: "1m",
    severity: "ticket",
    summary: "{{ $labels.job }} at {{ $labels.instance }} has refused the topology's file",
    says: "The service continues with the previous topology. Other services may have taken the new one.",
  },
  {
    name: "HighwaterLockFlood",
    expr: `${max(increase("highwater_lock_floods_total", "10m"))} > 0`,
    severity: "ticket",
    summary: "A session took so many locks that a tracker ended it",
    says: "Without a free lock a server accepts no login, begins no epoch, and a replica may stop.",
  },
  {
    name: "HighwaterNotificationQueue",
    expr: `${max("highwater_notification_queue_ratio", "node")} > ${String(notificationQueueShare)}`,
    for: "1m",
    severity: "ticket",
    summary: "{{ $value | humanizePercentage }} of the notification queue of {{ $labels.node }} is taken",
    says: "When the queue is full, no transaction that notifies can commit. A session that listens and does not read blocks the queue.",
  },
  {
    name: "HighwaterCertificateExpires",
    expr: `${min("highwater_tls_certificate_expires_seconds", "job", "instance")} - time() < ${String(certificateDays * 86_400)}`,
    severity: "ticket",
    summary:
      "The certificate of {{ $labels.job }} at {{ $labels.instance }} expires in {{ $value | humanizeDuration }}",
    says: "After that no other service and no edge can connect to the service.",
  },
];

export const webhookAlerts: readonly Alert[] = [
  {
    name: "HighwaterWebhooksLate",
    expr: `max(highwater_webhook_oldest_pending_seconds) > ${String(webhookAgeSeconds)}`,
    for: "5m",
    severity: "ticket",
    summary: "A webhook has been waiting for {{ $value | humanizeDuration }}",
    says: "The endpoint does not accept the message, or no tracker sends.",
  },
  {
    name: "HighwaterWebhooksGivenUp",
    expr: `sum(${increase('highwater_webhook_delivery_age_seconds_count{result="failed"}', "1h")}) > 0`,
    severity: "ticket",
    summary: '{{ printf "%.0f" $value }} webhook deliveries were given up in an hour',
    says: "All attempts of the schedule failed. The store keeps the deliveries, and the owner can send them again.",
  },
  {
    name: "HighwaterWebhookEndpointDisabled",
    expr: `max(highwater_webhook_endpoints{disabled="yes"}) > max(highwater_webhook_endpoints{disabled="yes"} offset 1h)`,
    severity: "ticket",
    summary: "A webhook endpoint was disabled within the last hour",
    says: "The endpoint answered 410, failed for days, or was disabled by its owner. Its deliveries are held.",
  },
  {
    name: "HighwaterEventsSetAside",
    expr: `max(highwater_events_set_aside) > 0`,
    for: "5m",
    severity: "ticket",
    summary: '{{ printf "%.0f" $value }} events could not be recorded for five minutes',
    says: "Trackers have not published these events, neither by stream nor by webhook.",
  },
];
