// The settings of webhooks: rows of the tracker's table of variables, and rules that combine them.
import { type AboutVariables, about, Faults, integer, listOf, NONE, type Setting } from "@highwater/service";
import { type AllowList, NOTHING_ALLOWED, parseAllowList } from "./address.ts";
import { RETRY_DELAYS_MS } from "./schedule.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const SCHEDULE = "5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h and 24 h";

const allow: Setting<AllowList> = {
  variable: "TRACKER_WEBHOOK_ALLOW",
  read: (value) => {
    const { list, faults } = parseAllowList(listOf(value));
    if (faults.length > 0) throw new Faults(...faults);
    return list;
  },
};

const delays: Setting<readonly number[]> = {
  variable: "TRACKER_WEBHOOK_DELAYS_MS",
  read: (value) => {
    const found = listOf(value);
    if (found.length === 0) return RETRY_DELAYS_MS;
    if (found.length > 100 || !found.every((item) => /^[0-9]{1,9}$/.test(item)))
      throw new Faults("must be up to 100 whole numbers of milliseconds, separated by commas");
    return Object.freeze(found.map(Number));
  },
};

/** Spread it into the service's table. */
export const WEBHOOK_SETTINGS = {
  webhookAllow: allow,
  webhookDelaysMs: delays,
  webhookTimeoutMs: integer("TRACKER_WEBHOOK_TIMEOUT_MS", { fallback: 15_000, min: 100, max: 15_000 }),
  webhookDisableAfterMs: integer("TRACKER_WEBHOOK_DISABLE_AFTER_MS", {
    fallback: 5 * DAY_MS,
    min: 1_000,
    max: 366 * DAY_MS,
  }),
  webhookEndpoints: integer("TRACKER_WEBHOOK_ENDPOINTS", { fallback: 20, min: 0, max: 1_000 }),
  webhookConcurrency: integer("TRACKER_WEBHOOK_CONCURRENCY", { fallback: 32, min: 1, max: 1_000 }),
  webhookConcurrencyPerEndpoint: integer("TRACKER_WEBHOOK_CONCURRENCY_PER_ENDPOINT", {
    fallback: 8,
    min: 1,
    max: 1_000,
  }),
  webhookPollMs: integer("TRACKER_WEBHOOK_POLL_MS", { fallback: 1_000, min: 10, max: 60_000 }),
  webhookExpireS: integer("TRACKER_WEBHOOK_EXPIRE_S", { fallback: 25, min: 25, max: 3_600 }),
  webhookKeepMs: integer("TRACKER_WEBHOOK_KEEP_MS", { fallback: 30 * DAY_MS, min: 1_000, max: 366 * DAY_MS }),
} as const;

export const ABOUT_WEBHOOKS: AboutVariables = {
  TRACKER_WEBHOOK_ALLOW: about(
    "hosts, addresses and ranges that are not public and may receive webhooks, separated by commas: [webhooks.md](webhooks.md)",
    NONE,
  ),
  TRACKER_WEBHOOK_DELAYS_MS: about(
    "delays between the attempts of one delivery, separated by commas",
    SCHEDULE,
  ),
  TRACKER_WEBHOOK_TIMEOUT_MS: about(
    "time limit for one attempt, from the look-up of the host name to the end of the answer",
  ),
  TRACKER_WEBHOOK_DISABLE_AFTER_MS: about(
    "the tracker disables an endpoint if every delivery has failed for this long",
  ),
  TRACKER_WEBHOOK_ENDPOINTS: about("maximum number of endpoints of one owner; more get 409 `webhook_limit`"),
  TRACKER_WEBHOOK_CONCURRENCY: about(
    "maximum number of attempts of this tracker at once; one owner gets at most half of them",
  ),
  TRACKER_WEBHOOK_CONCURRENCY_PER_ENDPOINT: about(
    "maximum number of attempts at one endpoint at once, by all trackers together",
  ),
  TRACKER_WEBHOOK_POLL_MS: about("pause between two queries of the queue"),
  TRACKER_WEBHOOK_EXPIRE_S: about(
    "another tracker repeats an attempt that a tracker began and has not finished after this long",
  ),
  TRACKER_WEBHOOK_KEEP_MS: about("how long the store keeps deliveries that are no longer pending"),
};

export interface WebhookSettings {
  readonly webhookAllow: AllowList;
  readonly webhookDelaysMs: readonly number[];
  readonly webhookTimeoutMs: number;
  readonly webhookDisableAfterMs: number;
  readonly webhookEndpoints: number;
  readonly webhookConcurrency: number;
  readonly webhookConcurrencyPerEndpoint: number;
  readonly webhookPollMs: number;
  readonly webhookExpireS: number;
  readonly webhookKeepMs: number;
}

export const WEBHOOK_DEFAULTS: WebhookSettings = Object.freeze({
  webhookAllow: NOTHING_ALLOWED,
  webhookDelaysMs: RETRY_DELAYS_MS,
  webhookTimeoutMs: WEBHOOK_SETTINGS.webhookTimeoutMs.range?.fallback ?? 0,
  webhookDisableAfterMs: WEBHOOK_SETTINGS.webhookDisableAfterMs.range?.fallback ?? 0,
  webhookEndpoints: WEBHOOK_SETTINGS.webhookEndpoints.range?.fallback ?? 0,
  webhookConcurrency: WEBHOOK_SETTINGS.webhookConcurrency.range?.fallback ?? 0,
  webhookConcurrencyPerEndpoint: WEBHOOK_SETTINGS.webhookConcurrencyPerEndpoint.range?.fallback ?? 0,
  webhookPollMs: WEBHOOK_SETTINGS.webhookPollMs.range?.fallback ?? 0,
  webhookExpireS: WEBHOOK_SETTINGS.webhookExpireS.range?.fallback ?? 0,
  webhookKeepMs: WEBHOOK_SETTINGS.webhookKeepMs.range?.fallback ?? 0,
});
