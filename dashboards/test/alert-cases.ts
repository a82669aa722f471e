// For every alert: what makes it fire, with what it then says, and what must not. Values are in promtool's notation: `0x10` is ten more
// zeros, `0+1x10` grows by one; there is one every 30 s, or at each `step`.

export type Series = Readonly<Record<string, string>>;

export interface Firing {
  readonly series: Series;
  readonly at: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly summary: string;
}

export interface Silent {
  readonly why: string;
  readonly series: Series;
  /** Moments at which nothing may fire. */
  readonly at: readonly string[];
}

export interface Cases {
  /** Between two values and two evaluations. */
  readonly step?: string;
  readonly fires: readonly [Firing, ...Firing[]];
  readonly silent: readonly [Silent, ...Silent[]];
}

const GATEWAY = 'job="highwater-gateway",instance="g1"';
const GATEWAY_2 = 'job="highwater-gateway",instance="g2"';
const TRACKER = 'job="highwater-tracker",instance="t1"';
const TRACKER_2 = 'job="highwater-tracker",instance="t2"';

/** What it needs to be silent about a restart: a counter that begins again at what it was not. */
const RESTARTED = "7x10 0x20";

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
        // Of two trackers that tell of the same transactions, both mean the same.
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

export const systemCases: Readonly<Record<string, Cases>> = {
  HighwaterServiceDown: {
    fires: [
      {
        series: { [`up{${TRACKER}}`]: "1x2 0x10" },
        ...{ at: "4m", labels: { severity: "ticket", job: "highwater-tracker", instance: "t1" } },
        summary: "highwater-tracker at t1 does not answer",
      },
    ],
    silent: [
      {
        why: "a restart between two scrapes, and a service that is not ours",
        series: { [`up{${TRACKER}}`]: "1x2 0 1x10", 'up{job="node",instance="n1"}': "0x20" },
        at: ["1m30s", "4m"],
      },
    ],
  },
  HighwaterAllGatewaysDown: {
    fires: [
      {
        series: { [`up{${GATEWAY}}`]: "1x2 0x10", [`up{${GATEWAY_2}}`]: "1x2 0x10" },
        ...{ at: "4m", labels: { severity: "page" } },
        summary: "No gateway answers",
      },
    ],
    silent: [
      {
        why: "one of two is up",
        series: { [`up{${GATEWAY}}`]: "0x10", [`up{${GATEWAY_2}}`]: "1x10" },
        at: ["4m"],
      },
    ],
  },
  HighwaterAllTrackersDown: {
    fires: [
      {
        series: { [`up{${TRACKER}}`]: "1x2 0x10", [`up{${TRACKER_2}}`]: "1x2 0x10" },
        ...{ at: "4m", labels: { severity: "page" } },
        summary: "No tracker answers",
      },
    ],
    silent: [
      {
        why: "one of two is up",
        series: { [`up{${TRACKER}}`]: "0x10", [`up{${TRACKER_2}}`]: "1x10" },
        at: ["4m"],
      },
    ],
  },
  HighwaterGatewayWithoutTracker: {
    fires: [
      {
        series: {
          [`highwater_gateway_tracker_stream_connected{tracker="a:1",${GATEWAY}}`]: "1x2 0x10",
          [`highwater_gateway_tracker_stream_connected{tracker="b:1",${GATEWAY}}`]: "0x12",
        },
        ...{ at: "4m", labels: { severity: "page", job: "highwater-gateway", instance: "g1" } },
        summary: "The gateway at g1 hears no tracker",
      },
    ],
    silent: [
      {
        why: "it listens to one of several, and moves to another",
        series: {
          [`highwater_gateway_tracker_stream_connected{tracker="a:1",${GATEWAY}}`]: "1x4 0x10",
          [`highwater_gateway_tracker_stream_connected{tracker="b:1",${GATEWAY}}`]: "0x4 1x10",
        },
        at: ["1m", "4m", "6m"],
      },
    ],
  },
  HighwaterTrackerBehind: {
    fires: [
      {
        series: { [`highwater_epoch{${TRACKER}}`]: "4x20", [`highwater_epoch{${TRACKER_2}}`]: "4x4 5x20" },
        ...{ at: "6m", labels: { severity: "ticket", job: "highwater-tracker", instance: "t1" } },
        summary: "The tracker at t1 follows an epoch that is over",
      },
    ],
    silent: [
      {
        why: "both go on within a minute of each other",
        series: {
          [`highwater_epoch{${TRACKER}}`]: "4x6 5x20",
          [`highwater_epoch{${TRACKER_2}}`]: "4x4 5x20",
        },
        at: ["3m", "6m"],
      },
    ],
  },
  HighwaterFailedOver: {
    fires: [
      {
        series: { [`highwater_epochs_begun_total{cause="promotion",${TRACKER}}`]: "0x4 1x20" },
        ...{ at: "4m", labels: { severity: "info", cause: "promotion" } },
        summary: "A new epoch reigns (promotion)",
      },
    ],
    silent: [
      {
        why: "a clean restart loses nothing",
        series: {
          [`highwater_epochs_begun_total{cause="clean_restart",${TRACKER}}`]: "0x4 1x20",
          [`highwater_epochs_begun_total{cause="promotion",${TRACKER}}`]: "0x24",
        },
        at: ["4m"],
      },
    ],
  },
  HighwaterNodeDown: {
    fires: [
      {
        series: {
          [`highwater_node_alive{node="n1",region="us-west",zone="a",${TRACKER}}`]: "0x20",
          [`highwater_node_alive{node="n1",region="us-west",zone="a",${TRACKER_2}}`]: "1x2 0x20",
        },
        ...{ at: "5m", labels: { severity: "ticket", node: "n1", region: "us-west" } },
        summary: "The node n1 in us-west answers no tracker",
      },
    ],
    silent: [
      {
        why: "one tracker is cut off from it, another hears it",
        series: {
          [`highwater_node_alive{node="n1",region="us-west",zone="a",${TRACKER}}`]: "0x20",
          [`highwater_node_alive{node="n1",region="us-west",zone="a",${TRACKER_2}}`]: "1x20",
        },
        at: ["5m"],
      },
    ],
  },
  HighwaterReplicationLag: {
    fires: [
      {
        series: { [`highwater_replication_lag_seconds{node="n1",region="us-west",${TRACKER}}`]: "0+30x20" },
        ...{ at: "5m", labels: { severity: "ticket", node: "n1", region: "us-west" } },
        summary: "The replica n1 is 5m 0s behind",
      },
    ],
    silent: [
      {
        why: "the distance is no lag, and what one cut-off tracker thinks is not what others know",
        series: {
          [`highwater_replication_lag_seconds{node="n1",region="us-west",${TRACKER}}`]: "0.06x20",
          [`highwater_replication_lag_seconds{node="n1",region="us-west",${TRACKER_2}}`]: "0+30x20",
        },
        at: ["5m", "9m"],
      },
    ],
  },
  HighwaterUnknownOutcomes: {
    fires: [
      {
        series: {
          [`highwater_gateway_unknown_outcomes_open{${GATEWAY}}`]: "2x20",
          [`highwater_gateway_unknown_outcomes_open{${GATEWAY_2}}`]: "1x20",
        },
        ...{ at: "5m", labels: { severity: "ticket" } },
        summary: "3 unknown outcomes cannot be settled",
      },
    ],
    silent: [
      {
        why: "a failover leaves some, which are settled at once",
        series: { [`highwater_gateway_unknown_outcomes_open{${GATEWAY}}`]: "0x4 40 3 0x20" },
        at: ["2m30s", "5m"],
      },
    ],
  },
  HighwaterPoolQueue: {
    fires: [
      {
        series: {
          [`highwater_gateway_pool_queue_length{node="n1",use="write",${GATEWAY}}`]: "800x20",
          [`highwater_gateway_pool_queue_bound{${GATEWAY}}`]: "1000x20",
        },
        ...{ at: "5m", labels: { severity: "ticket", job: "highwater-gateway", instance: "g1" } },
        summary: "The queue of the gateway at g1 is filled to 80%",
      },
    ],
    silent: [
      {
        why: "a short queue under load, and one of reads",
        series: {
          [`highwater_gateway_pool_queue_length{node="n1",use="write",${GATEWAY}}`]: "120x20",
          [`highwater_gateway_pool_queue_length{node="n2",use="read",${GATEWAY}}`]: "900x20",
          [`highwater_gateway_pool_queue_bound{${GATEWAY}}`]: "1000x20",
        },
        at: ["5m"],
      },
    ],
  },
  HighwaterEventLoopBusy: {
    fires: [
      {
        series: { [`nodejs_eventloop_active_seconds_total{${GATEWAY}}`]: "0+28.5x40" },
        ...{ at: "10m", labels: { severity: "ticket", job: "highwater-gateway", instance: "g1" } },
        summary: "highwater-gateway at g1 is busy 95% of the time",
      },
    ],
    silent: [
      {
        why: "a busy process with room left, and somebody else's",
        series: {
          [`nodejs_eventloop_active_seconds_total{${GATEWAY}}`]: "0+24x40",
          'nodejs_eventloop_active_seconds_total{job="shop",instance="s1"}': "0+30x40",
        },
        at: ["10m"],
      },
    ],
  },
  HighwaterTopologyRefused: {
    fires: [
      {
        series: { [`highwater_topology_refused{${GATEWAY}}`]: "0x2 1x10" },
        ...{ at: "3m", labels: { severity: "ticket", job: "highwater-gateway", instance: "g1" } },
        summary: "highwater-gateway at g1 has refused the topology's file",
      },
    ],
    silent: [
      {
        why: "a file that was half written when it was read",
        series: { [`highwater_topology_refused{${GATEWAY}}`]: "0x2 1 0x10" },
        at: ["1m30s", "3m"],
      },
    ],
  },
};

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

const durabilityOf = (all: string, inTime: string): Series => ({
  [`highwater_gateway_durability_lag_seconds_count{level="region",${GATEWAY}}`]: all,
  [`highwater_gateway_durability_lag_seconds_bucket{level="region",le="1",${GATEWAY}}`]: inTime,
});

export const sloCases: Readonly<Record<string, Cases>> = {
  HighwaterSloBurnsFast: {
    step: "1m",
    fires: [
      {
        // A fifth of the writes takes longer than a second: 20 times of what may.
        series: durabilityOf("0+600x130", "0+480x130"),
        ...{ at: "2h", labels: { severity: "page", slo: "durability" } },
        summary: "The error budget of durability burns 20 times as fast as it may",
      },
    ],
    silent: [
      {
        why: "half of what may",
        series: durabilityOf("0+4000x130", "0+3980x130"),
        at: ["10m", "1h", "2h"],
      },
      {
        why: "it was bad for twenty minutes, and is over: the short windows say so",
        series: durabilityOf("0+600x130", "0+400x20 8600+600x110"),
        at: ["1h", "2h"],
      },
      {
        why: "a slow request at night is half of all that there was",
        series: durabilityOf("0x10 2x120", "0x10 1x120"),
        at: ["12m", "15m", "1h"],
      },
      { why: "no traffic at all", series: durabilityOf("900x130", "900x130"), at: ["10m", "2h"] },
    ],
  },
  HighwaterSloBurnsSlowly: {
    step: "4m",
    fires: [
      {
        // 4% of the writes for more than a day.
        series: durabilityOf("0+2400x430", "0+2304x430"),
        ...{ at: "28h", labels: { severity: "ticket", slo: "durability" } },
        summary: "The error budget of durability burns 4.0 times as fast as it may",
      },
    ],
    silent: [
      {
        why: "half an hour without anything in time, a day ago: it is over",
        series: durabilityOf("0+2400x430", "0+2400x75 180000x7 182400+2400x350"),
        at: ["28h"],
      },
    ],
  },
};
