// Goal: the rules that no test can bring about on servers of one machine say what they should:
// clocks, timelines, lag, lost slots, versions, clusters and unencrypted links. Method: reports of a
// healthy deployment, each with one change.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type NodeReport } from "@highwater/authority";
import { DEFAULT_LEVELS, type NodeSpec, type Offset } from "@highwater/protocol";
import { replayHoldOf } from "../deployment.ts";
import { judgeDeployment } from "./deployment-rules.ts";
import { type Deployment, type Finding, type Server, type Stream } from "./facts.ts";
import { judgeServers } from "./server-rules.ts";

const [EAST, WEST] = ["east", "west"] as const;
const SYSTEM = "7300000000000000001";

const spec = (id: string): NodeSpec => ({ id, region: id, zone: "a", url: `postgresql://${id}.example/app` });

function report(id: string, more: Partial<NodeReport> = {}): NodeReport {
  return {
    node: id,
    role: id === EAST ? "primary" : "replica",
    incarnation: `${SYSTEM}/1`,
    prepared: true,
    epochs: [],
    current: null,
    flushed: 0n as Offset,
    applied: 0n as Offset,
    unfit: null,
    upstream: null,
    isFed: id !== EAST,
    command: null,
    serverTimeMs: 0,
    ...more,
  };
}

const stream = (more: Partial<Stream> = {}): Stream => ({
  session: "1/1",
  applicationName: WEST,
  address: "10.0.0.2",
  slot: "west",
  state: "streaming",
  isSynchronous: false,
  flushed: "0/1",
  lagBytes: 0,
  isEncrypted: true,
  isLocal: false,
  ...more,
});

function server(id: string, more: Partial<Server> = {}): Server {
  return {
    report: report(id),
    versionNumber: 180_004,
    version: "18.4",
    timeline: 3,
    database: "app",
    settings: {
      full_page_writes: "on",
      hot_standby: "on",
      hot_standby_feedback: "on",
      max_connections: "400",
      max_slot_wal_keep_size: "65536",
      max_standby_streaming_delay: "30000",
      max_wal_senders: "10",
      recovery_min_apply_delay: "0",
      reserved_connections: "0",
      superuser_reserved_connections: "3",
      synchronous_standby_names: "",
      wal_keep_size: "1024",
      wal_level: "replica",
      wal_log_hints: "on",
      wal_receiver_status_interval: "10",
      wal_sender_timeout: "60000",
    },
    pendingRestart: [],
    hasChecksums: true,
    role: {
      name: "highwater_service",
      isSuperuser: false,
      monitors: true,
      signals: true,
      mayCreate: true,
      missingGroups: [],
      ownsAuditLog: false,
      ownsSequences: false,
      hasOldSequences: false,
    },
    application: null,
    isEncrypted: true,
    isLocal: false,
    streams: id === EAST ? [stream()] : [],
    slots: id === EAST ? [{ name: "west", isActive: true, keptBytes: 0, walStatus: "reserved" }] : [],
    receiver:
      id === EAST
        ? null
        : {
            status: "streaming",
            conninfo: `application_name=${id}`,
            senderHost: "east.example",
            senderPort: 5_432,
          },
    clock: { aheadMs: 0, uncertainMs: 1 },
    ...more,
  };
}

function findings(
  { east = {}, west = {} }: { readonly east?: Partial<Server>; readonly west?: Partial<Server> | null },
  more: Partial<Deployment> = {},
): Finding[] {
  const deployment: Deployment = {
    topology: { nodes: [spec(EAST), spec(WEST)], levels: DEFAULT_LEVELS },
    nodes: [
      { spec: spec(EAST), server: server(EAST, east), silent: null },
      west === null
        ? { spec: spec(WEST), server: null, silent: "connection refused" }
        : { spec: spec(WEST), server: server(WEST, west), silent: null },
    ],
    gateways: 2,
    sessionsOfGateway: 34,
    authorityFaults: [],
    isLease: false,
    replayHold: null,
    ...more,
  };
  return [...judgeDeployment(deployment), ...judgeServers(deployment)];
}

const briefly = (all: readonly Finding[]): string[] =>
  all.map(({ severity, check, node }) => `${severity} ${check} ${node ?? "all"}`);

test("nothing is said of a healthy deployment", () => {
  assert.deepEqual(findings({}), []);
});

test("a replay hold is said as a part of the failover time", () => {
  const replayHold = replayHoldOf({ HIGHWATER_REPLAY_HOLD_MS: "2500" })?.says ?? null;
  const [only, ...others] = findings({}, { replayHold });
  assert.deepEqual([only?.severity, only?.check, others], ["note", "replay_hold", []]);
  assert.match(only?.says ?? "", /takes up to 2\.5 s more/);
});

const WEST_TWICE = [stream(), stream({ session: "2/1" })];

for (const [name, parts, says] of [
  ["clocks apart", { west: { clock: { aheadMs: 61_500, uncertainMs: 5 } } }, ["warning clock west"]],
  [
    "clocks that may be apart by the way of the question",
    { west: { clock: { aheadMs: 61_500, uncertainMs: 2_000 } } },
    [],
  ],
  ["a replica on another timeline", { west: { timeline: 2 } }, ["danger timeline west"]],
  ["a replica far behind", { east: { streams: [stream({ lagBytes: 2 ** 30 })] } }, ["warning lag east"]],
  [
    "a stream that catches up",
    { east: { streams: [stream({ state: "catchup" })] } },
    ["warning stream east"],
  ],
  [
    "a slot without its log",
    { east: { slots: [{ name: "old", isActive: false, keptBytes: 0, walStatus: "lost" }] } },
    ["danger slot east"],
  ],
  [
    "a stream over the network in clear",
    { east: { streams: [stream({ isEncrypted: false })] } },
    ["warning tls east"],
  ],
  ["a connection over the network in clear", { west: { isEncrypted: false } }, ["warning tls west"]],
  ["a connection of this machine in clear", { west: { isEncrypted: false, isLocal: true } }, []],
  ["an old version", { west: { versionNumber: 140_011 } }, ["danger version all", "danger version west"]],
  [
    "a change that waits for a restart",
    { west: { pendingRestart: ["max_connections"] } },
    ["warning pending_restart west"],
  ],
  ["two databases", { west: { database: "other" } }, ["danger database all"]],
  [
    "another cluster",
    { west: { report: report(WEST, { incarnation: "99/1" }) } },
    ["danger system_identifier all"],
  ],
  [
    "no primary",
    { east: { report: report(EAST, { role: "replica" }), streams: [] } },
    ["danger primary all"],
  ],
  [
    "tables of an older version",
    { east: { report: report(EAST, { prepared: false }) } },
    ["note schema east"],
  ],
  [
    "wal_level = minimal",
    { east: { settings: { ...server(EAST).settings, wal_level: "minimal" } } },
    ["danger wal_level east"],
  ],
  [
    "hot_standby = off",
    { east: { settings: { ...server(EAST).settings, hot_standby: "off" } } },
    ["danger hot_standby east"],
  ],
  [
    "reads that stop the replay",
    { west: { settings: { ...server(WEST).settings, max_standby_streaming_delay: "-1" } } },
    ["warning max_standby_streaming_delay west"],
  ],
  [
    "PostgreSQL 19: a clean stop that waits for replicas",
    { east: { settings: { ...server(EAST).settings, wal_sender_shutdown_timeout: "-1" } } },
    [],
  ],
  [
    "PostgreSQL 19: a clean stop that leaves replicas behind",
    { east: { settings: { ...server(EAST).settings, wal_sender_shutdown_timeout: "0" } } },
    ["warning wal_sender_shutdown_timeout east"],
  ],
  [
    "no way back by pg_rewind",
    { west: { hasChecksums: false, settings: { ...server(WEST).settings, wal_log_hints: "off" } } },
    ["note pg_rewind west"],
  ],
  [
    "groups of keys that are missing",
    { east: { role: { ...server(EAST).role, missingGroups: ["highwater_app"] } } },
    ["danger role east"],
  ],
  [
    "an audit log that the services own",
    { east: { role: { ...server(EAST).role, ownsAuditLog: true } } },
    ["warning audit_log east"],
  ],
  [
    "a function for sequences that the services own",
    { east: { role: { ...server(EAST).role, ownsSequences: true } } },
    ["warning sequences east"],
  ],
  [
    "a function for sequences of an older version",
    { east: { role: { ...server(EAST).role, hasOldSequences: true } } },
    ["warning sequences east"],
  ],
] as const)
  test(`${name}: ${says.join(", ") || "nothing"}`, () => {
    assert.deepEqual(briefly(findings(parts)), says);
  });

test("a replica that does not count takes its levels along", () => {
  for (const west of [
    { receiver: null },
    { receiver: { status: "waiting", conninfo: null, senderHost: null, senderPort: null } },
  ])
    assert.deepEqual(briefly(findings({ east: { streams: [] }, west })), [
      "danger stream west",
      "danger level all",
      "danger level all",
    ]);
  assert.deepEqual(briefly(findings({ east: { streams: WEST_TWICE } })), [
    "danger application_name west",
    "danger level all",
    "danger level all",
  ]);
  const elsewhere = findings({ east: { streams: [] } });
  assert.match(elsewhere[0]?.says ?? "", /follows east\.example:5432, and not the primary east/);
});

test("a silent node is a danger of its own, and no other rule speaks of it", () => {
  assert.deepEqual(briefly(findings({ west: null })), [
    "danger reachable west",
    "danger level all",
    "danger level all",
  ]);
});

test("a password in primary_conninfo is not printed", () => {
  const settings = {
    ...server(WEST).settings,
    primary_conninfo: "host=east password='it\\'s secret' application_name=x user=u",
  };
  const west = {
    settings,
    receiver: { ...server(WEST).receiver, conninfo: "application_name=x" },
  } as Partial<Server>;
  const [finding] = findings({ east: { streams: [stream({ applicationName: "x" })] }, west });
  assert.equal(finding?.check, "application_name");
  assert.doesNotMatch(finding.change ?? "", /secret/);
  assert.match(finding.change ?? "", /password=… user=u application_name=west/);
});
