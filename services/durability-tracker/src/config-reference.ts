// The meaning of every variable, for docs/reference/tracker-config.md.
import {
  about,
  ABOUT_SHARED,
  type AboutVariables,
  aboutIdentity,
  NONE,
  referenceRows,
  REQUIRED,
} from "@highwater/service";
import { RANGES, VARIABLES } from "./config.ts";
import { ABOUT_WEBHOOKS } from "./webhooks/settings.ts";

const ABOUT: AboutVariables = {
  ...ABOUT_SHARED,
  ...aboutIdentity("TRACKER"),
  TRACKER_HOST: about("address on which the tracker listens", "`127.0.0.1`"),
  TRACKER_PORT: about("port for HTTP; 0: any free port"),
  TRACKER_CORS_ORIGINS: about(
    "origins of the web pages that may call the tracker, separated by commas: [http.md](http.md#pages-in-a-browser)",
    NONE,
  ),
  TRACKER_NAME: about("name of the tracker, unique among the running trackers", REQUIRED),
  TRACKER_REGION: about("region of the tracker", REQUIRED),
  TRACKER_LEDGER: about(
    "path of the ledger's file, on a local disk; no other tracker may use the same file",
    REQUIRED,
  ),
  TRACKER_CONTENTS: about(
    "file for the contents of kept transactions and for the list of what was lost; its folder must exist",
    "the ledger's file with `-contents` appended",
  ),
  TRACKER_CONTENTS_BYTES: about(
    "maximum size of all contents that this tracker keeps; above it contents are not kept, and their transactions are listed as `over_limit` if they are lost; `0`: keep none",
  ),
  TRACKER_CONTENTS_BYTES_PER_OWNER: about("the same for the contents of one owner"),
  TRACKER_KEEP_LOST_MS: about(
    "how long the tracker lists a lost transaction and keeps its contents, which count toward both limits until then",
  ),
  TRACKER_GATEWAYS: about(
    "base URLs of gateways, nearest first, separated by commas; the tracker passes `POST /v1/lost/replay` on to the first that answers, with the caller's credential, so that the console can bring transactions back",
    NONE,
  ),
  HIGHWATER_TLS_CA: about(
    "certificates of the authorities that sign the gateways' certificates, PEM or `@file`; if set, the tracker trusts no other authority there",
    "the authorities that Node.js trusts",
  ),
  TRACKER_PROBE_INTERVAL_MS: about("how often the tracker asks the nodes for their state"),
  TRACKER_CALM_PROBE_INTERVAL_MS: about(
    "replaces `TRACKER_PROBE_INTERVAL_MS` once every node has answered, and the primary has been the same, for 5 s",
  ),
  TRACKER_BUSY_POLL_MS: about(
    "pause between two queries for positions while a transaction is pending; at least 4 while nearly every query finds that the log has moved; below 4, none around the time when a replica's acknowledgement can arrive",
  ),
  TRACKER_IDLE_POLL_MS: about("pause between two queries for positions while no transaction is pending"),
  TRACKER_HEARTBEAT_MS: about("how often a stream sends a sign of life"),
  TRACKER_MAX_STREAMS: about(
    "maximum number of open streams of marks; more get 503 `overloaded`, but a gateway always gets one",
  ),
  TRACKER_MAX_STREAMS_PER_KEY: about(
    "maximum number of open streams of marks of one key; more get 429 `concurrency_limited`",
  ),
  TRACKER_MAX_WAITING_PER_KEY: about(
    "maximum number of tokens whose verdicts the requests of one key wait for; more get 429 `concurrency_limited`",
  ),
  TRACKER_TOKENS_PER_SECOND_PER_KEY: about(
    "maximum number of tokens per second that the tracker judges for one key; ten times as many at once after a pause; more get 429 `rate_limited`",
  ),
  TRACKER_ALIVE_MS: about("a node that has not reported for this long does not count among the survivors"),
  TRACKER_PUBLISH_PATIENCE_MS: about(
    "how long the tracker waits until the proof of a loss is durable at a level, before it reports the loss at the next weaker level; without an operator's command never below the exposure level",
  ),
  TRACKER_INTENT_PATIENCE_MS: about(
    "the tracker settles an id whose outcome no gateway has reported after this long, but not before the transaction's time limit",
  ),
  TRACKER_INTENT_GRACE_MS: about(
    "replaces `TRACKER_INTENT_PATIENCE_MS` for ids of an epoch that has ended; counts from the epoch's end or the announcement, whichever is later",
  ),
  TRACKER_EXPOSURE_LEVEL: about(
    "the exposure level: a transaction that is not durable at it is exposed; must equal the gateways' `GATEWAY_EXPOSURE_LEVEL`",
    "`region`, or the strongest level",
  ),
  TRACKER_STALL_AFTER_MS: about(
    "a level is stalled if its mark has not risen for this long while transactions wait for it",
  ),
  TRACKER_KEEP_DURABLE_MS: about(
    "how long the ledger keeps a transaction that is durable at a level beyond the primary, but not at every level",
  ),
  TRACKER_MAX_KEPT: about(
    "maximum number of transactions that `TRACKER_KEEP_DURABLE_MS` keeps; above it the oldest leave the ledger sooner",
  ),
  TRACKER_TOKENS_PER_OWNER: about(
    "maximum number of transactions of one owner that the ledger takes from tokens, without an announcement of a gateway; others stay `pending`",
  ),
  TRACKER_EVENTS_KEEP_MS: about("how long the store keeps events"),
  TRACKER_EVENT_STREAMS: about("maximum number of open streams of events; more get 503 `overloaded`"),
  TRACKER_EVENT_STREAMS_PER_KEY: about(
    "maximum number of open streams of events of one key; more get 429 `concurrency_limited`",
  ),
  ...ABOUT_WEBHOOKS,
  TRACKER_MAINTAIN_MS: about("how often the tracker removes expired receipts and events"),
  TRACKER_BODY_LIMIT_BYTES: about("maximum size of a request body; a larger one gets 413 `body_too_large`"),
  TRACKER_CONNECT_TIMEOUT_MS: about("time limit for connecting to a node"),
  TRACKER_CALL_TIMEOUT_MS: about("time limit for one query to a node"),
  HIGHWATER_INTERNAL_SECRET: about(
    "secret with which gateways authenticate to trackers, at least 16 characters, or `@file`; the same on every gateway and tracker; required unless TRACKER_AUTH is `none`",
    NONE,
  ),
  HIGHWATER_INTERNAL_SECRET_PREVIOUS: about(
    "an older secret that the tracker also accepts while you replace `HIGHWATER_INTERNAL_SECRET`",
    NONE,
  ),
};

/** Rows of the table, in the order of the configuration. */
export function configRows(): string[] {
  return referenceRows(VARIABLES, RANGES, ABOUT);
}
