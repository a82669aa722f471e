// A real cluster with webhooks: events as a tracker records them, and any number of dispatchers.
import { randomBytes } from "node:crypto";
import { type FastifyInstance, type InjectOptions } from "fastify";
import { type Cluster, startCluster } from "@highwater/lab-cluster";
import { type CreatedWebhook, type EpochId, makeUuidV7, type NodeSpec } from "@highwater/protocol";
import { realClock } from "@highwater/runtime";
import {
  Admission,
  Callers,
  DEFAULT_LIMITS,
  installCallers,
  type Log,
  makeServer,
  type Principal,
  type Scope,
} from "@highwater/service";
import {
  type NewEvent,
  PostgresEvents,
  PostgresStore,
  POSTGRES_DEFAULTS,
  type Recording,
} from "@highwater/store";
import { registerWebhookRoutes } from "../../src/routes/webhooks.ts";
import { parseAllowList, type Resolve } from "../../src/webhooks/address.ts";
import {
  resolveName,
  type Wants,
  WEBHOOK_DEFAULTS,
  Webhooks,
  type WebhookSettings,
} from "../../src/webhooks/index.ts";
import { type PrimaryEpoch } from "../../src/events/event-log.ts";

const NO_DELAY = { "us-east/us-west": 0 };
export const OWNER = 7n;
const LIMIT_MS = 60_000;
/** For connections and calls: no server hangs here, and on a busy machine a call may wait long. */
const TIMEOUTS = { connectTimeoutMs: 30_000, callTimeoutMs: 30_000 };

const FAST: WebhookSettings = {
  ...WEBHOOK_DEFAULTS,
  webhookAllow: parseAllowList(["127.0.0.1"]).list,
  webhookDelaysMs: [50, 50, 50],
  webhookPollMs: 50,
};

interface LogLine {
  readonly event: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** The part of a tracker that webhooks need. */
export interface Station {
  readonly webhooks: Webhooks;
  readonly events: PostgresEvents;
  readonly app: FastifyInstance;
  readonly log: readonly LogLine[];
  primaryEpoch: PrimaryEpoch | null;
  wants: Wants | null;
  record(events: readonly NewEvent[]): Promise<Recording>;
  call(method: string, path: string, more?: CallOptions): Promise<{ status: number; body: unknown }>;
  /** Makes an endpoint with the URL of the allowed receiver. */
  endpoint(url: string, more?: Record<string, unknown>, as?: string): Promise<CreatedWebhook>;
  close(): Promise<void>;
}

interface CallOptions {
  readonly body?: unknown;
  readonly as?: string;
}

export class World {
  readonly cluster: Cluster;
  readonly nodes: readonly NodeSpec[];
  readonly store: PostgresStore;
  primaryEpoch: PrimaryEpoch;
  readonly #stations = new Set<Station>();

  private constructor(
    cluster: Cluster,
    nodes: readonly NodeSpec[],
    store: PostgresStore,
    primaryEpoch: PrimaryEpoch,
  ) {
    this.cluster = cluster;
    this.nodes = nodes;
    this.store = store;
    this.primaryEpoch = primaryEpoch;
  }

  static async start(): Promise<World> {
    const cluster = await startCluster({
      nodes: [
        { id: "us-east", region: "us-east" },
        { id: "us-west", region: "us-west" },
      ],
      roundTripMs: NO_DELAY,
      settings: { wal_writer_delay: "10ms" },
    });
    const nodes = await Promise.all(
      cluster.nodes.map(async ({ id, region, zone }) => {
        return { id, region, zone, url: await cluster.connectionString(id) };
      }),
    );
    const store = new PostgresStore({
      ...{ ...POSTGRES_DEFAULTS, ...TIMEOUTS },
      ...{ nodes, clock: realClock, helper: "webhooks-test", retentionMs: 3_600_000 },
    });
    const primaryEpoch = await begin(store, "us-east");
    return new World(cluster, nodes, store, primaryEpoch);
  }

  /** Another dispatcher. It follows `primaryEpoch`, which the test may change. */
  station(name: string, settings: Partial<WebhookSettings> = {}, resolve: Resolve = resolveName): Station {
    const log: LogLine[] = [];
    const shared = { nodes: this.nodes, clock: realClock, ...TIMEOUTS };
    const events: PostgresEvents = new PostgresEvents({
      ...shared,
      helper: name,
      onRecorded: (client, fresh) => webhooks.onRecorded(client, fresh),
    });
    const webhooks: Webhooks = new Webhooks(
      { ...FAST, ...settings },
      {
        ...shared,
        helper: name,
        log: logTo(log),
        random: Math.random,
        resolve,
        primaryEpoch: () => station.primaryEpoch,
        prepare: (node) => this.store.prepare(node),
        readTime: () => Promise.resolve(realClock.wallMs()),
        recordEvent: async ({ node, epoch }, event) => {
          await events.record(node, epoch, [event]);
        },
        onWants: (wants) => (station.wants = wants),
      },
    );
    const app = serverFor(webhooks, logTo(log));
    const call: Station["call"] = async (method, path, { body, as = "7 webhooks" } = {}) => {
      const response = await app.inject({
        method,
        url: `/v1/webhooks${path}`,
        headers: { authorization: `Bearer ${as}` },
        ...(body !== undefined && { payload: body as NonNullable<InjectOptions["payload"]> }),
      });
      return {
        status: response.statusCode,
        body: response.body === "" ? null : (JSON.parse(response.body) as unknown),
      };
    };
    const station: Station = {
      ...{ webhooks, events, app, log, call },
      primaryEpoch: this.primaryEpoch,
      wants: null,
      record: (some) => {
        const { node, epoch } = this.primaryEpoch;
        return events.record(node, epoch, some);
      },
      endpoint: async (url, more = {}, as = "7 webhooks") => {
        const { status, body } = await call("POST", "", {
          as,
          body: { url, events: ["transaction.lost"], ...more },
        });
        if (status !== 201) throw new Error(JSON.stringify(body));
        return body as CreatedWebhook;
      },
      close: async () => {
        this.#stations.delete(station);
        await webhooks.close();
        await app.close();
        events.close();
      },
    };
    this.#stations.add(station);
    webhooks.start();
    return station;
  }

  /** Waits until the station can manage endpoints and enqueue. */
  async open(station: Station): Promise<Station> {
    await this.until("the queue is open", async () => (await station.call("GET", "")).status === 200);
    return station;
  }

  /** Kills the primary and promotes the replica. */
  async failOver(): Promise<void> {
    await this.cluster.kill("us-east");
    await this.cluster.promote("us-west");
    this.primaryEpoch = await begin(this.store, "us-west", 2);
    for (const station of this.#stations) station.primaryEpoch = this.primaryEpoch;
  }

  /** Asks the primary directly. */
  sql(text: string, params: readonly unknown[] = []): Promise<Record<string, unknown>[]> {
    return this.cluster.query(this.primaryEpoch.node, text, params);
  }

  async until(what: string, ask: () => Promise<boolean>): Promise<void> {
    const deadline = performance.now() + LIMIT_MS;
    while (!(await ask())) {
      if (performance.now() > deadline) throw new Error(`${what}: not within ${String(LIMIT_MS)} ms`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  async close(): Promise<void> {
    for (const station of [...this.#stations]) await station.close();
    await this.store.close();
    await this.cluster.close();
  }
}

async function begin(store: PostgresStore, node: string, minSeq = 1): Promise<PrimaryEpoch> {
  await store.prepare(node);
  const mint = { minSeq, supersedes: [], command: null, streamed: null, finalMarks: {} };
  return { node, epoch: (await store.mint(node, mint)).id as EpochId };
}

export function lostEvent(metadata?: Record<string, string>, owner = OWNER): NewEvent {
  const id = makeUuidV7(Date.now(), randomBytes(10));
  const attempt = makeUuidV7(0, Buffer.alloc(10));
  const data = { id, attempt, verdicts: { region: "lost" }, rule: "absent", ...(metadata && { metadata }) };
  return { key: `lost/${id}/${attempt}`, type: "transaction.lost", owner, data };
}

function logTo(lines: LogLine[]): Log {
  const write = (event: string, fields: Readonly<Record<string, unknown>> = {}): void => {
    lines.push({ event, fields });
  };
  return { info: write, warn: write, error: write };
}

/** The credential names its principal: `OWNER SCOPE…`. */
function serverFor(webhooks: Webhooks, log: Log): FastifyInstance {
  const app = makeServer({ bodyLimitBytes: 1_048_576, log, cutOnClose: true });
  const callers = new Callers({
    authenticator: {
      authenticate: (authorization) => Promise.resolve(principalOf(authorization ?? "")),
      start: () => undefined,
      stop: () => undefined,
    },
    admission: new Admission({ clock: realClock, defaults: DEFAULT_LIMITS }),
    clock: realClock,
    onRefused: () => undefined,
  });
  void app.register((scope, _options, done) => {
    installCallers(scope, callers);
    registerWebhookRoutes(scope, { admin: webhooks.admin });
    done();
  });
  return app;
}

function principalOf(authorization: string): Principal {
  const [owner = "0", ...scopes] = authorization.replace("Bearer ", "").split(" ");
  return {
    ...{ id: `owner ${owner}`, owner: BigInt(owner), role: null, limits: DEFAULT_LIMITS },
    scopes: new Set(scopes as Scope[]),
  };
}
