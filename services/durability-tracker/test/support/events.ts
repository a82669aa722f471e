// The events part of a tracker behind real HTTP, for its tests: the store is in memory, and fails and fails over as they want.
import { after } from "node:test";
import Fastify, { type FastifyInstance } from "fastify";
import {
  type DurabilityEventType,
  EpochGraph,
  type EpochId,
  type EpochRecord,
  type Offset,
  type TxnId,
} from "@highwater/protocol";
import { epochRecord } from "@highwater/protocol/testing";
import { realClock } from "@highwater/runtime";
import {
  Admission,
  Callers,
  DEFAULT_LIMITS,
  installCallers,
  installErrorHandling,
  type Principal,
} from "@highwater/service";
import { MemoryLog } from "@highwater/service/testing";
import { type EventStore, type NewEvent } from "@highwater/store";
import { MemoryEventLog, MemoryEvents } from "@highwater/store/memory";
import { type Published, type TrackerState } from "../../src/core/index.ts";
import { follow, unsettle } from "../../src/core/topology.ts";
import { DurabilityEvents, EVENT_DEFAULTS, type EventSettings } from "../../src/events/durability-events.ts";
import { MemoryOutbox } from "../../src/events/memory-outbox.ts";
import { SseClient } from "../../src/events/sse-client.ts";
import { eventRoutes } from "../../src/routes/events.ts";

export const EPOCH = "e1000000-0000-4000-8000-000000000001" as EpochId;
export const NEXT = "e2000000-0000-4000-8000-000000000002" as EpochId;
export const SIBLING = "e2bbbbbb-0000-4000-8000-000000000002" as EpochId;
const LEVELS = [{ name: "disk" }, { name: "region" }];
const principalOf = (id: string, owner: bigint): Principal => ({
  ...{ id, owner, role: null, limits: DEFAULT_LIMITS },
  scopes: new Set(id === "writer" ? ["write"] : ["read"]),
});
const PRINCIPALS = new Map([
  ["Bearer seven", principalOf("seven", 7n)],
  ["Bearer eight", principalOf("eight", -8n)],
  ["Bearer writer", principalOf("writer", 7n)],
  ["Bearer service", { ...principalOf("service", 0n), isEveryOwner: true as const }],
]);

export const record = (id: EpochId, seq: number): EpochRecord =>
  epochRecord(id, { seq, previous: seq === 1 ? null : EPOCH, node: "east", cause: "promotion" });

function epochsOf(...records: readonly EpochRecord[]): EpochGraph {
  const graph = new EpochGraph();
  graph.add(records);
  return graph;
}

const open: Tracker[] = [];
after(async () => {
  for (const tracker of open) await tracker.close();
});

/** The events part of a tracker behind real HTTP. */
export class Tracker {
  readonly events: DurabilityEvents;
  readonly outbox = new MemoryOutbox();
  readonly app: FastifyInstance = Fastify({ forceCloseConnections: true });
  readonly log = new MemoryLog();
  readonly wishes: boolean[] = [];
  /** Null: the clocks disagree. */
  timeMs: number | null = null;
  timesAsked = 0;
  url = "";
  state: TrackerState;

  private constructor(events: EventStore, settings: Partial<EventSettings>) {
    this.state = {
      config: { levels: LEVELS },
      topology: {
        standing: { kind: "following", epoch: EPOCH, node: "east" },
        ancestry: [],
        epochs: epochsOf(record(EPOCH, 1), record(NEXT, 2)),
        marks: new Map([[EPOCH, new Map([["region", 0n as Offset]])]]),
      },
      ledger: { departed: [] },
      proofs: { asked: new Map(), unproven: new Set() },
    } as unknown as TrackerState;
    this.events = new DurabilityEvents(
      {
        ...{ events, outbox: this.outbox, clock: realClock, log: this.log, random: Math.random },
        store: { prepare: () => Promise.resolve() },
        state: () => this.state,
        readTime: () => {
          this.timesAsked++;
          return Promise.resolve(this.timeMs);
        },
        wantDurable: (wanted) => this.wishes.push(wanted),
      },
      { ...EVENT_DEFAULTS, keepMs: 3_600_000, ...settings },
    );
  }

  static async start(
    store: MemoryEventLog | EventStore,
    settings: Partial<EventSettings> = {},
  ): Promise<Tracker> {
    const tracker = new Tracker(store instanceof MemoryEventLog ? new MemoryEvents(store) : store, settings);
    open.push(tracker);
    const callers = new Callers({
      authenticator: {
        authenticate: (authorization) =>
          Promise.resolve(PRINCIPALS.get(authorization ?? "") ?? principalOf("none", 0n)),
        start: () => undefined,
        stop: () => undefined,
      },
      admission: new Admission({
        clock: realClock,
        defaults: { ratePerSecond: 1e6, burst: 1e6, concurrency: 1e6 },
      }),
      clock: realClock,
      onRefused: () => undefined,
    });
    installErrorHandling(tracker.app, tracker.log);
    void tracker.app.register((scope, _options, done) => {
      installCallers(scope, callers, "stream");
      eventRoutes(scope, { events: tracker.events, levels: () => LEVELS.map(({ name }) => name) });
      done();
    });
    tracker.url = `${await tracker.app.listen({ host: "127.0.0.1", port: 0 })}/v1/durability/events`;
    await tracker.events.start();
    return tracker;
  }

  listen(query = "", headers: Record<string, string> = {}): Promise<SseClient> {
    return SseClient.open(`${this.url}${query}`, { authorization: "Bearer seven", ...headers });
  }

  async get(query: string, who = "seven"): Promise<{ status: number; body: Record<string, unknown> }> {
    const response = await fetch(`${this.url}${query}`, { headers: { authorization: `Bearer ${who}` } });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  }

  primaryEpochOf(epoch: EpochId | null): void {
    if (epoch === null) unsettle(this.state, "nobody");
    else follow(this.state, epoch, "east");
    this.events.onMarks();
  }

  async close(): Promise<void> {
    await this.events.close();
    await this.app.close();
  }
}

let made = 0;
export const published = (more: Partial<Published> = {}): Published => ({
  id: `0190a000-0000-7000-8000-${String(++made).padStart(12, "0")}` as TxnId,
  attempt: EPOCH,
  kind: "write",
  origin: null,
  owner: 7n,
  verdicts: { disk: "lost", region: "lost" },
  rule: "R6 absent",
  settledAt: "region",
  retriedIn: null,
  metadata: { order: String(made) },
  ...more,
});
export const stored = (owner: bigint | null, type: DurabilityEventType = "transaction.lost"): NewEvent => ({
  ...{ key: `k/${String(++made)}`, type, owner, data: { number: made } },
});
