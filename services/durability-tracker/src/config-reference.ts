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
  TRACKER_HOST: about("where it listens", "`127.0.0.1`"),
  TRACKER_PORT: about("0: any free port"),
  TRACKER_CORS_ORIGINS: about(
    "origins of pages that may call from a browser, separated by commas: [http.md](http.md#pages-in-a-browser)",
    NONE,
  ),
  TRACKER_NAME: about("unique among the running trackers", REQUIRED),
  TRACKER_REGION: about("where it is", REQUIRED),
  TRACKER_LEDGER: about("the file that holds the ledger; of this tracker alone, on a local disk", REQUIRED),
  TRACKER_PROBE_INTERVAL_MS: about("how often the nodes are looked at"),
  TRACKER_CALM_PROBE_INTERVAL_MS: about(
    "the same once every node has answered, and the primary has been the same, for 5 s",
  ),
  TRACKER_BUSY_POLL_MS: about(
    "pause between two looks at the positions while something is pending; at least 4 while nearly every look finds that the log has moved",
  ),
  TRACKER_IDLE_POLL_MS: about("the same while nothing is"),
  TRACKER_HEARTBEAT_MS: about("how often a stream says that it is alive"),
  TRACKER_MAX_STREAMS: about(
    "streams of marks that may be open; more get 503 `overloaded`; a gateway always gets one",
  ),
  TRACKER_MAX_STREAMS_PER_KEY: about("the same of one key; more get 429 `concurrency_limited`"),
  TRACKER_MAX_WAITING_PER_KEY: about(
    "tokens of one key for whose verdicts requests wait; more get 429 `concurrency_limited`",
  ),
  TRACKER_TOKENS_PER_SECOND_PER_KEY: about(
    "tokens of one key that the tracker judges in a second, after a pause ten times as many at once; more get 429 `rate_limited`",
  ),
  TRACKER_ALIVE_MS: about("a node without a report for so long does not count among the survivors"),
  TRACKER_PUBLISH_PATIENCE_MS: about(
    "how long a loss may wait for the strongest level before it is reported at the next weaker one; without an operator's command never below the exposure level",
  ),
  TRACKER_INTENT_PATIENCE_MS: about(
    "an id whose outcome was not announced is settled after so long, and not before its transaction's time is over",
  ),
  TRACKER_INTENT_GRACE_MS: about("the same after its epoch has ended"),
  TRACKER_EXPOSURE_LEVEL: about(
    "what is not durable at this level is exposed; the gateways' level must be the same",
    "`region`, or the strongest",
  ),
  TRACKER_STALL_AFTER_MS: about(
    "a level is stalled whose mark stands still for so long while something waits for it",
  ),
  TRACKER_KEEP_DURABLE_MS: about(
    "how long a transaction is kept that is durable at some level beyond the primary but not at all",
  ),
  TRACKER_MAX_KEPT: about("above this number the oldest of those leave sooner"),
  TRACKER_TOKENS_PER_OWNER: about(
    "transactions of one owner that the ledger takes from tokens alone, when no gateway announced them; others stay `pending`",
  ),
  TRACKER_EVENTS_KEEP_MS: about("how long events are kept in the store"),
  TRACKER_EVENT_STREAMS: about("streams of events that may be open; more get 503 `overloaded`"),
  TRACKER_EVENT_STREAMS_PER_KEY: about("the same of one credential; more get 429 `concurrency_limited`"),
  ...ABOUT_WEBHOOKS,
  TRACKER_MAINTAIN_MS: about("how often receipts and events are expired"),
  TRACKER_BODY_LIMIT_BYTES: about("of a request; more is 413 `body_too_large`"),
  TRACKER_CONNECT_TIMEOUT_MS: about("for a connection to a node"),
  TRACKER_CALL_TIMEOUT_MS: about("for a look at a node"),
  HIGHWATER_INTERNAL_SECRET: about(
    "by which trackers know gateways, at least 16 characters, or `@file`; the same everywhere. Required where TRACKER_AUTH asks for credentials",
    NONE,
  ),
  HIGHWATER_INTERNAL_SECRET_PREVIOUS: about("is good as well, while the secret is replaced", NONE),
};

/** Rows of the table, in the order of the configuration. */
export function configRows(): string[] {
  return referenceRows(VARIABLES, RANGES, ABOUT);
}
