// The catalogue of log events. Each has one level and one meaning. docs/reference/logs.md is
// generated from it.

type Level = "error" | "warn" | "info";
type Events = Readonly<Record<Level, Readonly<Record<string, string>>>>;

const BOTH = {
  error: {
    configuration_refused:
      "A setting is wrong; the process ends with exit code 2. `faults` names every setting.",
    cannot_start: "The process ends with exit code 1.",
    stop_failed: "Closing did not end cleanly; the process ends with exit code 1.",
    request_failed: "A request failed by a fault of the service and was answered with `internal`.",
    split_brain: "Two nodes claim to be the primary. No verdicts and no commits until an operator names it.",
    topology_refused:
      "The changed topology file is wrong, or changes the nodes. The service keeps the old levels.",
    deployment_keys_differ: "The deployment keys are not those of the other services. `/readyz` answers 503.",
  },
  warn: {
    no_primary: "The store has no authoritative primary; `reason` says why.",
    epoch_not_begun:
      "Preparing the store (`step`: `prepare`) or beginning an epoch (`mint`) failed. It is retried.",
    sequences_not_reserved:
      "Before the epoch on `node` began, the sequences in `problems` (at most 20) were not advanced, or by less than the reserve: `short` (few values are left), `denied` (run the set-up of roles), `locked`, `late`, or the error. `count` is the number of them all; an entry for all above an OID counts once. They may hand out again what lost transactions got.",
    lock_flood_ended:
      "A session of `role` held `locks` locks on `node`, so others might have got none. The tracker ended it.",
    tables_unlogged:
      "The database of `node` has UNLOGGED tables or sequences (`tables`, at most 20). No level covers their contents.",
    topology_doubtful: "The topology is valid, but its levels protect less than they seem to.",
    traffic_unencrypted: "A listener or a URL beyond loopback has no TLS.",
    tls_handshake_failed:
      "A client failed the TLS handshake. Logged for the first, second, fourth, … failure.",
    deployment_keys_not_compared: "The check values of the deployment keys could not be read. It is retried.",
    keys_unreadable: "API keys could not be read from any node. The `known` ones stay valid.",
  },
  info: {
    listening: "The service accepts connections. The fields are its settings, without secrets.",
    stopping: "The service got a signal and finishes what is open.",
    sequences_reserved:
      "Before the epoch on `node` began, `advanced` sequences were advanced by the reserve.",
    authority_changed: "The service follows the primary `node` in `epoch`.",
    levels_changed: "The service uses the levels of the changed topology file.",
    deployment_keys_agree: "The deployment keys agree with those of the other services again.",
    keys_readable: "API keys can be read again.",
  },
} as const satisfies Events;

const GATEWAY = {
  error: {
    announcements_not_delivered: "The gateway stopped before any tracker had these announcements.",
  },
  warn: {
    replay_failed:
      "Lost transactions with `onLost` could not be brought back before the writes of `epoch`. Tried again while these are held back; then an operator has to do it.",
    replay_left:
      "A lost transaction with `onLost` could not be brought back before the writes of an epoch, and with it those of its owner that follow. An operator has to do it.",
    replay_not_examined:
      "Lost `transactions` of one owner that ran as `role` could not be planned on the new primary, and are reported to their owner as `not_examined`. Those of others are brought back all the same.",
    outcome_unknown: "The connection broke during COMMIT. The gateway settles the transaction's id.",
    outcome_not_settled_yet: "The first try to settle an id failed. It is retried.",
    announcements_held_up:
      "A tracker does not take announcements. Logged for the first, second, fourth, … failure.",
    announcements_left_to_others:
      "The queue for a tracker was full; the dropped announcements are with another tracker.",
    tracker_not_reached: "A tracker's stream could not be opened. Logged once for each reason.",
    tracker_stream_lost: "A tracker's stream ended.",
    tracker_blind: "A tracker cannot see the primary, or (`blind: false`) sees it again.",
    tracker_event_refused: "An event of a tracker's stream is not valid and was ignored.",
    exposure_level_differs: "The trackers count exposure at another level than this gateway.",
    flush_help_failed: "The transaction that makes the log flush failed. It is retried.",
    wire_session_not_opened: "A client of the PostgreSQL port got no session at the primary.",
    wire_proxy_refused:
      "A proxy of the PostgreSQL port and `GATEWAY_PG_PROXIES` do not agree. Logged for the first, second, fourth, … connection.",
    wire_session_not_ended:
      "A session of the PostgreSQL port was cut off, and the server could not be asked to end it. A statement that it runs goes on.",
    role_unprotected: "A database role of a key has rights that it should not have.",
  },
  info: {
    replayed_before_writes:
      "Before the writes of `epoch`, lost transactions with `onLost` were brought back (`replayed`). Others were `conflicts` or `unrecoverable`, and the time was over before those that are `left`.",
    wire_listening: "The gateway accepts clients of PostgreSQL on this port.",
    outcome_settled: "An unknown outcome was settled; `resolution` says how.",
    announcements_resumed: "A tracker takes announcements again.",
    tracker_stream_opened: "The gateway follows this tracker's stream.",
  },
} as const satisfies Events;

const TRACKER = {
  error: {
    core_failed: "The core's state contradicts itself; the process ends with exit code 1.",
    ledger_failed: "The ledger cannot be used; the process ends with exit code 1.",
    ledger_not_written: "A write to the ledger failed.",
    primary_went_back: "Within an epoch, the primary has less log than before. The tracker ends the epoch.",
    promise_broken: "A level had promised a range of an epoch's log that the current history lacks.",
    transaction_broken: "A transaction was reported durable, and a failure discarded it.",
    peer_verdict_refused:
      "Another tracker reported a transaction as broken that this one has found in the current history. Compare the trackers' deployment keys.",
    contents_failed:
      "Contents of kept transactions could not be stored or judged. Logged for the first, second, fourth, … failure.",
    event_unreadable: "An event in the outbox cannot be decoded and was skipped.",
    event_refused: "The store refuses an event. It stays in the outbox until the next epoch.",
  },
  warn: {
    transaction_lost: "A failover discarded a transaction.",
    transactions_lost:
      "`notLogged` more losses than one second may log; `lost` and `broken` count all so far.",
    level_stalled: "A level's mark does not rise while transactions wait for it.",
    primary_out_of_sight: "The primary does not answer. The tracker reports itself blind.",
    epoch_not_disowned: "Ending the epoch of a primary that went back failed. It is retried.",
    marks_not_shared: "Final marks could not be written to the store. It is retried.",
    receipts_not_read: "Receipts could not be read or settled. It is retried.",
    receipts_not_maintained: "Receipts could not be expired, nor room made for new ones. It is retried.",
    clocks_disagree: "The clocks differ by more than `maxMs`. Nothing expires until they agree.",
    broken_promises_not_read:
      "The broken promises that other trackers found could not be read. Logged once an epoch.",
    events_not_read: "Events could not be read from the store. Logged once an epoch.",
    events_not_recorded: "Events could not be written to the store. The outbox holds `waiting` events.",
    events_not_expired: "Old events could not be removed. It is retried.",
    webhook_endpoint_disabled:
      "An endpoint failed for too long. It gets no more webhooks; its owner gets an event.",
    webhook_attempt_not_recorded: "The result of an attempt could not be stored. The webhook is sent again.",
    webhook_chores_failed: "A round of the webhooks' upkeep failed. It is retried.",
    webhook_jobs_not_taken: "Jobs could not be taken from the webhooks' queue. It is retried.",
    webhook_queue_failed: "The connection or the queue of webhooks reported an error.",
    webhook_queue_not_opened: "The queue of webhooks could not be opened on the primary. It is retried.",
    webhooks_hastened: "A wrong clock had delayed webhooks. They are sent now.",
  },
  info: {
    ledger_loaded: "The tracker read its ledger: `held` transactions.",
    store_prepared: "The tracker created Highwater's tables on `node`.",
    epoch_begun: "The tracker began the epoch `epoch` on `node`.",
    level_recovered: "A stalled level's mark rises again.",
    primary_in_sight: "The primary answers again.",
    events_left: "The outbox held events that an earlier process had not written to the store.",
    contents_erased: "The contents of the owner's `erased` transactions were erased.",
    webhook_sent: "One attempt to deliver a webhook, with its outcome.",
  },
} as const satisfies Events;

/** Grouped by the service that logs them. */
export const LOG_EVENTS: readonly { readonly title: string; readonly events: Events }[] = [
  { title: "Gateways and trackers", events: BOTH },
  { title: "Gateways", events: GATEWAY },
  { title: "Trackers", events: TRACKER },
];

export type LogEvent<L extends Level> =
  | keyof (typeof BOTH)[L]
  | keyof (typeof GATEWAY)[L]
  | keyof (typeof TRACKER)[L];
