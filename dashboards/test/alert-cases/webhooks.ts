// What alerts about deliveries say.
import { type Cases, TRACKER } from "./cases.ts";

export const webhookCases: Readonly<Record<string, Cases>> = {
  HighwaterWebhooksLate: {
    fires: [
      {
        series: { [`highwater_webhook_oldest_pending_seconds{${TRACKER}}`]: "0+30x60" },
        ...{ at: "20m", labels: { severity: "ticket" } },
        summary: "A webhook has been waiting for 20m 0s",
      },
    ],
    silent: [
      {
        why: "a receiver that failed once gets it again after five minutes",
        series: { [`highwater_webhook_oldest_pending_seconds{${TRACKER}}`]: "0+30x11 0x40" },
        at: ["5m", "12m", "20m"],
      },
    ],
  },
  HighwaterWebhooksGivenUp: {
    step: "2m",
    fires: [
      {
        series: {
          [`highwater_webhook_delivery_age_seconds_count{result="failed",${TRACKER}}`]: "0x15 3x45",
        },
        ...{ at: "80m", labels: { severity: "ticket" } },
        summary: "3 webhook deliveries were given up in an hour",
      },
    ],
    silent: [
      {
        why: "many were delivered",
        series: {
          [`highwater_webhook_delivery_age_seconds_count{result="failed",${TRACKER}}`]: "3x60",
          [`highwater_webhook_delivery_age_seconds_count{result="delivered",${TRACKER}}`]: "0+10x60",
        },
        at: ["10m", "90m"],
      },
    ],
  },
  HighwaterWebhookEndpointDisabled: {
    step: "2m",
    fires: [
      {
        series: { [`highwater_webhook_endpoints{disabled="yes",${TRACKER}}`]: "0x37 1x15" },
        ...{ at: "80m", labels: { severity: "ticket" } },
        summary: "A webhook endpoint was disabled within the last hour",
      },
    ],
    silent: [
      {
        why: "one that has been disabled for long; and the first hour, in which nothing can be compared",
        series: { [`highwater_webhook_endpoints{disabled="yes",${TRACKER}}`]: "2x60" },
        at: ["10m", "90m"],
      },
    ],
  },
  HighwaterEventsSetAside: {
    fires: [
      {
        series: { [`highwater_events_set_aside{${TRACKER}}`]: "0x2 14x20" },
        ...{ at: "8m", labels: { severity: "ticket" } },
        summary: "14 events could not be recorded for five minutes",
      },
    ],
    silent: [
      {
        why: "a failover during which the store takes nothing",
        series: { [`highwater_events_set_aside{${TRACKER}}`]: "0x2 14x4 0x20" },
        at: ["3m", "8m"],
      },
    ],
  },
};
