// What alerts about promises, losses and epochs say.
import { type Cases, GATEWAY, GATEWAY_2, RESTARTED, TRACKER, TRACKER_2 } from "./cases.ts";

export const promiseCases: Readonly<Record<string, Cases>> = {
  HighwaterPromiseBroken: {
    fires: [
      {
        series: { [`highwater_broken_promises_total{level="region",${TRACKER}}`]: "0x4 1x20" },
        ...{ at: "4m", labels: { severity: "page", level: "region" } },
        summary: "A promise of level region was broken",
      },
    ],
    silent: [
      {
        why: "what broke long ago is not told for ever",
        series: { [`highwater_broken_promises_total{level="region",${TRACKER}}`]: "0x4 1x60" },
        at: ["1m", "20m"],
      },
      {
        why: "a tracker was restarted, and counts from 0 again",
        series: { [`highwater_broken_promises_total{level="region",${TRACKER}}`]: RESTARTED },
        at: ["4m", "8m"],
      },
    ],
  },
  HighwaterTransactionsLost: {
    fires: [
      {
        // Two trackers that report the same transactions mean the same.
        series: {
          [`highwater_lost_total{${TRACKER}}`]: "0x20 10x20",
          [`highwater_lost_total{${TRACKER_2}}`]: "0x20 10x20",
        },
        ...{ at: "12m", labels: { severity: "page" } },
        summary: "10 transactions were lost in ten minutes",
      },
    ],
    silent: [
      {
        why: "a healthy system, and one that lost something yesterday",
        series: {
          [`highwater_lost_total{${TRACKER}}`]: "0x60",
          [`highwater_lost_total{${TRACKER_2}}`]: "12x60",
        },
        at: ["5m", "20m"],
      },
    ],
  },
  HighwaterLossesWait: {
    fires: [
      {
        series: {
          [`highwater_waiting_losses{level="region",${TRACKER}}`]: "0x2 20x20",
          [`highwater_waiting_losses_oldest_seconds{level="region",${TRACKER}}`]: "0x2 0+30x20",
        },
        ...{ at: "6m", labels: { severity: "page", level: "region" } },
        summary: "20 losses wait for level region to be reported",
      },
    ],
    silent: [
      {
        why: "a failover whose losses are reported when the replicas follow the new primary",
        series: {
          [`highwater_waiting_losses{level="region",${TRACKER}}`]: "0x4 20x3 0x20",
          [`highwater_waiting_losses_oldest_seconds{level="region",${TRACKER}}`]: "0x4 0+30x3 0x20",
        },
        at: ["3m", "5m"],
      },
    ],
  },
  HighwaterPrimaryWentBack: {
    fires: [
      {
        series: {
          [`highwater_primary_went_back_total{${TRACKER}}`]: "0x4 1x20",
          [`highwater_primary_went_back_total{${TRACKER_2}}`]: "0x4 1x20",
        },
        ...{ at: "4m", labels: { severity: "page" } },
        summary: "An older state was put under the running primary",
      },
    ],
    silent: [
      {
        why: "it happened long ago",
        series: { [`highwater_primary_went_back_total{${TRACKER}}`]: "0x4 1x60" },
        at: ["1m", "20m"],
      },
      {
        why: "a tracker was restarted, and counts from 0 again",
        series: { [`highwater_primary_went_back_total{${TRACKER}}`]: RESTARTED },
        at: ["4m", "8m"],
      },
    ],
  },
  HighwaterSplitBrain: {
    fires: [
      {
        series: {
          [`highwater_split_brain{${TRACKER}}`]: "0x2 1x10",
          [`highwater_split_brain{${TRACKER_2}}`]: "0x20",
        },
        ...{ at: "2m", labels: { severity: "page" } },
        summary: "Two writable nodes of different histories: all writes have stopped",
      },
      {
        series: { [`highwater_gateway_split_brain{${GATEWAY}}`]: "1x10" },
        ...{ at: "2m", labels: { severity: "page" } },
        summary: "Two writable nodes of different histories: all writes have stopped",
      },
    ],
    silent: [
      {
        why: "there is one history, also while nobody knows its primary",
        series: {
          [`highwater_split_brain{${TRACKER}}`]: "0x20",
          [`highwater_gateway_split_brain{${GATEWAY}}`]: "0x20",
          [`highwater_authority_settled{${TRACKER}}`]: "0x20",
        },
        at: ["2m", "5m"],
      },
    ],
  },
  HighwaterNoPrimary: {
    fires: [
      {
        series: {
          [`highwater_gateway_ready{${GATEWAY}}`]: "1x4 0x10",
          [`highwater_gateway_ready{${GATEWAY_2}}`]: "1x4 0x10",
        },
        ...{ at: "4m", labels: { severity: "page" } },
        summary: "No gateway can commit",
      },
    ],
    silent: [
      {
        why: "one gateway can commit",
        series: {
          [`highwater_gateway_ready{${GATEWAY}}`]: "0x20",
          [`highwater_gateway_ready{${GATEWAY_2}}`]: "1x20",
        },
        at: ["5m"],
      },
      {
        why: "a failover that is over within one scrape",
        series: { [`highwater_gateway_ready{${GATEWAY}}`]: "1x4 0 1x10" },
        at: ["2m30s", "3m"],
      },
    ],
  },
  HighwaterGatewayNotReady: {
    fires: [
      {
        series: {
          [`highwater_gateway_ready{${GATEWAY}}`]: "0x20",
          [`highwater_gateway_ready{${GATEWAY_2}}`]: "1x20",
        },
        ...{ at: "5m", labels: { severity: "ticket", job: "highwater-gateway", instance: "g1" } },
        summary: "The gateway at g1 cannot commit, others can",
      },
    ],
    silent: [
      {
        why: "nobody can: that is another alert",
        series: {
          [`highwater_gateway_ready{${GATEWAY}}`]: "0x20",
          [`highwater_gateway_ready{${GATEWAY_2}}`]: "0x20",
        },
        at: ["5m"],
      },
    ],
  },
  HighwaterLevelStalled: {
    fires: [
      {
        series: {
          [`highwater_level_stalled{level="region",${TRACKER}}`]: "0x2 1x20",
          [`highwater_level_stalled{level="disk",${TRACKER}}`]: "0x22",
        },
        ...{ at: "4m", labels: { severity: "page", level: "region" } },
        summary: "Nothing becomes durable at level region",
      },
    ],
    silent: [
      {
        why: "it recovered within a minute",
        series: { [`highwater_level_stalled{level="region",${TRACKER}}`]: "0x2 1 0x20" },
        at: ["1m30s", "3m"],
      },
    ],
  },
  HighwaterExposureOld: {
    fires: [
      {
        series: { [`highwater_exposed_oldest_seconds{level="region",${TRACKER}}`]: "0x2 0+30x20" },
        ...{ at: "6m", labels: { severity: "page" } },
        summary: "A transaction has been at risk for 4m 30s",
      },
    ],
    silent: [
      {
        why: "traffic as always: there is something at risk at any time, and never for long",
        series: { [`highwater_exposed_oldest_seconds{level="region",${TRACKER}}`]: "0.1 0.3 2 0.08x20" },
        at: ["1m", "5m"],
      },
      {
        why: "a failover of half a minute",
        series: { [`highwater_exposed_oldest_seconds{level="region",${TRACKER}}`]: "0x4 31 0x20" },
        at: ["2m30s", "4m"],
      },
    ],
  },
  HighwaterExposureNearLimit: {
    fires: [
      {
        series: {
          [`highwater_gateway_exposure_used{limit="exposureTransactions",${GATEWAY}}`]: "170000x20",
          [`highwater_gateway_exposure_bound{limit="exposureTransactions",${GATEWAY}}`]: "200000x20",
        },
        ...{ at: "5m", labels: { severity: "ticket", limit: "exposureTransactions" } },
        summary: "exposureTransactions is used to 85%: fast commits are delayed",
      },
    ],
    silent: [
      {
        why: "far from its limit; and a limit that is off has the bound 0",
        series: {
          [`highwater_gateway_exposure_used{limit="exposureTransactions",${GATEWAY}}`]: "900x20",
          [`highwater_gateway_exposure_bound{limit="exposureTransactions",${GATEWAY}}`]: "200000x20",
          [`highwater_gateway_exposure_used{limit="exposureBytes",${GATEWAY}}`]: "5000000x20",
          [`highwater_gateway_exposure_bound{limit="exposureBytes",${GATEWAY}}`]: "0x20",
        },
        at: ["5m"],
      },
    ],
  },
  HighwaterExposureRefusing: {
    fires: [
      {
        series: {
          [`highwater_gateway_exposure_refusals_total{limit="exposureTransactions",${GATEWAY}}`]:
            "0x4 0+20x20",
        },
        ...{ at: "6m", labels: { severity: "page", limit: "exposureTransactions" } },
        summary: "Fast commits are refused at the limit exposureTransactions",
      },
    ],
    silent: [
      {
        why: "refusals of last week",
        series: {
          [`highwater_gateway_exposure_refusals_total{limit="exposureTransactions",${GATEWAY}}`]: "412x40",
        },
        at: ["5m", "15m"],
      },
    ],
  },
  HighwaterVerdictsInDoubt: {
    fires: [
      {
        series: { [`highwater_in_doubt_transactions{state="unproven",${TRACKER}}`]: "3x60" },
        ...{ at: "15m", labels: { severity: "ticket", state: "unproven" } },
        summary: "3 transactions have had no verdict for ten minutes (unproven)",
      },
    ],
    silent: [
      {
        why: "a failover that is judged within minutes, and ids that were announced a moment ago",
        series: {
          [`highwater_in_doubt_transactions{state="unproven",${TRACKER}}`]: "0x4 500x6 0x60",
          [`highwater_in_doubt_transactions{state="intent",${TRACKER}}`]: "12x60",
        },
        at: ["5m", "15m", "25m"],
      },
    ],
  },
};
