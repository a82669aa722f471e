// What alerts about nodes, services and their limits say.
import { type Cases, GATEWAY, GATEWAY_2, TRACKER, TRACKER_2 } from "./cases.ts";

const DAY_S = 86_400;

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
        summary: "The gateway at g1 reaches no tracker",
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
        summary: "The tracker at t1 does not follow the primary",
      },
      {
        series: { [`highwater_blind{${TRACKER}}`]: "0x4 1x20", [`highwater_blind{${TRACKER_2}}`]: "0x24" },
        ...{ at: "8m", labels: { severity: "ticket", job: "highwater-tracker", instance: "t1" } },
        summary: "The tracker at t1 does not follow the primary",
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
      {
        why: "a failover makes every tracker blind for a moment",
        series: {
          [`highwater_blind{${TRACKER}}`]: "0x4 1 0x20",
          [`highwater_blind{${TRACKER_2}}`]: "0x4 1 0x20",
        },
        at: ["5m", "7m"],
      },
    ],
  },
  HighwaterFailedOver: {
    fires: [
      {
        series: { [`highwater_epochs_begun_total{cause="promotion",${TRACKER}}`]: "0x4 1x20" },
        ...{ at: "4m", labels: { severity: "info", cause: "promotion" } },
        summary: "A new epoch is current (promotion)",
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
  HighwaterWireSessionsNearLimit: {
    fires: [
      {
        series: {
          [`highwater_gateway_wire_sessions{${GATEWAY}}`]: "950x20",
          [`highwater_gateway_wire_sessions_bound{${GATEWAY}}`]: "1000x20",
          [`highwater_gateway_wire_sessions{${GATEWAY_2}}`]: "10x20",
          [`highwater_gateway_wire_sessions_bound{${GATEWAY_2}}`]: "1000x20",
        },
        ...{ at: "5m", labels: { severity: "ticket", job: "highwater-gateway", instance: "g1" } },
        summary: "The gateway at g1 has 95% of the sessions of PostgreSQL that it may have",
      },
    ],
    silent: [
      {
        why: "all clients connect anew after a failover, and many idle sessions are no fault",
        series: {
          [`highwater_gateway_wire_sessions{${GATEWAY}}`]: "800x4 950 800x20",
          [`highwater_gateway_wire_sessions_bound{${GATEWAY}}`]: "1000x25",
        },
        at: ["2m30s", "5m"],
      },
    ],
  },
  HighwaterWireUnreceipted: {
    fires: [
      {
        series: {
          [`highwater_gateway_wire_answers_total{how="commit",${GATEWAY}}`]: "0+20x60",
          [`highwater_gateway_wire_answers_total{how="unreceipted",${GATEWAY}}`]: "0+60x60",
        },
        ...{ at: "25m", labels: { severity: "ticket" } },
        summary: "75% of the commits in commit mode have no receipt",
      },
    ],
    silent: [
      {
        why: "safe sessions need no receipts, and some statements of fast ones cannot have one",
        series: {
          [`highwater_gateway_wire_answers_total{how="commit",${GATEWAY}}`]: "0+60x60",
          [`highwater_gateway_wire_answers_total{how="unreceipted",${GATEWAY}}`]: "0+6x60",
          [`highwater_gateway_wire_answers_total{how="held",${GATEWAY}}`]: "0+600x60",
        },
        at: ["15m", "25m"],
      },
      {
        why: "a migration ran in commit mode for a few minutes",
        series: {
          [`highwater_gateway_wire_answers_total{how="commit",${GATEWAY}}`]: "0x60",
          [`highwater_gateway_wire_answers_total{how="unreceipted",${GATEWAY}}`]: "0x10 1x4 2x40",
        },
        at: ["8m", "25m"],
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
  HighwaterLockFlood: {
    fires: [
      {
        series: { [`highwater_lock_floods_total{${TRACKER}}`]: "0x4 1x20" },
        ...{ at: "4m", labels: { severity: "ticket" } },
        summary: "A session took so many locks that a tracker ended it",
      },
    ],
    silent: [
      {
        why: "it happened long ago",
        series: { [`highwater_lock_floods_total{${TRACKER}}`]: "0x4 1x60" },
        at: ["1m", "20m"],
      },
    ],
  },
  HighwaterNotificationQueue: {
    fires: [
      {
        series: { [`highwater_notification_queue_ratio{${TRACKER},node="us-east"}`]: "0 0.3x20" },
        ...{ at: "3m", labels: { severity: "ticket", node: "us-east" } },
        summary: "30% of the notification queue of us-east is taken",
      },
    ],
    silent: [
      {
        why: "a burst that listeners have read",
        series: { [`highwater_notification_queue_ratio{${TRACKER},node="us-east"}`]: "0 0.3 0x20" },
        at: ["1m", "5m"],
      },
    ],
  },
  HighwaterCertificateExpires: {
    fires: [
      {
        series: { [`highwater_tls_certificate_expires_seconds{${GATEWAY}}`]: `${String(20 * DAY_S)}x20` },
        ...{ at: "0m", labels: { severity: "ticket", job: "highwater-gateway", instance: "g1" } },
        summary: "The certificate of highwater-gateway at g1 expires in 20d 0h 0m 0s",
      },
    ],
    silent: [
      {
        why: "a month is left",
        series: { [`highwater_tls_certificate_expires_seconds{${GATEWAY}}`]: `${String(30 * DAY_S)}x20` },
        at: ["0m", "5m"],
      },
    ],
  },
};
